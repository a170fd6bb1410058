// The two products of a weight on flat rows, nothing recorded: what a forward pass makes of x, and what a backward pass
// makes of dy. The products of adapted maps (ops/adapted_linear_products.h) ask these and never read a weight's data,
// so that a format with products of its own is a case here.
#pragma once

#include <torch/csrc/autograd/saved_variable.h>
#include <torch/types.h>

#include <optional>

#include "ops/weight.h"

namespace asr {

// The weight as the products take it, for factors of this type: what is unpacked once for all rows is unpacked here. It
// lives as long as a call; a backward pass asks again.
Weight for_products(const Weight& weight, at::ScalarType type);

// Rows that several weights multiply; what a format makes of them is made once.
struct RowFactor {
  torch::Tensor rows;
  std::optional<Fp8Rows> fp8 = std::nullopt;
};

// y = x W^T (+ bias): x [rows, in], y [rows, out], bias [out] or undefined.
void multiply_by(const torch::Tensor& y, RowFactor& x, const Weight& weight, const torch::Tensor& bias);

// dx (+)= dy W: dy [rows, out], dx [rows, in].
void multiply_by_transposed(const torch::Tensor& dx, const torch::Tensor& dy, const Weight& weight, bool accumulate);

// Whether libtorch multiplies float8 with a scale a row on this GPU: cards may have float8, and the library no product
// of it for them. Tried once.
bool multiplies_fp8(at::Device device);

// A weight that waits for the backward pass. The numbers of a plain one are watched for changes; other formats are
// frozen, so they are held as they are.
class SavedWeight {
 public:
  explicit SavedWeight(const Weight& weight) : weight_(weight) {
    if (weight.format != WeightFormat::plain) return;
    numbers_ = torch::autograd::SavedVariable(weight.data, false);
    weight_.data.reset();
  }
  Weight unpack() const {
    auto out = weight_;
    if (out.format == WeightFormat::plain) out.data = numbers_.unpack();
    return out;
  }

 private:
  torch::autograd::SavedVariable numbers_;
  Weight weight_;
};

}  // namespace asr
