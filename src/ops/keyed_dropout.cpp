#include "ops/keyed_dropout.h"

#include <algorithm>

#include "ops/dispatch.h"

namespace asr {
namespace {

constexpr Kernels kDropout{kFloating, {}, kUpToSingle};

// Whole hashes for every sample.
bool fits_cuda(const torch::Tensor& x, const DropoutKey& key) {
  const auto samples = std::max<int64_t>(1, static_cast<int64_t>(key.positions.size()));
  return x.numel() / samples % 8 == 0;
}

}  // namespace

torch::Tensor keyed_dropout(const torch::Tensor& x, const DropoutKey& key) {
  if (x.numel() == 0) return x;
  check(key.positions.empty() || x.numel() % static_cast<int64_t>(key.positions.size()) == 0, "dropout of ", x.numel(),
        " entries cannot be shared by ", key.positions.size(), " samples");
  const auto path = path_for(kDropout, x);
  if (path == Path::cpu) return keyed_dropout_cpu(x, key);
  return path == Path::cuda && fits_cuda(x, key) ? keyed_dropout_cuda(x, key) : keyed_dropout_reference(x, key);
}

bool makes_masks_again(const torch::Tensor& x) {
  return path_for(kDropout, x) == Path::cuda;
}

void add_dropped(const torch::Tensor& to, const torch::Tensor& x, const DropoutKey& key) {
  at::NoGradGuard no_grad;
  if (path_for(kDropout, to, x) == Path::cuda && fits_cuda(x, key)) return add_dropped_cuda(to, x, key);
  auto sum = to;
  sum.add_(keyed_dropout(x, key));
}

void add_masked_low_rank_reference(const torch::Tensor& to, const std::vector<MaskedLowRank>& pulls) {
  at::NoGradGuard no_grad;
  for (const auto& pull : pulls) {
    auto wide = torch::empty(to.sizes(), to.options());
    at::addmm_out(wide, wide, pull.middle, pull.a, 0, pull.scale);
    add_dropped(to, wide, pull.key);
  }
}

// 16-bit numbers of ranks 8 and 16 in rows of whole vectors: what the kernel holds in its registers.
void add_masked_low_rank(const torch::Tensor& to, const std::vector<MaskedLowRank>& pulls) {
  constexpr Kernels kernels{{}, {}, {at::kHalf, at::kBFloat16}};
  bool serves = path_for(kernels, to) == Path::cuda && in_vectors(to, to.size(1));
  for (const auto& pull : pulls) {
    const int64_t rank = pull.a.size(0);
    const auto samples = std::max<int64_t>(1, static_cast<int64_t>(pull.key.positions.size()));
    serves = serves && (rank == 8 || rank == 16) && rank == pulls[0].a.size(0) && to.size(0) % samples == 0 &&
             in_vectors(pull.a, to.size(1)) && in_vectors(pull.middle, rank) &&
             pull.key.positions == pulls[0].key.positions && pull.a.scalar_type() == to.scalar_type();
  }
  if (serves) return add_masked_low_rank_cuda(to, pulls);
  add_masked_low_rank_reference(to, pulls);
}

}  // namespace asr
