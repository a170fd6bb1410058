#include "ops/adapted_linear_products.h"
#include "ops/masked_low_rank.h"

namespace asr {

void masked_middles_reference(const torch::Tensor& x, const std::vector<MaskedLowRank>& experts) {
  for (const auto& expert : experts) {
    auto middle = expert.middle;
    at::mm_out(middle, keyed_dropout(x, expert.key), expert.a.t());
  }
}

void add_masked_pulls_reference(const torch::Tensor& dx, const std::vector<MaskedLowRank>& experts) {
  auto sum = dx;
  for (const auto& expert : experts) {
    auto wide = torch::empty(dx.sizes(), dx.options());
    at::addmm_out(wide, wide, expert.middle, expert.a, 0, expert.scale);
    sum.add_(keyed_dropout(wide, expert.key));
  }
}

void masked_sums_reference(const torch::Tensor& x, const std::vector<MaskedLowRank>& experts) {
  for (const auto& expert : experts)
    multiply_transposed(expert.a, expert.middle, keyed_dropout(x, expert.key), expert.scale);
}

}  // namespace asr
