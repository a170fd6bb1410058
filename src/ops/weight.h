// A matrix of weights as the products take it: numbers, the scale they were divided by, and how both are to be read. A
// tensor is a plain weight. Formats of fewer bits are for frozen weights.
#pragma once

#include <torch/types.h>

#include <string>
#include <utility>

#include "base/options.h"

namespace asr {

enum class WeightFormat {
  plain,  // the numbers themselves, in any floating type
  fp8,    // float8 e4m3 with a scale a row, and a turned copy for the backward pass: products run in it (for speed)
  nf4     // the 16 values of QLoRA's normal float, two a byte, with a scale for 64 neighbours (for memory)
};
template <>
struct EnumNames<WeightFormat> {
  static constexpr const char* names[] = {"plain", "fp8", "nf4"};
};

WeightFormat weight_format_named(const std::string& name);  // an unknown name is an error

struct Weight {
  torch::Tensor data;   // [out, in]; nf4: [out, in / 2] bytes
  torch::Tensor scale;  // undefined where the format has none; fp8: [out, 1], nf4: [out, in / 64], float32
  WeightFormat format = WeightFormat::plain;
  torch::Tensor turned, turned_scale;  // fp8: the same matrix as [in, out] with a scale for each of its rows

  Weight() = default;
  Weight(torch::Tensor numbers) : data(std::move(numbers)) {}  // NOLINT: a tensor is a plain weight

  bool defined() const { return data.defined(); }
  int64_t rows() const { return data.size(0); }
  int64_t columns() const { return format == WeightFormat::nf4 ? data.size(1) * 2 : data.size(1); }
};

// The numbers in the type that is computed with; no copy where a plain weight has it already.
torch::Tensor values_of(const Weight& weight, at::ScalarType type);

// Numbers [out, in] in a format; nf4 needs rows of whole stretches of 64.
Weight in_format(const torch::Tensor& numbers, WeightFormat format);

// What products of float8 need of a GPU. Elsewhere the same numbers are multiplied in float32.
struct Fp8Facts {
  bool in_library = false;  // libtorch multiplies them
  bool kernels = false;     // this program rounds rows to them
  int capability = 0;       // of the GPU: 90 is 9.0
  bool multiplies = false;  // a small product was tried there
};
Fp8Facts fp8_facts(at::Device device);
std::string missing_for_fp8(const Fp8Facts& facts);  // one line that says what to do; empty: nothing is missing
bool has_fp8(at::Device device);

// ---- what in_format and values_of are made of, each with its plain form ---------------------------------------------

Weight packed_nf4(const torch::Tensor& numbers);
torch::Tensor unpacked_nf4(const Weight& weight, at::ScalarType type);
torch::Tensor unpacked_nf4_reference(const Weight& weight, at::ScalarType type);
torch::Tensor unpacked_nf4_cuda(const Weight& weight, at::ScalarType type);

// Rows divided by a scale each, so that their largest entries are 448, as float8 e4m3. Where products of float8 are
// missing, and in the plain form, float32 tensors hold the rounded numbers.
struct Fp8Rows {
  torch::Tensor data, scale;  // [rows, width], [rows, 1] float32
};
torch::Tensor rounded_e4m3(const torch::Tensor& x);  // float32 of at most 448 in size: the nearest e4m3, ties to even
Fp8Rows fp8_rows(const torch::Tensor& x);
Fp8Rows fp8_rows_reference(const torch::Tensor& x);
Fp8Rows fp8_rows_cuda(const torch::Tensor& x);

}  // namespace asr
