#include "tensor/cuda_facts.h"

#include <ATen/Context.h>
#include <dlfcn.h>

#include "base/error.h"

namespace asr {
namespace {

template <class Function>
Function cuda_function(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

std::string version_name(int version) {
  return cat(version / 1000, ".", version % 1000 / 10);
}

}  // namespace

CudaFacts cuda_facts() {
  CudaFacts out;
  const auto runtime = cuda_function<int (*)(int*)>("cudaRuntimeGetVersion");
  const auto driver = cuda_function<int (*)(int*)>("cudaDriverGetVersion");
  const auto count = cuda_function<int (*)(int*)>("cudaGetDeviceCount");
  const auto text = cuda_function<const char* (*)(int)>("cudaGetErrorString");
  if (!runtime || !driver || !count || !text) return out;
  out.in_build = true;
  runtime(&out.runtime);
  driver(&out.driver);
  if (const int status = count(&out.devices)) {
    out.devices = 0;
    out.error = text(status);
  }
  return out;
}

std::string cuda_problem(const CudaFacts& facts) {
  if (!facts.in_build) return "this build has no CUDA; build with 'make PRESET=cuda', or use cpu";
  if (facts.devices > 0) return "";
  if (facts.driver == 0)
    return cat("this build has CUDA ", version_name(facts.runtime), ", but the machine has no NVIDIA driver; use cpu");
  if (facts.driver / 1000 < facts.runtime / 1000)
    return cat("this build's libtorch is for CUDA ", version_name(facts.runtime), ", and the driver here goes up to ",
               version_name(facts.driver), "; build with a libtorch for CUDA ", facts.driver / 1000,
               " (ASR_TORCH_FROM_PYTHON), update the driver, or use cpu");
  return cat("no GPU can be used", facts.error.empty() ? "" : cat(" (", facts.error, ")"),
             "; see nvidia-smi and CUDA_VISIBLE_DEVICES, or use cpu");
}

void check_cuda(const std::string& option) {
  if (at::hasCUDA()) return;
  const auto problem = cuda_problem(cuda_facts());
  fail(option, ": ", problem.empty() ? "libtorch finds no GPU; use cpu" : problem);
}

std::optional<DeviceMemory> device_memory() {
  const auto ask = cuda_function<int (*)(size_t*, size_t*)>("cudaMemGetInfo");
  size_t free = 0, all = 0;
  if (!ask || ask(&free, &all) != 0) return std::nullopt;
  return DeviceMemory{static_cast<double>(free), static_cast<double>(all)};
}

}  // namespace asr
