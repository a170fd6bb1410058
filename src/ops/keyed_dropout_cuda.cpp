#include <algorithm>
#include <cmath>

#include "ops/cuda_tensors.h"
#include "ops/keyed_dropout.h"
#include "tensor/record.h"

namespace asr {
namespace {

void drop_on_gpu(const torch::Tensor& to, const torch::Tensor& x, const DropoutKey& key) {
  torch::Tensor positions;
  cuda::Dropout of{};
  of.x = x.data_ptr();
  of.y = to.data_ptr();
  of.samples = std::max<int64_t>(1, static_cast<int64_t>(key.positions.size()));
  of.each = x.numel() / of.samples;
  if (!key.positions.empty()) {
    positions = positions_on(x.device(), key);
    of.positions = positions.data_ptr<int64_t>();
  }
  of.key = key.key;
  of.threshold = static_cast<uint32_t>(std::lround(key.probability * 256));
  of.number = number_of(x);
  cuda::keyed_dropout(of, stream_of(x));
}

}  // namespace

torch::Tensor keyed_dropout_cuda(const torch::Tensor& x, const DropoutKey& key) {
  const bool with_grad = needs_gradient({x});
  at::NoGradGuard no_grad;
  const auto from = aligned(x.detach());
  const auto out = torch::empty(from.sizes(), from.options());
  drop_on_gpu(out, from, key);
  if (with_grad)
    record("dropout", {x}, {out}, [key](const std::vector<torch::Tensor>& grads) {
      const auto pull = aligned(grads[0]);
      const auto dx = torch::empty(pull.sizes(), pull.options());
      drop_on_gpu(dx, pull, key);
      return std::vector<torch::Tensor>{dx};
    });
  return out;
}

}  // namespace asr
