// Symmetric KL between the row softmaxes of two cosine-similarity matrices; all inputs [B, E], and no gradient for the
// references. One node of the graph on the CPU.
#pragma once

#include <torch/types.h>

namespace asr {

torch::Tensor geometry_loss(const torch::Tensor& image, const torch::Tensor& text, const torch::Tensor& image_reference,
                            const torch::Tensor& text_reference);
torch::Tensor geometry_loss_reference(const torch::Tensor& image, const torch::Tensor& text,
                                      const torch::Tensor& image_reference, const torch::Tensor& text_reference);
torch::Tensor geometry_loss_cpu(const torch::Tensor& image, const torch::Tensor& text,
                                const torch::Tensor& image_reference, const torch::Tensor& text_reference);

}  // namespace asr
