// Entry point; the program itself is program.cpp.
#include "cli/program.h"

int main(int argc, char** argv) {
  return asr::program(argc, argv);
}
