// The members that a JSON file of ours may have, as JSON: {"seed": "number", "tasks": ["task"], "drift": {"<skill>":
// "number"}}. Words are kinds of values; a key in angle brackets stands for every key of its kind. Members may be
// missing, but none may be there that is not declared: the audit must not leave a place to hide something in.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace asr {

struct JsonNames {
  std::set<std::string> skills, tasks;
};

nlohmann::json json_shape(const char* text);  // a shape from its text

// Kinds: "number" (or null), "flag", "text" (of at most 400 bytes), "skill", "task", "part" (of a long-tailed stream),
// "term" (of a loss), "time", "hash" (hexadecimal digits), "anything". What does not
// fit is added to `problems`.
void match_json(const nlohmann::json& value, const nlohmann::json& shape, const JsonNames& names,
                const std::string& where, std::vector<std::string>& problems);

}  // namespace asr
