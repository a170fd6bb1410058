// A file of rows that stays on disk: JSON lines, or one JSON list of objects, as LLaVA's and ShareGPT's data come. In
// memory are 16 bytes a row; a row is parsed when it is asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/mapped_file.h"
#include "streams/sample_row.h"

namespace asr {

struct RowSpot {
  uint64_t begin = 0;     // first byte of its record
  uint32_t record = 0;    // number of the record in the file, from 1
  uint32_t exchange = 0;  // which answer of the record's conversation
};

class RowFile {
 public:
  RowFile() = default;
  explicit RowFile(const std::string& path);

  const std::string& path() const { return path_; }
  ByteSpan bytes() const { return file_->bytes(); }

  using RecordUse = std::function<void(const RowSpot& spot, size_t line)>;
  void scan(const RecordUse& use) const;  // every record in order, by its first byte; none is parsed

  std::string record_text(const RowSpot& spot) const;
  std::vector<SampleRow> rows_at(const RowSpot& spot) const;  // all of its record
  SampleRow row(const RowSpot& spot) const;                   // the one of its exchange
  size_t line_of(const RowSpot& spot) const;

 private:
  void scan_lines(size_t at, const RecordUse& use) const;
  void scan_list(size_t at, const RecordUse& use) const;

  std::shared_ptr<MappedFile> file_;
  std::string path_;
  bool list_ = false;
};

// The id of a record that has none: the file's name without its ending, and the record's number.
std::string fallback_id(const std::string& path, size_t record);

}  // namespace asr
