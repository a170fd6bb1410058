#include "base/sha256.h"

#include <algorithm>
#include <cstring>

namespace asr {

void Sha256::update(const void* data, size_t size) {
  if (size == 0) return;  // an empty tensor has no address, and memcpy wants one
  auto bytes = static_cast<const uint8_t*>(data);
  size_t filled = size_ % 64;
  size_ += size;
  if (filled) {
    const size_t take = std::min(size, 64 - filled);
    std::memcpy(pending_.data() + filled, bytes, take);
    bytes += take;
    size -= take;
    if (filled + take < 64) return;
    blocks_(state_.data(), pending_.data(), 1);
  }
  blocks_(state_.data(), bytes, size / 64);
  if (size % 64) std::memcpy(pending_.data(), bytes + size / 64 * 64, size % 64);
}

void Sha256::update_int(uint64_t value) {
  uint8_t bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(value >> (8 * i));
  update(bytes, 8);
}

std::string Sha256::hex() {
  const uint64_t bits = size_ * 8;
  const uint8_t one = 0x80, zero = 0;
  update(&one, 1);
  while (size_ % 64 != 56) update(&zero, 1);
  uint8_t length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  update(length, 8);
  static const char digits[] = "0123456789abcdef";
  std::string out;
  for (uint32_t word : state_)
    for (int shift = 28; shift >= 0; shift -= 4) out += digits[(word >> shift) & 15];
  return out;
}

}  // namespace asr
