#include "io/safetensors.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "io/safetensors_metadata.h"
#include "tests/support/files.h"

namespace asr {
namespace {

ByteSpan span(const std::string& bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

// Exact-sized heap copy, so that the address sanitizer sees a read past the end.
Safetensors parse(const std::string& bytes) {
  std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  copy.shrink_to_fit();
  auto out = parse_safetensors({copy.data(), copy.size()}, "f");
  for (const auto& tensor : out.tensors)  // touch every byte the parser vouches for
    for (size_t i = 0; i < tensor.data.size; ++i) (void)*const_cast<const volatile uint8_t*>(tensor.data.data + i);
  out.tensors.clear();
  return out;
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

std::string file(const std::string& entries, size_t data_bytes) {
  return safetensors_bytes("{" + entries + "}", std::string(data_bytes, 'x'));
}

TensorView view(const std::string& name, Dtype dtype, std::vector<int64_t> shape, const std::string& data) {
  TensorView out;
  out.name = name;
  out.dtype = dtype;
  out.shape = std::move(shape);
  out.data = span(data);
  return out;
}

TEST(Safetensors, RoundTripOfEveryType) {
  TemporaryFolder folder;
  std::vector<std::string> data;
  std::vector<TensorView> views;
  data.reserve(32);
  for (int i = 0; i <= static_cast<int>(Dtype::C64); ++i) {
    const auto dtype = static_cast<Dtype>(i);
    data.push_back(std::string(3 * dtype_bytes(dtype), static_cast<char>('a' + i)));
    views.push_back(view(std::string("t") + dtype_name(dtype), dtype, {3, 1}, data.back()));
  }
  write_safetensors(folder / "all", views, {{"note", "one \"two\""}});
  const auto read = read_safetensors(folder / "all");
  ASSERT_EQ(read.tensors.size(), views.size());
  for (const auto& expected : views) {
    const auto& found = read.at(expected.name);
    EXPECT_EQ(found.dtype, expected.dtype);
    EXPECT_EQ(found.shape, expected.shape);
    EXPECT_EQ(std::memcmp(found.data.data, expected.data.data, expected.data.size), 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(found.data.data) % dtype_bytes(found.dtype), 0u)
        << found.name << " is not aligned";
  }
  EXPECT_EQ(read.metadata.at("note"), "one \"two\"");
  verify_checksum(read);
}

TEST(Safetensors, ScalarsAndEmptyTensors) {
  TemporaryFolder folder;
  const std::string four = "1234", none;
  write_safetensors(folder / "f", {view("scalar", Dtype::F32, {}, four), view("empty", Dtype::F64, {0, 7}, none)}, {});
  const auto read = read_safetensors(folder / "f");
  EXPECT_TRUE(read.at("scalar").shape.empty());
  EXPECT_EQ(read.at("empty").shape, (std::vector<int64_t>{0, 7}));
}

TEST(Safetensors, EveryFlippedByteIsNoticed) {
  TemporaryFolder folder;
  const std::string data = "12345678";
  write_safetensors(folder / "f", {view("w", Dtype::F32, {2}, data)}, {{"key", "value"}});
  const std::string good = read_text(folder / "f");
  int refused = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    try {
      const auto parsed = parse_safetensors(span(bad), "f");
      verify_checksum(parsed);
      // Only bytes without meaning may differ: the padding of the header.
      EXPECT_EQ(good[i], ' ') << "byte " << i;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, static_cast<int>(good.size()) - 9);
}

TEST(Safetensors, MalformedFilesGetOneClearLine) {
  const std::string good = entry("a", "F32", "[2]", "[0,8]");
  const struct {
    std::string bytes, message;
  } cases[] = {
      {"", "only 0 bytes"},
      {"1234567", "only 7 bytes"},
      {std::string(8, '\xff'), "beyond the file"},
      {"not a safetensors file at all", "beyond the file"},
      {safetensors_bytes("", ""), "not valid JSON"},
      {safetensors_bytes("{", ""), "not valid JSON"},
      {safetensors_bytes("[]", ""), "not an object"},
      {safetensors_bytes("3", ""), "not a JSON object"},
      {safetensors_bytes("{\"a\":\xff}", ""), "not valid JSON"},
      {file(good, 7), "outside the file"},
      {file(good, 9), "bytes after the last tensor"},
      {file(good + "," + good, 8), "stands twice"},
      {file(good + "," + entry("b", "F32", "[2]", "[4,12]"), 12), "overlaps"},
      {file(good + "," + entry("b", "F32", "[1]", "[12,16]"), 16), "unused bytes"},
      {file(entry("a", "F32", "[2]", "[8,0]"), 8), "outside the file"},
      {file(entry("a", "F32", "[3]", "[0,8]"), 8), "needs 12 bytes"},
      {file(entry("a", "F99", "[2]", "[0,8]"), 8), "unknown dtype"},
      {file(entry("a", "F32", "[-2]", "[0,8]"), 8), "not a whole number"},
      {file(entry("a", "F32", "[2.5]", "[0,8]"), 8), "not a whole number"},
      {file(entry("a", "F32", "2", "[0,8]"), 8), "no list"},
      {file(entry("a", "F32", "[4611686018427387904,4611686018427387904]", "[0,8]"), 8), "absurd shape"},
      {file(entry("a", "F32", "[9223372036854775807,0,9223372036854775807]", "[0,0]"), 0), "absurd shape"},
      {file(entry("a", "F32", "[18446744073709551615]", "[0,8]"), 8), "absurd shape"},
      {file(entry("a", "F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]", "[0,8]"), 8), "no list of at most"},
      {file(entry("a", "F32", "[2]", "[0]"), 8), "two data_offsets"},
      {file(entry("a", "F32", "[2]", "[0,18446744073709551615]"), 8), "outside the file"},
      {file("\"a\":{\"dtype\":\"F32\"}", 0), "lacks dtype, shape or data_offsets"},
      {file("\"a\":{\"dtype\":4,\"shape\":[],\"data_offsets\":[0,0]}", 0), "not text"},
      {file("\"a\":7", 0), "lacks"},
      {file("\"__metadata__\":{\"a\":1}", 0), "not text"},
      {file("\"__metadata__\":[]", 0), "not an object"},
      {file("\"__metadata__\":7", 0), "not an object"},
      {file("\"__metadata__\":{},\"__metadata__\":{}", 0), "stands twice"},
      {file("\"__metadata__\":{\"a\":\"b\",\"a\":\"c\"}", 0), "stands twice"},
      {file("\"a\":{\"shape\":[],\"shape\":[]}", 0), "stands twice"},
      {file("\"a\":{\"shape\":{}}", 0), "no list"},
      {file("\"a\":{\"shape\":[[2]]}", 0), "not a whole number"},
      {file("\"a\":{\"shape\":[1e999]}", 0), "number overflow"},
      {file("\"a\":{\"data_offsets\":[\"0\"]}", 0), "an offset that is not a whole number"},
      {safetensors_bytes(std::string("{}\0 ", 4), ""), "a zero byte"},
      {safetensors_bytes(std::string(100000, '['), ""), "not an object"},
      {safetensors_bytes("{\"a\":" + std::string(100000, '{'), ""), ""},
      {safetensors_bytes("{\"a\":{\"b\":{\"c\":{\"d\":{}}}}}", ""), "nested too deeply"},
  };
  for (const auto& c : cases) EXPECT_CONTAINS(error_of([&] { parse(c.bytes); }), c.message);
}

// Work that grows with the square of the number of tensors would make this test take minutes.
TEST(Safetensors, ManyTensorsTakeLinearTime) {
  const int count = kSanitized ? 50000 : 200000;
  std::string entries;
  for (int i = count - 1; i >= 0; --i)
    entries +=
        (entries.empty() ? "" : ",") + entry(cat("layers.", i, ".weight"), "U8", "[1]", cat("[", i, ",", i + 1, "]"));
  const auto bytes = file(entries, static_cast<size_t>(count));
  const auto parsed = parse_safetensors(span(bytes), "f");
  ASSERT_EQ(parsed.tensors.size(), static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    const auto* found = parsed.find(cat("layers.", i, ".weight"));
    ASSERT_TRUE(found != nullptr && found == &parsed.tensors[static_cast<size_t>(i)]);
  }
  EXPECT_EQ(parsed.find("layers.weight"), nullptr);
}

TEST(Safetensors, MetadataIsReadByTheOneReader) {
  Safetensors stored;
  stored.path = "f";
  stored.metadata = {{"deep", std::string(100000, '[')}, {"large", "[1e999]"}, {"good", "[1]"}};
  EXPECT_EQ(metadata_json(stored, "good")[0], 1);
  EXPECT_CONTAINS(error_of([&] { metadata_json(stored, "deep"); }), "f: metadata 'deep':1:501: not valid JSON: nested");
  EXPECT_CONTAINS(error_of([&] { metadata_json(stored, "large"); }), "number overflow");
  EXPECT_CONTAINS(error_of([&] { metadata_json(stored, "none"); }), "f: lacks the metadata 'none'");
}

TEST(Safetensors, RandomDamageNeverCrashes) {
  const std::string good = file(entry("a", "F32", "[2]", "[0,8]") + "," + entry("b", "BF16", "[2,2]", "[8,16]"), 16);
  std::mt19937 random(1);
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bad = good;
    for (unsigned n = random() % 4 + 1; n > 0; --n) bad[random() % bad.size()] = static_cast<char>(random());
    if (random() % 4 == 0) bad.resize(random() % bad.size());
    try {
      parse(bad);
      ++accepted;
    } catch (const Error&) {
    }
  }
  EXPECT_LT(accepted, 20000);
}

TEST(Safetensors, MissingTensorNamesTheNearest) {
  const auto bytes = file(entry("attention", "F32", "[2]", "[0,8]"), 8);
  const auto parsed = parse_safetensors(span(bytes), "f");
  EXPECT_CONTAINS(error_of([&] { parsed.at("atention"); }), "did you mean 'attention'?");
}

TEST(Safetensors, WriterNeverLeavesHalfAFile) {
  TemporaryFolder folder;
  const std::string data = "12345678";
  write_text(folder / "f", "old");
  EXPECT_CONTAINS(
      error_of([&] {
        write_safetensors(folder / "f", {view("a", Dtype::F32, {2}, data), view("a", Dtype::F32, {2}, data)}, {});
      }),
      "twice");
  EXPECT_EQ(read_text(folder / "f"), "old");
}

TEST(SafetensorsSet, IndexAndShardsMustAgree) {
  TemporaryFolder folder;
  const std::string data = "12345678";
  write_safetensors(folder / "s1.safetensors", {view("a", Dtype::F32, {2}, data)}, {});
  write_safetensors(folder / "s2.safetensors", {view("b", Dtype::F32, {2}, data)}, {});
  const auto index = [&](const std::string& map) {
    write_text(folder / "model.safetensors.index.json", "{\"metadata\":{},\"weight_map\":" + map + "}");
  };
  index(R"({"a":"s1.safetensors","b":"s2.safetensors"})");
  const auto set = read_safetensors_set(folder.path());
  EXPECT_EQ(set.tensors.size(), 2u);
  EXPECT_EQ(std::memcmp(set.tensors.at("b")->data.data, data.data(), 8), 0);

  const auto message = [&] { return error_of([&] { read_safetensors_set(folder.path()); }); };
  index(R"({"a":"s1.safetensors","b":"s3.safetensors"})");
  EXPECT_CONTAINS(message(), "shard 's3.safetensors' is missing");
  index(R"({"a":"s1.safetensors","b":"s1.safetensors"})");
  EXPECT_CONTAINS(message(), "tensor 'b' is not in shard");
  index(R"({"a":"s1.safetensors","x":"s2.safetensors"})");
  EXPECT_CONTAINS(message(), "not listed for this shard");
  index(R"({"a":"../s1.safetensors"})");
  EXPECT_CONTAINS(message(), "plain file name");
  index(R"({"a":1})");
  EXPECT_CONTAINS(message(), "not a file name");
  index("{}");
  EXPECT_CONTAINS(message(), "empty");
  write_text(folder / "model.safetensors.index.json", "{");
  EXPECT_CONTAINS(message(), "not valid JSON");
}

TEST(SafetensorsSet, SingleFilesAndFolders) {
  TemporaryFolder folder;
  const std::string data = "12345678";
  EXPECT_CONTAINS(error_of([&] { read_safetensors_set(folder.path()); }), "neither");
  write_safetensors(folder / "model.safetensors", {view("a", Dtype::F32, {2}, data)}, {});
  EXPECT_EQ(read_safetensors_set(folder.path()).tensors.size(), 1u);
  EXPECT_EQ(read_safetensors_set(folder / "model.safetensors").tensors.size(), 1u);
}

}  // namespace
}  // namespace asr
