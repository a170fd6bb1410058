#include "streams/row_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "io/json_records.h"

namespace asr {
namespace {

using nlohmann::json;

constexpr size_t kLongestRecord = size_t(1) << 26;  // bytes; a row with a picture inside would be longer

bool is_blank_byte(uint8_t c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

// The first byte after the object that begins at `at`; the end of the file where it is never closed.
size_t object_end(ByteSpan bytes, size_t at) {
  size_t depth = 0;
  bool quoted = false;
  for (; at < bytes.size; ++at) {
    const uint8_t c = bytes.data[at];
    if (quoted && c == '\\') ++at;
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth == 0) return at + 1;
  }
  return bytes.size;
}

// Where a file of another form was given: what reads it.
void check_form(const std::string& path, ByteSpan bytes) {
  const bool packed = bytes.size >= 2 && bytes.data[0] == 0x1f && bytes.data[1] == 0x8b;
  check(!packed && !ends_with(path, ".csv"), path, ": is ", packed ? "compressed" : "CSV",
        "; 'asr prepare manifest' reads it, a run reads JSON lines or a JSON list");
}

}  // namespace

RowFile::RowFile(const std::string& path) : file_(MappedFile::open(path)), path_(path) {
  check_form(path, bytes());
  const auto text = skip_mark(bytes());
  size_t at = 0;
  while (at < text.size && is_blank_byte(text.data[at])) ++at;
  list_ = at < text.size && text.data[at] == '[';
}

void RowFile::scan(const RecordUse& use) const {
  const size_t mark = bytes().size - skip_mark(bytes()).size;
  list_ ? scan_list(mark, use) : scan_lines(mark, use);
}

void RowFile::scan_lines(size_t at, const RecordUse& use) const {
  const auto all = bytes();
  const auto* begin = reinterpret_cast<const char*>(all.data);
  uint32_t record = 0;
  for (size_t line = 1; at < all.size; ++line) {
    const void* found = std::memchr(begin + at, '\n', all.size - at);
    const size_t end = found ? static_cast<size_t>(static_cast<const char*>(found) - begin) : all.size;
    check(end - at <= kLongestRecord, path_, ":", line, ": the line is longer than ", kLongestRecord, " bytes");
    if (!std::all_of(all.data + at, all.data + end, is_blank_byte)) use({at, ++record, 0}, line);
    at = end + 1;
  }
}

void RowFile::scan_list(size_t at, const RecordUse& use) const {
  const auto all = bytes();
  size_t line = 1;
  const auto skip = [&] {
    for (; at < all.size && is_blank_byte(all.data[at]); ++at) line += all.data[at] == '\n';
  };
  const auto next_is = [&](char c) { return at < all.size && all.data[at] == static_cast<uint8_t>(c); };
  skip();
  ++at;
  skip();  // the bracket that opens the list
  for (uint32_t record = 1; !next_is(']'); ++record) {
    check(at < all.size, path_, ":", line, ": the list does not end before the file does; is it cut off?");
    check(next_is('{'), path_, ":", line, ": the list holds something that is no object; rows are objects");
    const size_t begin = at;
    at = object_end(all, at);
    check(at - begin <= kLongestRecord, path_, ":", line, ": the row is longer than ", kLongestRecord, " bytes");
    use({begin, record, 0}, line);
    line += static_cast<size_t>(std::count(all.data + begin, all.data + at, '\n'));
    skip();
    if (next_is(']')) break;
    check(next_is(','), path_, ":", line,
          ": not valid JSON: rows of a list are parted by commas; is the file cut off?");
    ++at;
    skip();
  }
  ++at;
  skip();
  check(at >= all.size, path_, ":", line, ": not valid JSON: something stands after the list");
}

std::string RowFile::record_text(const RowSpot& spot) const {
  file_->check_whole();
  const auto all = bytes();
  const auto* begin = reinterpret_cast<const char*>(all.data) + spot.begin;
  if (list_) return {begin, reinterpret_cast<const char*>(all.data) + object_end(all, spot.begin)};
  const void* found = std::memchr(begin, '\n', all.size - spot.begin);
  return {begin, found ? static_cast<const char*>(found) : begin + (all.size - spot.begin)};
}

std::vector<SampleRow> RowFile::rows_at(const RowSpot& spot) const {
  json value;
  JsonProblem problem;
  if (!try_parse_json(record_text(spot), value, problem)) {
    const char* form = list_ || !ends_with(path_, ".json") ? "" : "; a .json file is a list of rows";
    fail(path_, ":", line_of(spot), ": ", problem.reason, form,
         "; 'asr prepare manifest' says where, and --skip-bad passes over it");
  }
  std::vector<SampleRow> out;
  const auto reason = read_rows(value, fallback_id(path_, spot.record), out);
  if (!reason.empty()) fail(path_, ":", line_of(spot), ": ", reason);  // counting lines is for messages alone
  return out;
}

SampleRow RowFile::row(const RowSpot& spot) const {
  auto rows = rows_at(spot);
  check(spot.exchange < rows.size(), path_, ": row ", spot.record, " has changed since the run began");
  return std::move(rows[spot.exchange]);
}

size_t RowFile::line_of(const RowSpot& spot) const {
  return 1 + static_cast<size_t>(std::count(bytes().data, bytes().data + spot.begin, '\n'));
}

std::string fallback_id(const std::string& path, size_t record) {
  auto name = std::filesystem::path(path).filename().string();
  for (const char* end : {".gz", ".jsonl", ".ndjson", ".json", ".csv"})
    if (ends_with(name, end)) name.resize(name.size() - std::strlen(end));
  return cat(name, ":", record);
}

}  // namespace asr
