// The two products of a weight on flat rows, nothing recorded: what a forward pass makes of x, and what a backward pass
// makes of dy. The products of adapted maps (ops/adapted_linear_products.h) ask these and never read a weight's data,
// so that a format with products of its own is a case here.
#pragma once

#include <torch/csrc/autograd/saved_variable.h>
#include <torch/types.h>

#include "ops/weight.h"

namespace asr {

// The weight as the products take it, for factors of this type: what is unpacked once for all rows is unpacked here. It
// lives as long as a call; a backward pass asks again.
Weight for_products(const Weight& weight, at::ScalarType type);

// y = x W^T (+ bias): x [rows, in], y [rows, out], bias [out] or undefined.
void multiply_by(const torch::Tensor& y, const torch::Tensor& x, const Weight& weight, const torch::Tensor& bias);

// dx (+)= dy W: dy [rows, out], dx [rows, in].
void multiply_by_transposed(const torch::Tensor& dx, const torch::Tensor& dy, const Weight& weight, bool accumulate);

// A weight that waits for the backward pass. The numbers of a plain one are watched for changes; other formats are
// frozen.
class SavedWeight {
 public:
  explicit SavedWeight(const Weight& weight) : numbers_(weight.data, false), scale_(weight.scale, false) {
    format_ = weight.format;
  }
  Weight unpack() const {
    Weight out = numbers_.unpack();
    out.scale = scale_.unpack();
    out.format = format_;
    return out;
  }

 private:
  torch::autograd::SavedVariable numbers_, scale_;
  WeightFormat format_;
};

}  // namespace asr
