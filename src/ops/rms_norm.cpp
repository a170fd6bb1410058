#include "ops/rms_norm.h"

#include "ops/dispatch.h"

#if __has_include(<ATen/ops/rms_norm.h>)
#define ASR_HAVE_RMS_NORM 1
#endif

namespace asr {
namespace {

#ifdef ASR_HAVE_RMS_NORM
constexpr Kernels kRmsNorm{kSingle, kFloating, kUpToSingle};
#else
constexpr Kernels kRmsNorm{kSingle, {}, kUpToSingle};
#endif

}  // namespace

torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double eps) {
  switch (path_for(kRmsNorm, x, weight)) {
    case Path::cpu:
      return rms_norm_cpu(x, weight, eps);
    case Path::cuda:
      if (norm_fits_cuda(x, weight)) return rms_norm_cuda(x, weight, eps);
      [[fallthrough]];
    case Path::library:
#ifdef ASR_HAVE_RMS_NORM
      return at::rms_norm(x, {x.size(-1)}, {}, eps) * weight;  // rounded as the reference is
#endif
    case Path::reference:
      break;
  }
  return rms_norm_reference(x, weight, eps);
}

std::pair<torch::Tensor, torch::Tensor> add_rms_norm(const torch::Tensor& x, const torch::Tensor& added,
                                                     const torch::Tensor& weight, double eps) {
  const auto path = path_for(kRmsNorm, x, added, weight);
  if (path == Path::cpu && x.sizes() == added.sizes()) return add_rms_norm_cpu(x, added, weight, eps);
  if (path == Path::cuda && x.sizes() == added.sizes() && norm_fits_cuda(x, weight))
    return add_rms_norm_cuda(x, added, weight, eps);
  const auto sum = x + added;
  return {sum, rms_norm(sum, weight, eps)};
}

}  // namespace asr
