#include "ops/cuda_tensors.h"
#include "ops/rms_norm.h"
#include "tensor/record.h"

namespace asr {
namespace {

struct NormedRows {
  torch::Tensor sum, y, inverse;
};

cuda::Rows rows_of(const torch::Tensor& x) {
  return {x.numel() / x.size(-1), x.size(-1), number_of(x)};
}

NormedRows norm_on_gpu(const torch::Tensor& x, const torch::Tensor& added, const torch::Tensor& weight, double eps) {
  const auto kind = x.options().requires_grad(false);
  const auto rows = rows_of(x);
  NormedRows out{added.defined() ? torch::empty(x.sizes(), kind) : x, torch::empty(x.sizes(), kind),
                 torch::empty({rows.count}, kind.dtype(at::kFloat))};
  cuda::NormForward of{};
  of.x = x.data_ptr();
  of.weight = weight.data_ptr();
  of.y = out.y.data_ptr();
  of.inverse = out.inverse.data_ptr<float>();
  of.eps = static_cast<float>(eps);
  if (added.defined()) {
    of.added = added.data_ptr();
    of.sum = out.sum.data_ptr();
  }
  cuda::rms_norm_forward(rows, of, stream_of(x));
  return out;
}

// `carried`: what reaches the sum beside the norm, or undefined.
torch::Tensor pulled_back(const NormedRows& from, const torch::Tensor& weight, const torch::Tensor& grad,
                          const torch::Tensor& carried) {
  const auto dx = torch::empty(from.sum.sizes(), from.sum.options());
  const auto pull = aligned(grad);
  const auto more = carried.defined() ? aligned(carried) : carried;
  cuda::NormBackward of{};
  of.sum = from.sum.data_ptr();
  of.weight = weight.data_ptr();
  of.grad = pull.data_ptr();
  of.inverse = from.inverse.data_ptr<float>();
  of.dx = dx.data_ptr();
  if (more.defined()) of.carried = more.data_ptr();
  cuda::rms_norm_backward(rows_of(from.sum), of, stream_of(from.sum));
  return dx;
}

}  // namespace

bool norm_fits_cuda(const torch::Tensor& x, const torch::Tensor& weight) {
  return !weight.requires_grad() && in_vectors(weight, weight.size(0)) && x.size(-1) == weight.size(0) &&
         x.size(-1) * static_cast<int64_t>(x.element_size()) <= cuda::kLaunchRoom;
}

torch::Tensor rms_norm_cuda(const torch::Tensor& x, const torch::Tensor& weight, double eps) {
  const bool with_grad = needs_gradient({x});
  at::NoGradGuard no_grad;
  const auto normed = norm_on_gpu(aligned(x.detach()), {}, weight.detach(), eps);
  if (with_grad)
    record("the norm", {x}, {normed.y},
           [from = NormedRows{normed.sum, {}, normed.inverse},
            w = weight.detach()](const std::vector<torch::Tensor>& grads) {
             return std::vector<torch::Tensor>{pulled_back(from, w, grads[0], {})};
           });
  return normed.y;
}

std::pair<torch::Tensor, torch::Tensor> add_rms_norm_cuda(const torch::Tensor& x, const torch::Tensor& added,
                                                          const torch::Tensor& weight, double eps) {
  const bool with_grad = needs_gradient({x, added});
  at::NoGradGuard no_grad;
  const auto normed = norm_on_gpu(aligned(x.detach()), aligned(added.detach()), weight.detach(), eps);
  if (with_grad)
    record("the norm", {x, added}, {normed.sum, normed.y},
           [from = NormedRows{normed.sum.detach(), {}, normed.inverse},
            w = weight.detach()](const std::vector<torch::Tensor>& grads) -> std::vector<torch::Tensor> {
             if (!grads[1].defined()) return {grads[0], grads[0]};
             const auto dx = pulled_back(from, w, grads[1], grads[0]);
             return {dx, dx};
           });
  return {normed.sum, normed.y};
}

}  // namespace asr
