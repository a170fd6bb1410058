// Comparing tensors as the cases define it, and random inputs of the right kind.
#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <optional>
#include <string>
#include <vector>

#include "ops/cuda_tensors.h"
#include "spectral/descriptor.h"
#include "spectral/spectral_loss.h"
#include "tensor/runtime.h"
#include "tensor/torch_compat.h"

namespace asr {

// max |difference| over the tensor, divided by the largest |expected| entry.
inline double relative_error(const torch::Tensor& found, const torch::Tensor& expected) {
  if (found.sizes() != expected.sizes()) return INFINITY;
  if (expected.numel() == 0) return 0;
  const auto e = expected.detach().cpu().to(at::kDouble), f = found.detach().cpu().to(at::kDouble);
  const double scale = e.abs().max().item<double>(), difference = (f - e).abs().max().item<double>();
  return scale > 0 ? difference / scale : difference;
}

inline void expect_close(const torch::Tensor& found, const torch::Tensor& expected, double tolerance,
                         const std::string& what) {
  EXPECT_LE(relative_error(found, expected), tolerance) << what;
}

// Devices on which the reference runs here.
inline std::vector<at::Device> devices() {
  std::vector<at::Device> out = {at::Device(at::kCPU)};
  if (runtime_info().cuda) out.emplace_back(at::kCUDA);
  return out;
}

// Where our CUDA kernels run here: on a GPU; on the host in test_cuda_on_host, which has them as plain C++; or nowhere.
inline std::optional<at::Device> kernel_device() {
  if (cuda_kernels_take(at::kCPU)) return at::Device(at::kCPU);
  if (has_cuda_kernels() && runtime_info().cuda) return at::Device(at::kCUDA);
  return std::nullopt;
}

inline torch::Tensor random_attention(const std::vector<int64_t>& shape, at::ScalarType type = at::kDouble) {
  auto rows = shape;
  rows.pop_back();
  rows.back() = shape[4] * shape[5];
  return torch::randn(rows, type).mul(1.5).softmax(-1).view(shape).clone();
}

inline torch::Tensor random_map(int64_t height, int64_t width) {
  return torch::randn({height * width}, at::kDouble).mul(1.5).softmax(-1).view({height, width});
}

inline PrototypeTensors random_prototypes(int64_t n, const SpectralOptions& o) {
  PrototypeTensors out;
  out.skill = torch::arange(n);
  out.mean = torch::rand({n, o.dim()}, at::kDouble);
  out.variance = torch::rand({n, o.dim()}, at::kDouble) + 0.3;
  out.angular = torch::rand({n, o.angular_bins}, at::kDouble) + 0.1;
  return out;
}

}  // namespace asr
