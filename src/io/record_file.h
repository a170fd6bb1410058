// Records from files of any size, one at a time: JSON lines (.jsonl), CSV with a header (.csv), or one JSON document
// (anything else), each also as .gz. Lines under the name of a document, and an array under that of lines, are told by
// their first line. Records of a document are the elements of its outermost array, or of the arrays
// that are members of its outermost object; other members are records too, under their name. A row of a CSV file is an
// object of strings. Byte-order marks, carriage returns and quoted line ends are fine.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "io/byte_source.h"

namespace asr {

struct FileRecord {
  nlohmann::json& value;   // may be moved from
  const std::string& key;  // the member of the document that holds it or its array; else empty
  bool in_map = false;     // the record is itself a member, named by `key`
  size_t line = 0, column = 0;
  size_t number = 0;  // from 1
};
using FileRecordUse = std::function<void(const FileRecord&)>;

// A line of JSON lines or CSV that cannot be read. A document cannot be entered again after a syntax error, so there an
// error ends the reading.
using BadLine = std::function<void(size_t line, size_t column, const std::string& reason)>;
using BytesRead = std::function<void(int64_t consumed)>;  // of the file on disk, now and then

void read_records(const std::string& path, const FileRecordUse& use, const BadLine& bad = {},
                  const BytesRead& progress = {});

}  // namespace asr
