// A file mapped into memory, private and copy-on-write: reading costs no second copy, and a stray write
// never reaches the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace asr {

struct ByteSpan {
  const uint8_t* data = nullptr;
  size_t size = 0;
};

class MappedFile {
 public:
  static std::shared_ptr<MappedFile> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  ByteSpan bytes() const { return {data_, size_}; }

 private:
  MappedFile(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  const uint8_t* data_;
  size_t size_;
};

}  // namespace asr
