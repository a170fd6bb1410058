// Reads TensorBoard event files for tests: written from the format alone, with none of the program's code.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace asr {

struct ReadEvent {
  double wall_time = 0;
  int64_t step = 0;
  std::string version;
  std::map<std::string, float> scalars;
};

// Bit by bit, as RFC 3720 defines it.
inline uint32_t slow_crc32c(const std::string& bytes) {
  uint32_t value = 0xffffffff;
  for (const char c : bytes) {
    value ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? 0x82f63b78u : 0);
  }
  return value ^ 0xffffffff;
}

class WireReader {
 public:
  explicit WireReader(const std::string& bytes) : bytes_(bytes) {}
  bool more() const { return at_ < bytes_.size(); }
  uint64_t varint() {
    uint64_t out = 0;
    for (int shift = 0; at_ < bytes_.size(); shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes_[at_++]);
      out |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return out;
    }
    ADD_FAILURE() << "a number is cut off";
    return out;
  }
  template <class Number>
  Number fixed() {
    Number out{};
    const auto bytes = take(sizeof out);
    std::memcpy(&out, bytes.data(), bytes.size());
    return out;
  }
  std::string take(size_t size) {
    EXPECT_LE(size, bytes_.size() - at_) << "the file is cut off";
    const auto out = bytes_.substr(at_, size);
    at_ += out.size();
    return out;
  }

 private:
  const std::string& bytes_;
  size_t at_ = 0;
};

inline void read_summary(const std::string& summary, std::map<std::string, float>& scalars) {
  WireReader values(summary);
  while (values.more()) {
    EXPECT_EQ(values.varint(), 1u << 3 | 2u);
    const auto text = values.take(values.varint());
    WireReader value(text);
    EXPECT_EQ(value.varint(), 1u << 3 | 2u);
    const auto tag = value.take(value.varint());
    EXPECT_EQ(value.varint(), 2u << 3 | 5u);
    EXPECT_TRUE(scalars.emplace(tag, value.fixed<float>()).second) << tag << " stands twice";
  }
}

inline ReadEvent read_event(const std::string& bytes) {
  ReadEvent out;
  WireReader event(bytes);
  while (event.more()) {
    const auto key = event.varint();
    if (key == (1u << 3 | 1u))
      out.wall_time = event.fixed<double>();
    else if (key == (2u << 3 | 0u))
      out.step = static_cast<int64_t>(event.varint());
    else if (key == (3u << 3 | 2u))
      out.version = event.take(event.varint());
    else if (key == (5u << 3 | 2u))
      read_summary(event.take(event.varint()), out.scalars);
    else
      ADD_FAILURE() << "an unknown field " << key;
    if (::testing::Test::HasFailure()) break;
  }
  return out;
}

// The bytes of every record, their check sums verified.
inline std::vector<std::string> read_records(const std::string& file) {
  std::vector<std::string> out;
  WireReader reader(file);
  const auto masked = [](const std::string& bytes) {
    const uint32_t crc = slow_crc32c(bytes);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
  };
  while (reader.more() && !::testing::Test::HasFailure()) {
    const auto length = reader.take(8);
    EXPECT_EQ(reader.fixed<uint32_t>(), masked(length));
    uint64_t size = 0;
    std::memcpy(&size, length.data(), length.size());
    out.push_back(reader.take(size));
    EXPECT_EQ(reader.fixed<uint32_t>(), masked(out.back()));
  }
  return out;
}

inline std::vector<ReadEvent> read_events(const std::string& file) {
  std::vector<ReadEvent> out;
  for (const auto& record : read_records(file)) out.push_back(read_event(record));
  return out;
}

}  // namespace asr
