#include "ops/geometry_loss.h"

#include "ops/dispatch.h"
#include "tensor/tensor_io.h"

namespace asr {

torch::Tensor geometry_loss(const torch::Tensor& image, const torch::Tensor& text, const torch::Tensor& image_reference,
                            const torch::Tensor& text_reference) {
  for (const auto* tensor : {&image, &text, &image_reference, &text_reference})
    check(tensor->dim() == 2 && tensor->sizes() == image.sizes(), "geometry embeddings must all be [B, E]; found ",
          shape_text(tensor->sizes()), " beside ", shape_text(image.sizes()));
  constexpr Kernels kernels{kSingleAndDouble, {}};
  const bool kernel = path_for(kernels, image, text, image_reference, text_reference) == Path::cpu;
  return (kernel ? geometry_loss_cpu : geometry_loss_reference)(image, text, image_reference, text_reference);
}

}  // namespace asr
