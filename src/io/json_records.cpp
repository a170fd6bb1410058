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

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

// Goes over a document once, cutting out one value after the other; each is parsed by itself, so that the document
// never grows in memory and a value never costs more than its own length.
class DocumentReader {
 public:
  DocumentReader(std::string_view text, const std::string& path, const JsonRecordUse& use)
      : text_(text), path_(path), use_(use) {}

  void read() {
    const char first = next();
    if (first == '[') {
      read_list("");
    } else if (first == '{') {
      read_members();
    } else {
      const auto value = take_value();
      fail(path_, ": expected JSON objects, found ", value.type_name());
    }
    const bool ended = next() == '\0' && at_ == text_.size();
    if (!ended) fail(place(at_), ": not valid JSON: something stands after the end");
  }

 private:
  // Counts lines from the document's beginning: for errors alone, never for an argument that is always evaluated.
  std::string place(size_t byte) const { return cat(path_, ":", line_and_column(text_, byte)); }

  // The next character that is not blank, which stays; zero at the end.
  char next() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  void expect(char wanted) {
    if (next() != wanted) fail(place(at_), ": not valid JSON: expected '", wanted, "'");
    ++at_;
  }

  // The first byte behind the value that begins here, as far as brackets and quotes tell.
  size_t value_end() const {
    size_t depth = 0;
    bool quoted = false;
    for (size_t i = at_; i < text_.size(); ++i) {
      const char c = text_[i];
      if (quoted) {
        if (c == '\\') ++i;
        quoted = c != '"';
        if (!quoted && depth == 0) return i + 1;
      } else if (c == '"') {
        quoted = true;
      } else if (c == '[' || c == '{') {
        ++depth;
      } else if (c == ']' || c == '}') {
        if (depth <= 1) return depth == 0 ? i : i + 1;
        --depth;
      } else if (depth == 0 && (c == ',' || c == ':')) {
        return i;
      }
    }
    return text_.size();
  }

  json take_value() {
    next();
    const size_t begin = at_;
    at_ = std::max(begin, value_end());
    json out;
    JsonProblem problem;
    if (!try_parse_json(text_.substr(begin, at_ - begin), out, problem))
      fail(place(begin + problem.byte), ": ", problem.reason);
    return out;
  }

  void hand_over(const json& value, const std::string& key, bool in_map) {
    if (value.is_object()) use_({value, key, in_map, cat(path_, ": record ", ++count_)});
  }

  void read_list(const std::string& key) {
    expect('[');
    if (next() == ']') return expect(']');
    while (true) {
      hand_over(take_value(), key, false);
      if (next() != ',') break;
      expect(',');
    }
    expect(']');
  }

  void read_members() {
    expect('{');
    if (next() == '}') return expect('}');
    while (true) {
      if (next() != '"') fail(place(at_), ": not valid JSON: expected a key");
      const auto key = take_value().get<std::string>();
      expect(':');
      if (next() == '[')
        read_list(key);
      else
        hand_over(take_value(), key, true);
      if (next() != ',') break;
      expect(',');
    }
    expect('}');
  }

  const std::string_view text_;
  const std::string& path_;
  const JsonRecordUse& use_;
  size_t at_ = 0, count_ = 0;
};

void read_document(ByteSpan bytes, const std::string& path, const JsonRecordUse& use) {
  DocumentReader({begin_of(bytes), bytes.size}, path, use).read();
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
