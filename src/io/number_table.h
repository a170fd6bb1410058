// Tables of numbers out of safetensors files, for parts of the program that know no torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/safetensors.h"

namespace asr {

struct NumberTable {
  std::vector<int64_t> shape;
  std::vector<double> values;  // row by row

  std::vector<double> row(int64_t index) const;  // of a table of two dimensions
};

enum class NotNumbers { refused, allowed };

// F32, F64, I32 and I64; any other type, another number of dimensions and, if refused, NaN and infinity are errors.
NumberTable read_table(const Safetensors& file, const std::string& name, size_t rank,
                       NotNumbers not_numbers = NotNumbers::refused);

// I32 and I64 alone: an index or a count is never rounded.
std::vector<int64_t> read_integers(const Safetensors& file, const std::string& name);

}  // namespace asr
