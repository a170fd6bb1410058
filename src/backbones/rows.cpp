#include "backbones/rows.h"

namespace asr {

torch::Tensor positions_of(const torch::Tensor& mask) {
  const auto index = at::arange(mask.size(1), mask.options().dtype(at::kLong)).expand_as(mask);
  const auto sorted = std::get<0>(at::where(mask, index, at::full_like(index, mask.size(1))).sort(1));
  const int64_t longest = std::max<int64_t>(1, mask.sum(1).max().item<int64_t>());
  const auto cut = sorted.narrow(1, 0, longest);
  return at::where(cut.lt(mask.size(1)), cut, at::full_like(cut, -1));
}

// By hand on the CPU: these stand in every training step, where a small model's operators take microseconds.
torch::Tensor leading_positions(const torch::Tensor& mask, int64_t count) {
  const auto out = leading_positions(mask.size(0), count, mask.device());
  if (!mask.is_cpu()) return at::where(mask.narrow(1, 0, count), out, -1);
  auto* to = out.data_ptr<int64_t>();
  const bool* from = mask.data_ptr<bool>();
  for (int64_t b = 0; b < mask.size(0); ++b, from += mask.stride(0), to += count)
    for (int64_t t = 0; t < count; ++t)
      if (!from[t * mask.stride(1)]) to[t] = -1;
  return out;
}

torch::Tensor leading_positions(int64_t batch, int64_t count, at::Device device) {
  if (!device.is_cpu()) return at::arange(count, at::device(device).dtype(at::kLong)).expand({batch, count});
  const auto out = torch::empty({batch, count}, at::kLong);
  auto* to = out.data_ptr<int64_t>();
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t t = 0; t < count; ++t) *to++ = t;
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
