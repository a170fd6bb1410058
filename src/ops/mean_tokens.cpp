#include "ops/mean_tokens.h"

#include "ops/dispatch.h"

namespace asr {

torch::Tensor mean_tokens(const torch::Tensor& x, const torch::Tensor& mask) {
  constexpr Kernels kernels{kSingle, {}};
  return path_for(kernels, x) == Path::cpu ? mean_tokens_cpu(x, mask) : mean_tokens_reference(x, mask);
}

}  // namespace asr
