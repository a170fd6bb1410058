// JSON of a run folder, read with errors that name the file, the line and the key. Everything in a run is untrusted:
// it may come from another machine or from an older version.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace asr {

// A whole file; bad syntax names path and line.
nlohmann::json read_json(const std::string& path);

// One object a line; `place` is "path:line", for messages. Blank lines are passed over. The last line of a file that is
// still being written may lack its end; `growing` passes over it.
void for_each_json_line(const std::string& path,
                        const std::function<void(const nlohmann::json& object, const std::string& place)>& use,
                        bool growing = false);

// The keys of one object, typed. `where` ("path" or "path: skills[2]") begins every message.
class JsonFields {
 public:
  JsonFields(const nlohmann::json& object, std::string where);

  JsonFields object(const char* key) const;
  bool has(const char* key) const { return object_.contains(key); }
  std::string text(const char* key) const;
  std::string text_or(const char* key, const char* otherwise) const;  // where the key is absent
  int64_t integer(const char* key) const;
  bool flag(const char* key) const;
  double number_or_nan(const char* key) const;  // null and absent are NaN; anything else but a number is an error
  std::vector<std::string> texts(const char* key) const;
  const nlohmann::json& list(const char* key) const;
  const std::string& where() const { return where_; }

 private:
  const nlohmann::json& at(const char* key) const;
  const nlohmann::json& object_;
  std::string where_;
};

}  // namespace asr
