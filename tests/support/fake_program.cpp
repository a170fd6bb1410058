// The program with the fake methods of the tests among its own: processes that it starts are copies of it.
#include "cli/program.h"
#include "tests/methods/fake_methods.h"

int main(int argc, char** argv) {
  asr::register_fakes();
  return asr::program(argc, argv);
}
