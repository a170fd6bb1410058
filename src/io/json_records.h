// Records from JSON files, one at a time, so that a file of any size needs only its largest record in memory. A file is
// either JSON lines or one document whose records are the objects in its outermost arrays or maps. Byte-order marks and
// carriage returns are fine; errors name file, line and column.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "io/mapped_file.h"

namespace asr {

struct JsonRecord {
  const nlohmann::json& value;  // an object
  std::string key;              // the member of the document that holds it or its array: "annotations"; else empty
  bool in_map = false;          // the record is itself a member, named by `key`
  std::string place;            // "FILE:LINE", or "FILE: record N" in a document
};
using JsonRecordUse = std::function<void(const JsonRecord&)>;

void read_json_records(ByteSpan bytes, const std::string& path, const JsonRecordUse& use);

// Without a byte-order mark.
ByteSpan skip_mark(ByteSpan bytes);

// Calls `use(line, number)` for every line that is not blank; carriage returns at the end are cut.
void read_lines(ByteSpan bytes, const std::function<void(const std::string&, size_t)>& use);

}  // namespace asr
