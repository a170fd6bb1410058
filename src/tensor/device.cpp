#include "tensor/device.h"

#include <ATen/Context.h>

#include "base/error.h"
#include "tensor/cuda_facts.h"

namespace asr {

at::Device device_named(const std::string& name) {
  check(name == "cpu" || name == "cuda", "--device ", name, " is unknown; use cpu or cuda");
  if (name == "cpu") return at::kCPU;
  check_cuda("--device cuda");
  return at::kCUDA;
}

void allow_fast_products(at::Device device) {
  if (device.is_cuda()) at::globalContext().setAllowTF32CuBLAS(true);
}

at::ScalarType usual_type(at::Device device) {
  return device.is_cuda() ? at::kBFloat16 : at::kFloat;
}

at::ScalarType compute_type(const torch::Tensor& stored) {
  return stored.is_cpu() && stored.element_size() < 4 ? at::kFloat : stored.scalar_type();
}

}  // namespace asr
