#include "io/event_file.h"

#include <array>
#include <cstring>

namespace asr {
namespace {

// Field numbers of tensorflow's event.proto and summary.proto.
enum : uint32_t { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5 };
enum : uint32_t { kSummaryValue = 1, kTag = 1, kSimpleValue = 2 };
enum : uint32_t { kVarint = 0, kEightBytes = 1, kBytes = 2, kFourBytes = 5 };  // wire types

const std::array<uint32_t, 256>& crc_table() {
  static const auto table = [] {
    std::array<uint32_t, 256> out{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = value & 1 ? (value >> 1) ^ 0x82f63b78u : value >> 1;
      out[i] = value;
    }
    return out;
  }();
  return table;
}

template <class Number>
void put_little_endian(std::string& out, Number value) {
  for (size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void put_key(std::string& out, uint32_t field, uint32_t wire_type) {
  put_varint(out, field << 3 | wire_type);
}

void put_bytes(std::string& out, uint32_t field, const std::string& bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

// Masked, since a check sum over bytes that hold check sums would be weak.
uint32_t masked_crc(const std::string& bytes) {
  const uint32_t crc = crc32c(bytes.data(), bytes.size());
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

std::string framed(const std::string& event) {
  std::string length, out;
  put_little_endian(length, static_cast<uint64_t>(event.size()));
  out = length;
  put_little_endian(out, masked_crc(length));
  out += event;
  put_little_endian(out, masked_crc(event));
  return out;
}

std::string event_at(double wall_time) {
  uint64_t bits = 0;
  std::memcpy(&bits, &wall_time, sizeof bits);
  std::string out;
  put_key(out, kWallTime, kEightBytes);
  put_little_endian(out, bits);
  return out;
}

}  // namespace

uint32_t crc32c(const void* data, size_t size) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  uint32_t value = ~0u;
  for (size_t i = 0; i < size; ++i) value = crc_table()[(value ^ bytes[i]) & 0xff] ^ (value >> 8);
  return ~value;
}

std::string event_file_start(double wall_time) {
  auto event = event_at(wall_time);
  put_bytes(event, kFileVersion, "brain.Event:2");
  return framed(event);
}

std::string event_record(double wall_time, int64_t step, const std::vector<EventScalar>& scalars) {
  std::string summary;
  for (const auto& scalar : scalars) {
    const auto single = static_cast<float>(scalar.value);
    uint32_t bits = 0;
    std::memcpy(&bits, &single, sizeof bits);
    std::string value;
    put_bytes(value, kTag, scalar.tag);
    put_key(value, kSimpleValue, kFourBytes);
    put_little_endian(value, bits);
    put_bytes(summary, kSummaryValue, value);
  }
  auto event = event_at(wall_time);
  put_key(event, kStep, kVarint);
  put_varint(event, static_cast<uint64_t>(step));
  put_bytes(event, kSummary, summary);
  return framed(event);
}

}  // namespace asr
