// A matrix of weights as the products take it: numbers, the scale they were divided by, and how both are to be read. A
// tensor is a plain weight. The seam for formats of fewer bits: a new one is a name here and a case in values_of().
#pragma once

#include <torch/types.h>

#include <utility>

#include "base/error.h"

namespace asr {

enum class WeightFormat { plain };  // plain: the numbers themselves, in any floating type

struct Weight {
  torch::Tensor data;   // [out, in]
  torch::Tensor scale;  // undefined where the format has none
  WeightFormat format = WeightFormat::plain;

  Weight() = default;
  Weight(torch::Tensor numbers) : data(std::move(numbers)) {}  // NOLINT: a tensor is a plain weight

  int64_t rows() const { return data.size(0); }
  int64_t columns() const { return data.size(1); }
};

// The numbers in the type that is computed with; no copy where a plain weight has it already.
inline torch::Tensor values_of(const Weight& weight, at::ScalarType type) {
  switch (weight.format) {
    case WeightFormat::plain:
      check(!weight.scale.defined(), "a plain weight has no scale; divide it out or name the format");
      return weight.data.to(type);
  }
  fail("weight format ", static_cast<int>(weight.format), " is unknown to the products; use plain");
}

}  // namespace asr
