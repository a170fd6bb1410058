// A file written tensor by tensor is the one that is read back; a wrong order or an end too soon leaves no file.
#include "io/safetensors_stream.h"

#include "tests/support/files.h"

namespace asr {
namespace {

TensorView view_of(const std::string& name, Dtype dtype, std::vector<int64_t> shape, const std::string& bytes) {
  return {name, dtype, std::move(shape), {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}};
}

TEST(SafetensorsStream, WritesWhatIsRead) {
  TemporaryFolder folder;
  const std::string a = "abcdefgh", b = "xy", none;
  const std::vector<TensorView> tensors = {view_of("b", Dtype::BF16, {1}, b), view_of("a", Dtype::F32, {2}, a),
                                           view_of("empty", Dtype::F32, {0, 3}, none)};
  SafetensorsStream out(folder / "f.safetensors", tensors, {{"format", "pt"}});
  for (const auto& tensor : tensors) out.write(tensor.data);
  EXPECT_FALSE(std::filesystem::exists(folder / "f.safetensors"));
  out.commit();
  const auto file = read_safetensors(folder / "f.safetensors");
  EXPECT_EQ(file.metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
  ASSERT_EQ(file.tensors.size(), 3u);
  for (const auto& tensor : tensors) {
    const auto& found = file.at(tensor.name);
    EXPECT_EQ(found.dtype, tensor.dtype);
    EXPECT_EQ(found.shape, tensor.shape);
    EXPECT_EQ(std::string(found.data.data, found.data.data + found.data.size),
              std::string(tensor.data.data, tensor.data.data + tensor.data.size));
  }
}

TEST(SafetensorsStream, RefusesOtherDataThanWasSaid) {
  TemporaryFolder folder;
  const std::string a = "abcdefgh", b = "xy";
  const auto path = folder / "f.safetensors";
  const std::vector<TensorView> tensors = {view_of("a", Dtype::F32, {2}, a), view_of("b", Dtype::BF16, {1}, b)};
  {
    SafetensorsStream out(path, tensors, {});
    EXPECT_CONTAINS(error_of([&] { out.write(tensors[1].data); }), "does not have the size said");
    out.write(tensors[0].data);
    EXPECT_CONTAINS(error_of([&] { out.commit(); }), "only 1 of 2 tensors");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_CONTAINS(error_of([&] { SafetensorsStream(path, {tensors[0], tensors[0]}, {}); }), "written twice");
}

}  // namespace
}  // namespace asr
