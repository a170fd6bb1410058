#include "io/json_records.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace asr {
namespace {

using nlohmann::json;

constexpr size_t kLongestSniff = 1 << 20;

const char* begin_of(ByteSpan bytes) {
  return reinterpret_cast<const char*>(bytes.data);
}

void read_json_lines(ByteSpan bytes, const std::string& path, const JsonRecordUse& use) {
  read_lines(bytes, [&](const std::string& line, size_t number) {
    const json value = parse_json(line, path, number);
    const std::string place = cat(path, ":", number);
    check(value.is_object(), place, ": expected a JSON object, found ", value.type_name());
    use({value, "", false, place});
  });
}

// The parser hands over every finished value; records are used and dropped, so the document never grows.
class DocumentReader {
 public:
  DocumentReader(const std::string& path, const JsonRecordUse& use) : path_(path), use_(use) {}

  bool operator()(int depth, json::parse_event_t event, json& value) {
    using Event = json::parse_event_t;
    check(depth < static_cast<int>(kDeepestJson), path_, ": not valid JSON: nested deeper than ", kDeepestJson);
    if (depth == 0 && event == Event::array_start) root_is_array_ = true;
    if (depth == 1 && event == Event::key) key_ = value.get<std::string>();
    if (depth == 1 && event == Event::array_start) in_array_ = !root_is_array_;
    if (depth == 1 && event == Event::object_start) in_array_ = false;
    const bool ends = event == Event::object_end;
    const bool record = ends && (depth == 1 || (depth == 2 && in_array_));
    if (!record) return true;
    use_({value, root_is_array_ ? "" : key_, depth == 1 && !root_is_array_, cat(path_, ": record ", ++count_)});
    return false;
  }

 private:
  const std::string& path_;
  const JsonRecordUse& use_;
  std::string key_;
  bool root_is_array_ = false, in_array_ = false;
  size_t count_ = 0;
};

void read_document(ByteSpan bytes, const std::string& path, const JsonRecordUse& use) {
  const char* begin = begin_of(bytes);
  try {
    const auto rest = json::parse(begin, begin + bytes.size, DocumentReader(path, use));
    check(rest.is_structured(), path, ": expected JSON objects, found ", rest.type_name());
  } catch (const json::parse_error& error) {  // it counts bytes from 1
    fail(path, ":", line_and_column({begin, bytes.size}, error.byte > 0 ? error.byte - 1 : 0),
         ": not valid JSON: ", json_reason(error));
  } catch (const json::exception& error) {  // a number beyond any range
    fail(path, ": not valid JSON: ", json_reason(error));
  }
}

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

// JSON lines: the first line is closed, and another object follows or it is a record itself. A whole benchmark may be
// written on one line, so a long one is not tried.
bool is_lines(ByteSpan bytes) {
  const char *begin = begin_of(bytes), *const stop = begin + bytes.size;
  const void* found = std::memchr(begin, '\n', bytes.size);
  const char* end = found ? static_cast<const char*>(found) : stop;
  const char* next = std::find_if_not(end, stop, is_blank);
  while (end > begin && is_blank(end[-1])) --end;
  if (end[-1] != '}') return false;
  if (next != stop) return *next != ',' && *next != '"' && *next != '}' && *next != ']';  // the document goes on
  if (static_cast<size_t>(end - begin) > kLongestSniff) return false;
  json only;
  JsonProblem problem;  // told by whoever reads it
  return try_parse_json({begin, static_cast<size_t>(end - begin)}, only, problem) && only.is_object() &&
         only.contains("question_id");
}

}  // namespace

ByteSpan skip_mark(ByteSpan bytes) {
  const bool marked = bytes.size >= 3 && std::memcmp(bytes.data, "\xef\xbb\xbf", 3) == 0;
  return marked ? ByteSpan{bytes.data + 3, bytes.size - 3} : bytes;
}

void read_lines(ByteSpan bytes, const std::function<void(const std::string&, size_t)>& use) {
  const char* at = begin_of(bytes);
  const char* const end = at + bytes.size;
  std::string line;
  for (size_t number = 1; at < end; ++number) {
    const void* found = std::memchr(at, '\n', static_cast<size_t>(end - at));
    const char* stop = found ? static_cast<const char*>(found) : end;
    line.assign(at, stop);
    while (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.find_first_not_of(" \t") != std::string::npos) use(line, number);
    at = found ? stop + 1 : end;
  }
}

void read_json_records(ByteSpan marked, const std::string& path, const JsonRecordUse& use) {
  const ByteSpan bytes = skip_mark(marked);
  size_t first = 0;
  while (first < bytes.size && is_blank(static_cast<char>(bytes.data[first]))) ++first;
  check(first < bytes.size, path, ": is empty; expected JSON lines");
  const bool object = bytes.data[first] == '{';
  if (object && is_lines({bytes.data + first, bytes.size - first}))
    read_json_lines(bytes, path, use);
  else
    read_document(bytes, path, use);
}

}  // namespace asr
