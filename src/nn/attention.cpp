#include "nn/attention.h"

namespace asr {

bool order_hides_padding(const torch::Tensor& mask) {
  const int64_t later = mask.size(1) - 1;
  if (later < 0) return true;
  const auto padding_before = mask.narrow(1, 0, later).logical_not();
  return !padding_before.logical_and(mask.narrow(1, 1, later)).any().item<bool>();
}

torch::Tensor split_heads(const torch::Tensor& x, int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
}
torch::Tensor join_heads(const torch::Tensor& x) {
  return x.transpose(1, 2).reshape({x.size(0), x.size(2), -1});
}

}  // namespace asr
