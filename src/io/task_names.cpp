#include "io/task_names.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "io/unicode.h"

namespace asr {
namespace {

// Cc of Unicode, and the two separators that end a line.
bool is_control(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029;
}

}  // namespace

std::string name_problem(const std::string& name) {
  if (name.empty()) return "is empty";
  if (!is_utf8(name)) return "is not UTF-8; write it in that encoding";
  const auto characters = decode_utf8(name);
  if (characters.size() > kLongestTaskName)
    return cat("has ", characters.size(), " characters; use at most ", kLongestTaskName);
  for (const auto& character : characters)
    if (is_control(character.code))
      return "holds a control character or line end; use letters, digits, spaces and signs";
  return "";
}

std::string folder_part(const std::string& name) {
  size_t end = std::min<size_t>(name.size(), 100);
  while (end > 0 && end < name.size() && (name[end] & 0xc0) == 0x80) --end;
  return name.substr(0, end);
}

void check_names(const std::vector<std::string>& names, const std::string& place) {
  std::set<std::string> seen;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto problem = name_problem(names[i]);
    check(problem.empty(), place, ": the name of task ", i + 1, ", '", printable(names[i]), "', ", problem);
    check(seen.insert(names[i]).second, place, ": task '", printable(names[i]),
          "' stands twice; give each its own name");
  }
}

}  // namespace asr
