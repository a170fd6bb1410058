// Only one tag of EXIF is needed, so only the first directory is walked, every offset checked before use.
#include <cstring>

#include "io/image_codecs.h"

namespace asr {
namespace {

constexpr uint32_t orientation_tag = 0x0112;
constexpr size_t entry_bytes = 12;

struct Tiff {
  ByteSpan bytes;
  bool big_endian;

  uint32_t number(size_t offset, size_t count) const {
    uint32_t value = 0;
    for (size_t i = 0; i < count; ++i) {
      const uint32_t byte = bytes.data[offset + i];
      value = big_endian ? value << 8 | byte : value | byte << (8 * i);
    }
    return value;
  }
};

// The value stands inside the entry, at its eighth byte, as long as it fits four bytes.
int entry_value(const Tiff& tiff, size_t entry) {
  const uint32_t type = tiff.number(entry + 2, 2);
  const size_t width = type == 1 ? 1 : type == 3 ? 2 : type == 4 ? 4 : 0;  // BYTE, SHORT, LONG
  if (width == 0 || tiff.number(entry + 4, 4) != 1) return 1;
  const uint32_t value = tiff.number(entry + 8, width);
  return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
}

}  // namespace

int exif_orientation(ByteSpan exif) {
  if (exif.size >= 6 && std::memcmp(exif.data, "Exif\0\0", 6) == 0) exif = {exif.data + 6, exif.size - 6};
  if (exif.size < 8) return 1;
  const bool little = std::memcmp(exif.data, "II*\0", 4) == 0, big = std::memcmp(exif.data, "MM\0*", 4) == 0;
  if (!little && !big) return 1;
  const Tiff tiff{exif, big};
  const size_t directory = tiff.number(4, 4);
  if (directory > exif.size - 2) return 1;
  const size_t entries = tiff.number(directory, 2);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + i * entry_bytes;
    if (entry + entry_bytes > exif.size) return 1;
    if (tiff.number(entry, 2) == orientation_tag) return entry_value(tiff, entry);
  }
  return 1;
}

}  // namespace asr
