// What the program knows of a method by asking it: its options, and what it may keep between stages. The same as text,
// as JSON and as the tables of its page in docs/methods/ (tools/check_method_pages.sh).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace asr {

std::string method_text(const std::string& name);
std::string method_markdown(const std::string& name);
nlohmann::json method_json(const std::string& name);

}  // namespace asr
