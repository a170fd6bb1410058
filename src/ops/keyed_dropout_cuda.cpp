#include <algorithm>
#include <cmath>

#include "ops/cuda_tensors.h"
#include "ops/keyed_dropout.h"
#include "tensor/record.h"

namespace asr {
namespace {

void drop_on_gpu(const torch::Tensor& to, const torch::Tensor& x, const DropoutKey& key, bool accumulate) {
  torch::Tensor positions;
  cuda::Dropout of{};
  of.x = x.data_ptr();
  of.y = to.data_ptr();
  of.samples = std::max<int64_t>(1, static_cast<int64_t>(key.positions.size()));
  of.each = x.numel() / of.samples;
  if (!key.positions.empty()) {
    positions = torch::tensor(key.positions, at::kLong).to(x.device(), /*non_blocking=*/true);
    of.positions = positions.data_ptr<int64_t>();
  }
  of.key = key.key;
  of.threshold = static_cast<uint32_t>(std::lround(key.probability * 256));
  of.accumulate = accumulate;
  of.number = number_of(x);
  cuda::keyed_dropout(of, stream_of(x));
}

}  // namespace

torch::Tensor keyed_dropout_cuda(const torch::Tensor& x, const DropoutKey& key) {
  const bool with_grad = needs_gradient({x});
  at::NoGradGuard no_grad;
  const auto from = x.detach().contiguous();
  const auto out = torch::empty(from.sizes(), from.options());
  drop_on_gpu(out, from, key, false);
  if (with_grad)
    record("dropout", {x}, {out}, [key](const std::vector<torch::Tensor>& grads) {
      const auto pull = grads[0].contiguous();
      const auto dx = torch::empty(pull.sizes(), pull.options());
      drop_on_gpu(dx, pull, key, false);
      return std::vector<torch::Tensor>{dx};
    });
  return out;
}

void add_dropped_cuda(const torch::Tensor& to, const torch::Tensor& x, const DropoutKey& key) {
  drop_on_gpu(to, x, key, true);
}

void add_masked_low_rank_cuda(const torch::Tensor& to, const std::vector<MaskedLowRank>& pulls) {
  torch::Tensor positions;
  for (size_t begin = 0; begin < pulls.size(); begin += cuda::kMostPulls) {
    const auto& given = pulls[begin].key.positions;
    if (!given.empty() && !positions.defined())
      positions = torch::tensor(given, at::kLong).to(to.device(), /*non_blocking=*/true);
    cuda::MaskedPulls of{};
    of.dx = to.data_ptr();
    of.samples = std::max<int64_t>(1, static_cast<int64_t>(given.size()));
    if (positions.defined()) of.positions = positions.data_ptr<int64_t>();
    for (size_t k = begin; k < std::min(pulls.size(), begin + cuda::kMostPulls); ++k) {
      const auto& pull = pulls[k];
      of.of[of.count++] = {pull.middle.data_ptr(),
                           pull.a.data_ptr(),
                           static_cast<int>(pull.a.size(0)),
                           static_cast<float>(pull.scale),
                           pull.key.key,
                           static_cast<uint32_t>(std::lround(pull.key.probability * 256))};
    }
    cuda::add_masked_pulls({to.size(0), to.size(1), number_of(to)}, of, stream_of(to));
  }
}

}  // namespace asr
