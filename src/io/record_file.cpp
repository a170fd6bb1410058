#include "io/record_file.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "io/unicode.h"

namespace asr {
namespace {

using nlohmann::json;

constexpr size_t kLongestLine = size_t(1) << 26;   // bytes; a row with a picture inside would be longer
constexpr size_t kLongestField = size_t(1) << 20;  // a quote that is never closed must not swallow the file
constexpr size_t kMostColumns = 4096;
constexpr size_t kLongestFirstLine = size_t(1) << 20;  // bytes of a first line that may be the first of many
constexpr size_t kBetweenReports = 4096;               // records

// Characters of the source as the iterators that the parser wants.
class Cursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  Cursor(CharacterSource* source, size_t* taken) : source_(source), taken_(taken) {}
  // The parser takes a NUL for the end of its input; here it is one more control character that JSON forbids.
  char operator*() const { return source_->peek() == '\0' ? '\x01' : source_->peek(); }
  Cursor& operator++() {
    source_->next();
    if (++*taken_ > kLongestLine)
      fail(source_->bytes().path(), ":", source_->line(), ": a record is longer than ", kLongestLine, " bytes");
    return *this;
  }
  bool operator==(const Cursor& other) const { return ended() == other.ended(); }
  bool operator!=(const Cursor& other) const { return !(*this == other); }

 private:
  bool ended() const { return !source_ || source_->at_end(); }
  CharacterSource* source_;
  size_t* taken_;  // bytes since the last record ended
};

// Builds one record after the other from the parser's events; the document itself is never held.
class RecordBuilder final : public nlohmann::json_sax<json> {
 public:
  RecordBuilder(CharacterSource& source, const FileRecordUse& use, const BytesRead& progress, size_t& taken)
      : source_(source), use_(use), progress_(progress), taken_(taken) {}

  bool null() override { return value(json()); }
  bool boolean(bool v) override { return value(json(v)); }
  bool number_integer(number_integer_t v) override { return value(json(v)); }
  bool number_unsigned(number_unsigned_t v) override { return value(json(v)); }
  bool number_float(number_float_t v, const string_t&) override { return value(json(v)); }
  bool string(string_t& v) override { return value(json(std::move(v))); }
  bool binary(binary_t&) override { return true; }  // JSON text has none
  bool start_object(size_t) override { return open(json::object()); }
  bool start_array(size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& v) override {
    (inside() ? key_ : member_) = std::move(v);
    return true;
  }
  bool parse_error(size_t, const std::string&, const json::exception& error) override {
    fail(source_.bytes().path(), ":", source_.line(), ":", std::max<size_t>(1, source_.column()),
         ": not valid JSON: ", json_reason(error));
  }

 private:
  enum class Level { none, array, object, member_array };  // what encloses a record
  bool inside() const { return !stack_.empty(); }

  bool open(json&& start) {
    check(stack_.size() < kDeepestJson, source_.bytes().path(), ":", source_.line(), ":", source_.column(),
          ": not valid JSON: nested deeper than ", kDeepestJson);
    if (inside()) {
      stack_.push_back(put(std::move(start)));
      return true;
    }
    if (level_ == Level::none) {
      level_ = start.is_array() ? Level::array : Level::object;
      return true;
    }
    if (level_ == Level::object && start.is_array()) {
      level_ = Level::member_array;
      return true;
    }
    mark();
    record_ = std::move(start);
    stack_.push_back(&record_);
    return true;
  }
  bool close() {
    if (inside()) {
      stack_.pop_back();
      if (!inside()) finish();
    } else {
      level_ = level_ == Level::member_array ? Level::object : Level::none;
    }
    return true;
  }
  bool value(json&& v) {
    if (inside()) {
      put(std::move(v));
    } else {
      mark();
      record_ = std::move(v);
      finish();
    }
    return true;
  }
  json* put(json&& v) {
    json& parent = *stack_.back();
    if (parent.is_object()) return &(parent[key_] = std::move(v));
    parent.push_back(std::move(v));
    return &parent.back();
  }
  void mark() {
    line_ = source_.line();
    column_ = source_.column();
  }
  void finish() {
    const bool in_map = level_ == Level::object;
    const bool keyed = in_map || level_ == Level::member_array;
    use_({record_, keyed ? member_ : none_, in_map, line_, column_, ++count_});
    taken_ = 0;
    if (progress_ && count_ % kBetweenReports == 0) progress_(source_.bytes().consumed());
  }

  CharacterSource& source_;
  const FileRecordUse& use_;
  const BytesRead& progress_;
  size_t& taken_;
  Level level_ = Level::none;
  json record_;
  std::vector<json*> stack_;
  std::string key_, member_;
  const std::string none_;
  size_t line_ = 0, column_ = 0, count_ = 0;
};

// What all readers of lines share: where a bad one goes, and reports of progress.
struct Lines {
  CharacterSource& source;
  const FileRecordUse& use;
  const BadLine& bad;
  const BytesRead& progress;
  size_t count = 0;

  void refuse(size_t line, size_t column, const std::string& why) const {
    if (!bad) fail(source.bytes().path(), ":", line, ":", column, ": ", why);
    bad(line, column, why);
  }
  void hand_over(json& value, size_t line) {
    static const std::string none;
    use({value, none, false, line, 1, ++count});
    if (progress && count % kBetweenReports == 0) progress(source.bytes().consumed());
  }
};

void read_json_lines(Lines& lines) {
  std::string text;
  while (lines.source.line(text, kLongestLine)) {
    if (text.find_first_not_of(" \t") == std::string::npos) continue;
    const size_t number = lines.source.line();
    json value;
    JsonProblem problem;
    if (try_parse_json(text, value, problem))
      lines.hand_over(value, number);
    else
      lines.refuse(number, problem.byte + 1, problem.reason);
  }
}

// One row, which may go over several lines; false at the end. `why` is set when the row cannot be read.
bool read_csv_row(CharacterSource& source, std::vector<std::string>& fields, size_t& first_line, std::string& why) {
  fields.assign(1, "");
  why.clear();
  if (source.at_end()) return false;
  bool quoted = false, was_quoted = false, begun = false;
  while (!source.at_end()) {
    const char c = source.peek();
    source.next();
    if (!begun) {
      first_line = source.line();
      begun = true;
    }
    if (fields.back().size() > kLongestField)
      fail(source.bytes().path(), ":", first_line, ": field ", fields.size(), " is longer than ", kLongestField,
           " bytes", quoted ? "; is a closing quote missing?" : "");
    auto& field = fields.back();
    if (quoted) {
      if (c == '"' && !source.at_end() && source.peek() == '"') {
        field += '"';
        source.next();
      } else if (c == '"') {
        quoted = false;
        was_quoted = true;
      } else {
        field += c;
      }
    } else if (c == '\n') {
      break;
    } else if (c == ',') {
      if (fields.size() == kMostColumns)
        fail(source.bytes().path(), ":", first_line, ": has more than ", kMostColumns, " columns");
      fields.emplace_back();
      was_quoted = false;
    } else if (c == '"' && field.empty() && !was_quoted) {
      quoted = true;
    } else if (c != '\r' || (!source.at_end() && source.peek() != '\n')) {
      if (was_quoted && c != ' ' && why.empty()) why = "text after the closing quote of a field";
      field += c;
    }
  }
  check(!quoted, source.bytes().path(), ":", first_line, ": a quoted field does not end before the file does");
  return true;
}

bool is_blank(const std::vector<std::string>& fields) {
  return fields.size() == 1 && fields[0].find_first_not_of(" \t\r") == std::string::npos;
}

void read_csv(Lines& lines) {
  std::vector<std::string> names, fields;
  std::string why;
  size_t line = 0;
  const auto& path = lines.source.bytes().path();
  while (names.empty() && read_csv_row(lines.source, fields, line, why))
    if (!is_blank(fields)) names = fields;
  check(!names.empty() && why.empty(), path, ": has no header line");
  std::unordered_set<std::string> known;
  for (size_t i = 0; i < names.size(); ++i) {
    names[i] = trimmed(names[i]);
    if (names[i].empty()) names[i] = cat("column ", i + 1);
    check(is_utf8(names[i]), path, ":", line, ": the header is not UTF-8");
    check(known.insert(names[i]).second, path, ":", line, ": column '", printable(names[i]), "' stands twice");
  }
  while (read_csv_row(lines.source, fields, line, why)) {
    if (is_blank(fields)) continue;
    if (why.empty() && fields.size() != names.size())
      why = cat("has ", fields.size(), " fields, but the header has ", names.size());
    json row = json::object();
    for (size_t i = 0; i < fields.size() && why.empty(); ++i) {
      if (!is_utf8(fields[i])) why = cat("field '", names[i], "' is not UTF-8");
      row[names[i]] = std::move(fields[i]);
    }
    if (why.empty())
      lines.hand_over(row, line);
    else
      lines.refuse(line, 1, why);
  }
}

// The first line that is not blank, and the first character of the next such; what is too long is cut.
struct Beginning {
  std::string line;
  char next = '\0';
};

Beginning beginning_of(const std::string& path) {
  ByteSource bytes(path);
  CharacterSource source(bytes);
  source.skip_mark();
  Beginning out;
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  for (; !source.at_end() && blank(source.peek()); source.next()) {
  }
  for (; !source.at_end() && source.peek() != '\n' && out.line.size() < kLongestFirstLine; source.next())
    out.line += source.peek();
  for (; !source.at_end() && blank(source.peek()); source.next()) {
  }
  if (!source.at_end()) out.next = source.peek();
  return out;
}

enum class Form { document, lines, table };

// By the name, unless the first line says otherwise: an object that is complete before another begins is a line, and
// an array that goes on after its first line is a document.
Form form_of(const std::string& path, const std::string& name) {
  if (ends_with(name, ".csv")) return Form::table;
  const bool named_lines = ends_with(name, ".jsonl") || ends_with(name, ".ndjson");
  const auto begin = beginning_of(path);
  const auto line = trimmed(begin.line);
  if (named_lines)
    return line == "[" || (line.size() > 1 && line[0] == '[' && line.back() == ',') ? Form::document : Form::lines;
  const bool two = !line.empty() && line[0] == '{' && line.back() == '}' && begin.next == '{';
  return two && json::accept(line) ? Form::lines : Form::document;
}

}  // namespace

void read_records(const std::string& path, const FileRecordUse& use, const BadLine& bad, const BytesRead& progress) {
  ByteSource bytes(path);
  CharacterSource source(bytes);
  source.skip_mark();
  Lines lines{source, use, bad, progress};
  const auto name = ends_with(path, ".gz") ? path.substr(0, path.size() - 3) : path;
  const auto form = form_of(path, name);
  if (form == Form::lines) {
    read_json_lines(lines);
  } else if (form == Form::table) {
    read_csv(lines);
  } else {
    size_t taken = 0;
    RecordBuilder builder(source, use, progress, taken);
    json::sax_parse(Cursor(&source, &taken), Cursor(nullptr, nullptr), &builder);
  }
  if (progress) progress(bytes.consumed());
}

}  // namespace asr
