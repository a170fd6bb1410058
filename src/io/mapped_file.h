// A file mapped into memory, private and copy-on-write: reading costs no second copy, and a stray write
// never reaches the disk. A file that someone truncates while it is mapped ends the program at the next look at it,
// with one line that names it.
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
  const std::string& path() const { return path_; }
  // Fails where the file has become shorter since: for readers that come back to it after hours and can save something.
  void check_whole() const;

 private:
  explicit MappedFile(const std::string& path) : path_(path) {}
  std::string path_;
  int descriptor_ = -1;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace asr
