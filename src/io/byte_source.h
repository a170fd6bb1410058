// Bytes of a file in order, plain or gzip (told by content, several members too), and the same as characters that know
// their line and column: files of any size, with a buffer of fixed size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace asr {

class ByteSource {
 public:
  explicit ByteSource(const std::string& path);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  size_t read(char* out, size_t size);  // 0 at the end; damage and truncation are errors
  int64_t consumed() const;             // bytes of the file on disk, for progress
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  void* file_ = nullptr;  // zlib's gzFile
};

class CharacterSource {
 public:
  explicit CharacterSource(ByteSource& bytes) : bytes_(bytes), buffer_(1 << 16) { fill(); }

  bool at_end() const { return at_ == end_; }
  char peek() const { return buffer_[at_]; }
  void next() {
    if (newline_) {
      ++line_;
      column_ = 0;
    }
    newline_ = buffer_[at_] == '\n';
    ++column_;
    if (++at_ == end_) fill();
  }
  // Of the character that was taken last, counted from 1; columns in bytes.
  size_t line() const { return line_; }
  size_t column() const { return column_; }
  ByteSource& bytes() { return bytes_; }

  // A line without its end, carriage returns cut; false at the end of the file. Longer ones than `limit` are errors.
  bool line(std::string& out, size_t limit);
  void skip_mark();  // a byte-order mark, at the very beginning

 private:
  void fill() {
    at_ = 0;
    end_ = bytes_.read(buffer_.data(), buffer_.size());
  }

  ByteSource& bytes_;
  std::vector<char> buffer_;
  size_t at_ = 0, end_ = 0, line_ = 1, column_ = 0;
  bool newline_ = false;
};

}  // namespace asr
