// Entry point; the program itself is program.cpp.
#include <cpuid.h>
#include <unistd.h>

#include <climits>
#include <cstring>

#include "cli/program.h"

namespace {

// On CPUs with tile instructions (Sapphire Rapids and later) the OpenBLAS of Debian 12 chooses kernels that take three
// times as long as those of the CPUs before them. It reads the variable once, as it is loaded, so the program starts
// itself again with it; this comes before any library is initialised and costs 15 ms. What the user set stays, and
// where the program cannot be started again it goes on as it is.
constexpr char kVariable[] = "OPENBLAS_CORETYPE=";

bool has_tiles() {
  constexpr unsigned kTiles = 1u << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kTiles) != 0;
}

void choose_blas_kernels(int, char** argv, char** environment) {
  constexpr int kMostVariables = 4096;
  static char setting[] = "OPENBLAS_CORETYPE=SkylakeX", program[PATH_MAX];
  static char* extended[kMostVariables + 2];
  int count = 0;
  for (; environment[count] != nullptr; ++count)
    if (count == kMostVariables || std::strncmp(environment[count], kVariable, sizeof kVariable - 1) == 0) return;
  const auto length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length <= 0 || !has_tiles()) return;
  std::memcpy(extended, environment, static_cast<size_t>(count) * sizeof *extended);
  extended[count] = setting;
  execve(program, argv, extended);
}

__attribute__((section(".preinit_array"), used)) void (*const g_before_libraries)(int, char**,
                                                                                  char**) = choose_blas_kernels;

}  // namespace

int main(int argc, char** argv) {
  return asr::program(argc, argv);
}
