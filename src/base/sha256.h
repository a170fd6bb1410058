// SHA-256 (FIPS 180-4), for checksums of stored files and fingerprints.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/sha256_blocks.h"

namespace asr {

class Sha256 {
 public:
  explicit Sha256(Sha256Blocks blocks = fastest_sha256_blocks()) : blocks_(blocks) {}

  void update(const void* data, size_t size);
  void update(const std::string& text) { update(text.data(), text.size()); }
  void update_int(uint64_t value);  // eight bytes, little endian: separates fields unambiguously
  std::string hex();                // ends the message; call once

 private:
  Sha256Blocks blocks_;
  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending_{};
  uint64_t size_ = 0;
};

}  // namespace asr
