#include "tensor/tensor_io.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace asr {
namespace {

struct DtypeMap {
  Dtype file;
  at::ScalarType torch;
};
constexpr DtypeMap kSame[] = {{Dtype::Bool, at::kBool},  {Dtype::U8, at::kByte},         {Dtype::I8, at::kChar},
                              {Dtype::I16, at::kShort},  {Dtype::F16, at::kHalf},        {Dtype::BF16, at::kBFloat16},
                              {Dtype::I32, at::kInt},    {Dtype::F32, at::kFloat},       {Dtype::I64, at::kLong},
                              {Dtype::F64, at::kDouble}, {Dtype::C64, at::kComplexFloat}};

// Eight-bit floats by their definition: E4M3 has no infinities, E8M0 is a bare power of two.
float decode_f8(Dtype dtype, uint8_t bits) {
  if (dtype == Dtype::F8_E8M0)
    return bits == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, bits - 127);
  const bool e4m3 = dtype == Dtype::F8_E4M3;
  const int mantissa_bits = e4m3 ? 3 : 2, bias = e4m3 ? 7 : 15, top = e4m3 ? 15 : 31;
  const int exponent = (bits >> mantissa_bits) & top, mantissa = bits & ((1 << mantissa_bits) - 1);
  const float sign = bits & 0x80 ? -1.0f : 1.0f;
  if (e4m3 ? (exponent == 15 && mantissa == 7) : (exponent == 31 && mantissa != 0))
    return std::numeric_limits<float>::quiet_NaN();
  if (!e4m3 && exponent == 31) return sign * std::numeric_limits<float>::infinity();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), 1 - bias - mantissa_bits);
  return sign * std::ldexp(static_cast<float>((1 << mantissa_bits) + mantissa), exponent - bias - mantissa_bits);
}

template <class From, class To>
torch::Tensor widen(const TensorView& view, at::ScalarType type, const std::string& path) {
  torch::Tensor out = torch::empty(view.shape, type);
  auto* to = out.data_ptr<To>();
  for (size_t i = 0; i < view.data.size / sizeof(From); ++i) {
    From value;
    std::memcpy(&value, view.data.data + i * sizeof(From), sizeof(From));
    check(static_cast<uint64_t>(value) <= static_cast<uint64_t>(std::numeric_limits<To>::max()), path, ": tensor '",
          view.name, "' holds a number too large for a signed integer");
    to[i] = static_cast<To>(value);
  }
  return out;
}

torch::Tensor widen_f8(const TensorView& view) {
  torch::Tensor out = torch::empty(view.shape, at::kFloat);
  auto* to = out.data_ptr<float>();
  for (size_t i = 0; i < view.data.size; ++i) to[i] = decode_f8(view.dtype, view.data.data[i]);
  return out;
}

Dtype file_dtype(const torch::Tensor& tensor, const std::string& name) {
  for (const auto& row : kSame)
    if (row.torch == tensor.scalar_type()) return row.file;
  fail("tensor '", name, "' has type ", at::toString(tensor.scalar_type()), ", which safetensors files cannot hold");
}

}  // namespace

torch::Tensor to_tensor(const TensorView& view, const std::shared_ptr<MappedFile>& file, const std::string& path) {
  switch (view.dtype) {
    case Dtype::U16:
      return widen<uint16_t, int32_t>(view, at::kInt, path);
    case Dtype::U32:
      return widen<uint32_t, int64_t>(view, at::kLong, path);
    case Dtype::U64:
      return widen<uint64_t, int64_t>(view, at::kLong, path);
    case Dtype::F8_E4M3:
    case Dtype::F8_E5M2:
    case Dtype::F8_E8M0:
      return widen_f8(view);
    default:
      break;
  }
  for (const auto& row : kSame) {
    if (row.file != view.dtype) continue;
    if (view.data.size == 0) return torch::empty(view.shape, row.torch);
    auto* data = const_cast<uint8_t*>(view.data.data);
    const bool aligned = reinterpret_cast<uintptr_t>(data) % dtype_bytes(view.dtype) == 0;
    if (file && aligned)
      return torch::from_blob(
          data, view.shape, [file](void*) {}, row.torch);
    torch::Tensor out = torch::empty(view.shape, row.torch);
    std::memcpy(out.data_ptr(), data, view.data.size);
    return out;
  }
  fail(path, ": tensor '", view.name, "' has an unsupported type");
}

torch::Tensor load_tensor(const Safetensors& file, const std::string& name) {
  return to_tensor(file.at(name), file.file, file.path);
}

torch::Tensor load_real(const Safetensors& file, const std::string& name) {
  check(file.at(name).dtype != Dtype::C64, file.path, ": tensor '", name,
        "' holds complex numbers; expected real ones");
  return load_tensor(file, name);
}

torch::Tensor load_index(const Safetensors& file, const std::string& name) {
  const auto tensor = load_real(file, name);
  check(at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false), file.path, ": tensor '", name,
        "' must hold integers");
  return tensor.to(at::kLong);
}

void save_tensors(const std::string& path, const NamedTensors& tensors,
                  const std::map<std::string, std::string>& metadata) {
  std::vector<torch::Tensor> held;  // contiguous CPU copies live until the file is written
  std::vector<TensorView> views;
  for (const auto& [name, tensor] : tensors) {
    held.push_back(tensor.detach().cpu().contiguous());
    const auto& data = held.back();
    TensorView view;
    view.name = name;
    view.dtype = file_dtype(data, name);
    view.shape = data.sizes().vec();
    view.data = {static_cast<const uint8_t*>(data.data_ptr()), static_cast<size_t>(data.numel()) * data.element_size()};
    views.push_back(std::move(view));
  }
  write_safetensors(path, views, metadata);
}

std::ostream& operator<<(std::ostream& out, const ShapeText& text) {
  out << "[";
  for (size_t i = 0; i < text.shape.size(); ++i) out << (i ? ", " : "") << text.shape[i];
  return out << "]";
}

}  // namespace asr
