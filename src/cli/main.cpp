// Entry point; the program itself is program.cpp.
#include <cpuid.h>
#include <unistd.h>

#include <climits>
#include <cstring>

#include "cli/program.h"

namespace {

// The OpenBLAS of Debian 12 knows neither CPUs with tile instructions (Sapphire Rapids and later), where its kernels
// take three times as long as those of the CPUs before them, nor AMD's with AVX-512, where it takes those of AVX2. It
// reads the variable once, as it is loaded, so the program starts itself again with it; this comes before any library
// is initialised and costs 15 ms. What the user set stays, and where the program cannot be started again it goes on as
// it is.
constexpr char kVariable[] = "OPENBLAS_CORETYPE=";

// What SkylakeX's kernels need, of the CPU and of the kernel that saves its registers.
bool has_avx512() {
  constexpr unsigned kFoundation = 1u << 16, kDoubleQuad = 1u << 17, kByteWord = 1u << 30, kVectorLength = 1u << 31;
  constexpr unsigned kWanted = kFoundation | kDoubleQuad | kByteWord | kVectorLength;
  constexpr unsigned kReadable = 1u << 27, kSaved = 0xe6;  // OSXSAVE; registers of SSE, AVX and AVX-512
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kReadable) == 0) return false;
  unsigned saved = 0, high = 0;
  __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  if ((saved & kSaved) != kSaved) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & kWanted) == kWanted;
}

bool is_unknown_to_blas() {
  constexpr unsigned kTiles = 1u << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kTiles) != 0) return true;
  return __get_cpuid(0, &a, &b, &c, &d) != 0 && b == signature_AMD_ebx;
}

void choose_blas_kernels(int, char** argv, char** environment) {
  constexpr int kMostVariables = 4096;
  static char setting[] = "OPENBLAS_CORETYPE=SkylakeX", program[PATH_MAX];
  static char* extended[kMostVariables + 2];
  int count = 0;
  for (; environment[count] != nullptr; ++count)
    if (count == kMostVariables || std::strncmp(environment[count], kVariable, sizeof kVariable - 1) == 0) return;
  const auto length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length <= 0 || !has_avx512() || !is_unknown_to_blas()) return;
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
