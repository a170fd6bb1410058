#include "ops/rotate.h"

#include "ops/dispatch.h"

namespace asr {
namespace {

constexpr Kernels kRotate{kSingle, kFloating};

}  // namespace

RotaryTable rotary_table(const torch::Tensor& cosine, const torch::Tensor& sine) {
  if (path_for(kRotate, cosine) == Path::library) return wide_rotary_table(cosine, sine);
  return {cosine.contiguous(), sine.contiguous(), {}, {}};
}

RotaryTable wide_rotary_table(const torch::Tensor& cosine, const torch::Tensor& sine) {
  return {cosine.contiguous(), sine.contiguous(), at::cat({cosine, cosine}, -1).unsqueeze(1),
          at::cat({-sine, sine}, -1).unsqueeze(1)};
}

torch::Tensor rotate(const torch::Tensor& x, const RotaryTable& table) {
  if (path_for(kRotate, x, table.cosine) == Path::cpu) return rotate_cpu(x, table);
  return table.wide_cosine.defined() ? rotate_wide(x, table) : rotate_reference(x, table);
}

torch::Tensor rotate_wide(const torch::Tensor& x, const RotaryTable& table) {
  const auto swapped = x.view({x.size(0), x.size(1), x.size(2), 2, -1}).flip(3).flatten(3);
  return at::addcmul(x * table.wide_cosine, swapped, table.signed_sine);
}

}  // namespace asr
