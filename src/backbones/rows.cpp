#include "backbones/rows.h"

namespace asr {

torch::Tensor positions_of(const torch::Tensor& mask) {
  const auto index = at::arange(mask.size(1), mask.options().dtype(at::kLong)).expand_as(mask);
  const auto sorted = std::get<0>(at::where(mask, index, at::full_like(index, mask.size(1))).sort(1));
  const int64_t longest = std::max<int64_t>(1, mask.sum(1).max().item<int64_t>());
  const auto cut = sorted.narrow(1, 0, longest);
  return at::where(cut.lt(mask.size(1)), cut, at::full_like(cut, -1));
}

RightAligned right_aligned(const torch::Tensor& mask) {
  const auto place = positions_of(mask);
  const int64_t longest = place.size(1);
  const auto index = at::arange(longest, place.options()).expand_as(place) - (longest - mask.sum(1, true));
  const auto column = place.gather(1, index.clamp_min(0));
  return {column.clamp_min(0), index.ge(0).logical_and(column.ge(0))};
}

}  // namespace asr
