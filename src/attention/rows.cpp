#include "attention/rows.h"

namespace asr {

torch::Tensor positions_of(const torch::Tensor& mask) {
  const auto index = at::arange(mask.size(1), mask.options().dtype(at::kLong)).expand_as(mask);
  const auto sorted = std::get<0>(at::where(mask, index, at::full_like(index, mask.size(1))).sort(1));
  const int64_t longest = std::max<int64_t>(1, mask.sum(1).max().item<int64_t>());
  const auto cut = sorted.narrow(1, 0, longest);
  return at::where(cut.lt(mask.size(1)), cut, at::full_like(cut, -1));
}

torch::Tensor leading_positions(const torch::Tensor& mask, int64_t count) {
  if (!mask.is_cpu())
    return at::where(mask.narrow(1, 0, count), at::arange(count, mask.options().dtype(at::kLong)), -1);
  // By hand: this stands in every training step, where a small model's operators take microseconds.
  const auto out = torch::empty({mask.size(0), count}, at::kLong);
  auto* to = out.data_ptr<int64_t>();
  const bool* from = mask.data_ptr<bool>();
  for (int64_t b = 0; b < mask.size(0); ++b, from += mask.stride(0))
    for (int64_t t = 0; t < count; ++t) *to++ = from[t * mask.stride(1)] ? t : -1;
  return out;
}

RightAligned right_aligned(const torch::Tensor& mask) {
  const auto place = positions_of(mask);
  const int64_t longest = place.size(1);
  const auto index = at::arange(longest, place.options()).expand_as(place) - (longest - mask.sum(1, true));
  const auto column = place.gather(1, index.clamp_min(0));
  return {column.clamp_min(0), index.ge(0).logical_and(column.ge(0))};
}

}  // namespace asr
