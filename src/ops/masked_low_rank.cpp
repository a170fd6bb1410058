#include "ops/masked_low_rank.h"

#include <algorithm>

#include "ops/dispatch.h"

namespace asr {
namespace {

// 16-bit numbers in rows of whole vectors, of one rank that parts into strips of 8 or 16. Each strip reads x and draws
// its masks anew, so there should be a rank from which the library's products of what was dropped are faster. It was
// not measured: kMostRank is where the tests end.
constexpr int64_t kMostRank = 64;
bool serves(const torch::Tensor& x, const std::vector<MaskedLowRank>& experts, bool sums) {
  constexpr Kernels kernels{{}, {}, {at::kHalf, at::kBFloat16}};
  constexpr int64_t most = cuda::kPullRows * cuda::kMostBlocksDown;
  if (path_for(kernels, x) != Path::cuda || !in_vectors(x, x.size(1)) || x.size(0) > most) return false;
  const auto fits = [&](const MaskedLowRank& expert) {
    const int64_t rank = expert.a.size(0);
    const auto samples = std::max<int64_t>(1, static_cast<int64_t>(expert.key.positions.size()));
    return rank % 8 == 0 && rank <= kMostRank && rank == experts[0].a.size(0) && x.size(0) % samples == 0 &&
           expert.key.positions == experts[0].key.positions && in_vectors(expert.a, x.size(1)) &&
           in_vectors(expert.middle, rank) && expert.middle.scalar_type() == x.scalar_type() &&
           expert.a.scalar_type() == (sums ? at::kFloat : x.scalar_type());
  };
  return std::all_of(experts.begin(), experts.end(), fits);
}

}  // namespace

void masked_middles(const torch::Tensor& x, const std::vector<MaskedLowRank>& experts) {
  if (experts.empty()) return;
  at::NoGradGuard no_grad;
  serves(x, experts, false) ? masked_middles_cuda(x, experts) : masked_middles_reference(x, experts);
}

void add_masked_pulls(const torch::Tensor& dx, const std::vector<MaskedLowRank>& experts) {
  if (experts.empty()) return;
  at::NoGradGuard no_grad;
  serves(dx, experts, false) ? add_masked_pulls_cuda(dx, experts) : add_masked_pulls_reference(dx, experts);
}

void masked_sums(const torch::Tensor& x, const std::vector<MaskedLowRank>& experts) {
  if (experts.empty()) return;
  at::NoGradGuard no_grad;
  serves(x, experts, true) ? masked_sums_cuda(x, experts) : masked_sums_reference(x, experts);
}

}  // namespace asr
