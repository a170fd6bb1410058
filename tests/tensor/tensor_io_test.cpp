#include "tensor/tensor_io.h"

#include <cmath>

#include "tensor/runtime.h"
#include "tests/support/files.h"

namespace asr {
namespace {

TEST(TensorIo, RoundTripOfEveryTypeIsBitExact) {
  TemporaryFolder folder;
  torch::manual_seed(1);
  const NamedTensors tensors = {{"f32", torch::randn({3, 4})},
                                {"f64", torch::randn({5}, at::kDouble)},
                                {"f16", torch::randn({7}).to(at::kHalf)},
                                {"bf16", torch::randn({2, 3}).to(at::kBFloat16)},
                                {"i64", torch::arange(6)},
                                {"i32", torch::arange(5, at::kInt)},
                                {"i16", torch::arange(4, at::kShort)},
                                {"i8", torch::arange(3, at::kChar)},
                                {"u8", torch::arange(3, at::kByte)},
                                {"bool", torch::tensor({true, false, true})},
                                {"transposed", torch::randn({3, 4}).t()},
                                {"scalar", torch::tensor(2.5)},
                                {"empty", torch::empty({0, 3})}};
  save_tensors(folder / "f", tensors, {});
  const auto file = read_safetensors(folder / "f");
  for (const auto& [name, expected] : tensors) {
    const auto found = load_tensor(file, name);
    EXPECT_EQ(found.scalar_type(), expected.scalar_type()) << name;
    EXPECT_TRUE(at::equal(found, expected)) << name;
  }
}

TEST(TensorIo, MappedTensorsOutliveTheFileObject) {
  TemporaryFolder folder;
  const auto expected = torch::randn({1000});
  save_tensors(folder / "f", {{"a", expected}}, {});
  torch::Tensor loaded;
  {
    const auto file = read_safetensors(folder / "f");
    loaded = load_tensor(file, "a");
  }
  loaded[0] = 7;  // copy on write: neither a crash nor a changed file
  EXPECT_TRUE(at::equal(load_tensor(read_safetensors(folder / "f"), "a"), expected));
}

torch::Tensor from_bytes(Dtype dtype, std::vector<int64_t> shape, const std::string& bytes) {
  TensorView view;
  view.name = "t";
  view.dtype = dtype;
  view.shape = std::move(shape);
  view.data = {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
  return to_tensor(view, nullptr, "f");
}

// The value of an 8-bit float by its definition, written out with powers of two.
double f8_value(int bits, int exponent_bits, int mantissa_bits, int bias) {
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1),
            mantissa = bits & ((1 << mantissa_bits) - 1);
  const double fraction = mantissa / std::pow(2.0, mantissa_bits);
  const double magnitude =
      exponent == 0 ? fraction * std::pow(2.0, 1 - bias) : (1 + fraction) * std::pow(2.0, exponent - bias);
  return bits & 0x80 ? -magnitude : magnitude;
}

TEST(TensorIo, EightBitFloatsAreDecodedByDefinition) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  const auto e4m3 = from_bytes(Dtype::F8_E4M3, {256}, all), e5m2 = from_bytes(Dtype::F8_E5M2, {256}, all),
             e8m0 = from_bytes(Dtype::F8_E8M0, {256}, all);
  for (int i = 0; i < 256; ++i) {
    const double four = e4m3[i].item<float>(), five = e5m2[i].item<float>(), power = e8m0[i].item<float>();
    const int magnitude = i & 0x7f;
    EXPECT_TRUE(magnitude == 0x7f ? std::isnan(four) : four == f8_value(i, 4, 3, 7)) << i;
    EXPECT_TRUE(magnitude > 0x7c    ? std::isnan(five)
                : magnitude == 0x7c ? std::isinf(five)
                                    : five == f8_value(i, 5, 2, 15))
        << i;
    EXPECT_TRUE(i == 255 ? std::isnan(power) : power == std::ldexp(1.0, i - 127)) << i;
  }
  EXPECT_EQ(e4m3[0x7e].item<float>(), 448);
  EXPECT_EQ(e5m2[0x7b].item<float>(), 57344);
}

TEST(TensorIo, UnsignedTypesAreWidened) {
  EXPECT_EQ(from_bytes(Dtype::U16, {1}, std::string("\xff\xff", 2)).item<int>(), 65535);
  EXPECT_EQ(from_bytes(Dtype::U32, {1}, std::string("\xff\xff\xff\xff", 4)).item<int64_t>(), 4294967295);
  EXPECT_EQ(from_bytes(Dtype::U64, {1}, std::string("\x05\0\0\0\0\0\0\0", 8)).item<int64_t>(), 5);
  EXPECT_CONTAINS(error_of([] { from_bytes(Dtype::U64, {1}, std::string(8, '\xff')); }), "too large");
}

TEST(TensorIo, UnalignedDataIsCopied) {
  const std::string bytes = std::string("x") + std::string("\0\0\x80\x3f", 4);
  TensorView view;
  view.name = "t";
  view.shape = {1};
  view.data = {reinterpret_cast<const uint8_t*>(bytes.data()) + 1, 4};
  EXPECT_EQ(to_tensor(view, nullptr, "f").item<float>(), 1.0f);
}

TEST(Runtime, ThreadsAndAllocatorAreSet) {
  configure_runtime(2);
  const auto info = runtime_info();
  EXPECT_EQ(info.threads, 2);
  EXPECT_EQ(info.allocator_tuned, !kSanitized);  // which bring their own allocator
}

TEST(Runtime, PeakMemoryCountsWhatWasAlive) {
  const TensorMemoryPeak peak;
  {
    const auto a = torch::empty({1000000});
    const auto b = torch::empty({500000});
  }
  const auto c = torch::empty({250000});
  EXPECT_GE(peak.bytes(), 6000000);
  EXPECT_LT(peak.bytes(), 6100000);
}

}  // namespace
}  // namespace asr
