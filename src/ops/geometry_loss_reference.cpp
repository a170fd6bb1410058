#include "ops/geometry_loss.h"

namespace asr {

torch::Tensor geometry_loss_reference(const torch::Tensor& image, const torch::Tensor& text,
                                      const torch::Tensor& image_reference, const torch::Tensor& text_reference) {
  const auto similarity = [](const torch::Tensor& i, const torch::Tensor& q) {
    return (i / i.norm(2, 1, true)).matmul((q / q.norm(2, 1, true)).t()).log_softmax(1);
  };
  const auto log_p = similarity(image, text), log_q = similarity(image_reference, text_reference).detach();
  // KL(p|q) + KL(q|p) = sum (p - q)(log p - log q)
  return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum() / (2 * static_cast<double>(image.size(0)));
}

}  // namespace asr
