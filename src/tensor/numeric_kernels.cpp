#include "tensor/numeric_kernels.h"

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <dlfcn.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "tensor/cpu_kernel.h"

namespace asr {
namespace {

// What follows `key` and its colon on the first line that holds it; empty where none does.
std::string value_after(std::istream&& lines, const std::string& key) {
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find(key);
    const auto colon = at == std::string::npos ? at : line.find(':', at);
    if (colon != std::string::npos) return trimmed(line.substr(colon + 1));
  }
  return "";
}

std::string cpu_name() {
  const auto name = value_after(std::ifstream("/proc/cpuinfo"), "model name");
  return name.empty() ? "an unnamed CPU" : name;
}

std::string blas_name() {
  using Text = const char* (*)();
  const auto config = reinterpret_cast<Text>(dlsym(RTLD_DEFAULT, "openblas_get_config"));
  const auto core = reinterpret_cast<Text>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  if (config && core) {
    const std::string text = config();  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
    const auto name_end = text.find(' ', text.find(' ') + 1);
    return text.substr(0, name_end) + " with " + core() + " kernels";
  }
  return at::hasMKL() ? "Intel MKL, no OpenBLAS; it does not tell its kernels"
                      : "a library that is not OpenBLAS and does not tell its kernels";
}

}  // namespace

NumericKernels numeric_kernels() {
  static const char* const kOwn[] = {"portable", "avx2", "avx512"};
  // The one place that has told it since 1.13.
  const auto aten = value_after(std::istringstream(at::show_config()), "CPU capability usage");
  return {cpu_name(), blas_name(), aten.empty() ? "unknown" : aten, kOwn[static_cast<int>(cpu_kernel())]};
}

std::string numeric_kernels_text() {
  const auto k = numeric_kernels();
  return cat("arithmetic: ", k.cpu, "; BLAS ", k.blas, "; ATen ", k.aten, "; ours ", k.own);
}

}  // namespace asr
