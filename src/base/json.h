// The one reader of JSON text. All of it is untrusted: it may come from another machine, from an older version or from
// someone who means harm. Nesting is limited, because copying and writing a value recurse; numbers beyond a double are
// refused; an error is one line that names the file, the line and the column, or the key.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace asr {

constexpr size_t kDeepestJson = 500;                // real files nest about ten deep
constexpr size_t kLargestJson = size_t(256) << 20;  // bytes of a whole file

struct JsonProblem {
  std::string reason;  // "not valid JSON: ..."
  size_t byte = 0;     // where, from 0
};

// For readers that go on after a bad text: false, with the problem.
bool try_parse_json(std::string_view text, nlohmann::json& out, JsonProblem& problem);

// `where` begins the message, followed by line and column; `first_line` is the number of the text's first line.
nlohmann::json parse_json(std::string_view text, const std::string& where, size_t first_line = 1);

// "LINE:COLUMN" of a byte, both from 1.
std::string line_and_column(std::string_view text, size_t byte, size_t first_line = 1);

// What the library says of a text it cannot parse, in one line, without its preamble and its own position.
std::string json_reason(const nlohmann::json::exception& error);

nlohmann::json read_json(const std::string& path, size_t limit = kLargestJson);  // a whole file
nlohmann::json read_json_object(const std::string& path, size_t limit = kLargestJson);

// One object a line; `place` is "path:line", for messages. Blank lines are passed over. The last line of a file that is
// still being written may lack its end; `growing` passes over it.
void for_each_json_line(const std::string& path,
                        const std::function<void(const nlohmann::json& object, const std::string& place)>& use,
                        bool growing = false);

// The keys of one object, typed. `where` ("path" or "path: skills[2]") begins every message. The object must outlive
// it.
class JsonFields {
 public:
  JsonFields(const nlohmann::json& object, std::string where);

  bool has(const char* key) const;  // and is not null
  JsonFields object(const char* key) const;
  std::string text(const char* key) const;
  std::string text_or(const char* key, const std::string& otherwise) const;
  int64_t integer(const char* key) const;
  bool flag(const char* key) const;
  double number(const char* key) const;
  double number_or_nan(const char* key) const;  // null and absent are NaN; anything else but a number is an error
  std::vector<std::string> texts(const char* key) const;
  std::vector<std::vector<double>> number_rows(const char* key) const;  // null is NaN
  const nlohmann::json& list(const char* key) const;
  const nlohmann::json& at(const char* key) const;
  const std::string& where() const { return where_; }

 private:
  const nlohmann::json& object_;
  std::string where_;
};

}  // namespace asr
