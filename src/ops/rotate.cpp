#include "ops/rotate.h"

#include "ops/dispatch.h"

namespace asr {
namespace {

constexpr Kernels kRotate{kSingle, kFloating, kUpToSingle};

}  // namespace

RotaryTable rotary_table(const torch::Tensor& cosine, const torch::Tensor& sine) {
  // Heads that our kernel does not take are turned by the plain form there: they are rare.
  if (path_for(kRotate, cosine) == Path::library) return wide_rotary_table(cosine, sine);
  return {cosine.contiguous(), sine.contiguous(), {}, {}};
}

RotaryTable wide_rotary_table(const torch::Tensor& cosine, const torch::Tensor& sine) {
  return {cosine.contiguous(), sine.contiguous(), at::cat({cosine, cosine}, -1).unsqueeze(1),
          at::cat({-sine, sine}, -1).unsqueeze(1)};
}

torch::Tensor rotate(const torch::Tensor& x, const RotaryTable& table) {
  const auto path = path_for(kRotate, x, table.cosine);
  if (path == Path::cpu) return rotate_cpu(x, table);
  if (path == Path::cuda && heads_fit_cuda(x)) return rotate_cuda(x, table);
  return table.wide_cosine.defined() ? rotate_wide(x, table) : rotate_reference(x, table);
}

torch::Tensor rotate_wide(const torch::Tensor& x, const RotaryTable& table) {
  const auto swapped = x.view({x.size(0), x.size(1), x.size(2), 2, -1}).flip(3).flatten(3);
  return at::addcmul(x * table.wide_cosine, swapped, table.signed_sine);
}

}  // namespace asr
