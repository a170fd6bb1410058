#include "tensor/cpu_kernel.h"

#include <cstdlib>
#include <string>

#include "base/error.h"

namespace asr {
namespace {

CpuKernel widest() {
#ifdef __x86_64__
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  return avx2 && avx512 ? CpuKernel::avx512 : avx2 ? CpuKernel::avx2 : CpuKernel::portable;
#else
  return CpuKernel::portable;
#endif
}

}  // namespace

CpuKernel cpu_kernel() {
  const char* variable = std::getenv("ASR_KERNEL");
  const std::string wanted = variable ? variable : "";
  if (wanted.empty()) return widest();
  check(wanted == "portable" || wanted == "avx2" || wanted == "avx512", "ASR_KERNEL=", wanted,
        " is unknown; use portable, avx2 or avx512, or leave it unset");
  const auto kernel = wanted == "portable" ? CpuKernel::portable
                      : wanted == "avx2"   ? CpuKernel::avx2
                                           : CpuKernel::avx512;
  check(kernel <= widest(), "ASR_KERNEL=", wanted, ": this CPU lacks it; leave the variable unset");
  return kernel;
}

}  // namespace asr
