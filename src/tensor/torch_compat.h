// The only place that knows libtorch 1.13 (Debian) from 2.x (PyTorch wheels), and the only one that
// includes the custom-autograd headers' slow parts: include it where an op is defined.
#pragma once

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>
#include <torch/version.h>

// Since 2.3 an allocator's allocate() is not const and copy_data() is its duty.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
#define ASR_ALLOCATE_CONST
#define ASR_ALLOCATOR_COPY                                                  \
  void copy_data(void* to, const void* from, size_t count) const override { \
    default_copy_data(to, from, count);                                     \
  }
#else
#define ASR_ALLOCATE_CONST const
#define ASR_ALLOCATOR_COPY
#endif

namespace asr {

#if TORCH_VERSION_MAJOR >= 2
inline constexpr auto none = std::nullopt;  // an absent optional argument of an ATen operator
#else
inline constexpr auto none = c10::nullopt;
#endif

// Gradient of a scalar with respect to some inputs; undefined where the input does not take part.
inline std::vector<torch::Tensor> gradients(const torch::Tensor& scalar, const std::vector<torch::Tensor>& inputs) {
  return torch::autograd::grad({scalar}, inputs, /*grad_outputs=*/{}, /*retain_graph=*/none,
                               /*create_graph=*/false, /*allow_unused=*/true);
}

}  // namespace asr
