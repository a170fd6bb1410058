#include "io/number_table.h"

#include <cmath>
#include <cstring>

#include "base/error.h"

namespace asr {
namespace {

template <class From, class To>
std::vector<To> numbers_of(ByteSpan data) {
  std::vector<To> out;
  out.reserve(data.size / sizeof(From));
  for (size_t at = 0; at + sizeof(From) <= data.size; at += sizeof(From)) {
    From value;  // copied: nothing promises alignment
    std::memcpy(&value, data.data + at, sizeof(From));
    out.push_back(static_cast<To>(value));
  }
  return out;
}

const TensorView& view_of_rank(const Safetensors& file, const std::string& name, size_t rank) {
  const auto& view = file.at(name);
  check(view.shape.size() == rank, file.path, ": '", name, "' has ", view.shape.size(), " dimensions, expected ", rank);
  return view;
}

}  // namespace

std::vector<double> NumberTable::row(int64_t index) const {
  const auto begin = values.begin() + index * shape[1];
  return {begin, begin + shape[1]};
}

NumberTable read_table(const Safetensors& file, const std::string& name, size_t rank, NotNumbers not_numbers) {
  const auto& view = view_of_rank(file, name, rank);
  NumberTable out{view.shape, {}};
  if (view.dtype == Dtype::F32)
    out.values = numbers_of<float, double>(view.data);
  else if (view.dtype == Dtype::F64)
    out.values = numbers_of<double, double>(view.data);
  else if (view.dtype == Dtype::I64)
    out.values = numbers_of<int64_t, double>(view.data);
  else if (view.dtype == Dtype::I32)
    out.values = numbers_of<int32_t, double>(view.data);
  else
    fail(file.path, ": '", name, "' is ", dtype_name(view.dtype), "; expected F32, F64, I32 or I64");
  if (not_numbers == NotNumbers::refused)
    for (double value : out.values)
      check(std::isfinite(value), file.path, ": '", name, "' holds NaN or infinite values");
  return out;
}

std::vector<int64_t> read_integers(const Safetensors& file, const std::string& name) {
  const auto& view = view_of_rank(file, name, 1);
  if (view.dtype == Dtype::I64) return numbers_of<int64_t, int64_t>(view.data);
  check(view.dtype == Dtype::I32, file.path, ": '", name, "' is ", dtype_name(view.dtype), "; expected I32 or I64");
  return numbers_of<int32_t, int64_t>(view.data);
}

}  // namespace asr
