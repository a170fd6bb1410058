#include "skills/labelled_questions.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/atomic_file.h"
#include "base/error.h"
#include "skills/taxonomy.h"

namespace asr {
namespace {

LabelledQuestion parse_line(const std::string& line, const std::string& where) {
  const auto row = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  check(row.is_object(), where, ": is no JSON object; expected {\"question\": \"...\", \"skill\": \"...\"}");
  for (const char* key : {"question", "skill"})
    check(row.contains(key) && row[key].is_string(), where, ": lacks the text '", key, "'");
  try {
    return {row["question"].get<std::string>(), skill_index(row["skill"].get<std::string>())};
  } catch (const Error& error) {
    fail(where, ": ", error.what());
  }
}

}  // namespace

std::vector<LabelledQuestion> read_labelled_questions(const std::string& path) {
  std::istringstream in(read_file(path));
  std::vector<LabelledQuestion> out;
  int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    out.push_back(parse_line(line, cat(path, ":", number)));
  }
  check(!out.empty(), path, ": holds no questions");
  return out;
}

}  // namespace asr
