// Members of a JSON object whose type and range are checked as they are read. `place` ("FILE: task 2") opens the
// message.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace asr {

inline constexpr int64_t kLargestCount = 1'000'000'000'000'000;  // sums of many stay far from overflow

inline constexpr size_t kLongestPath = 4096;  // bytes, as the system has it

// An object with this member of this kind, or an error; `fallback` where the member may be absent.
const nlohmann::json& object_member(const nlohmann::json& object, const char* name, const std::string& place);
const nlohmann::json& list_member(const nlohmann::json& object, const char* name, const std::string& place);
std::string text_member(const nlohmann::json& object, const char* name, const std::string& place);
std::string text_member(const nlohmann::json& object, const char* name, const std::string& fallback,
                        const std::string& place);
int64_t count_member(const nlohmann::json& object, const char* name, const std::string& place);
int64_t count_member(const nlohmann::json& object, const char* name, int64_t fallback, const std::string& place);
bool truth_member(const nlohmann::json& object, const char* name, bool fallback, const std::string& place);

bool is_count(const nlohmann::json& value);  // a whole number from 0 to kLargestCount

// `path` itself, or an error where it is too long or would break a message of one line.
const std::string& clean_path(const std::string& path, const std::string& place);

}  // namespace asr
