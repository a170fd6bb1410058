// What a preparation left in its folder, read again: stream.json of a complete one, progress.json of one that was
// interrupted. People edit such files, so every member that is used is checked for type and range first.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace asr {

// The object in a file; null where there is no file, an error where it holds something else.
nlohmann::json load_stored(const std::string& path);

// An error that names the member and says what to do, unless `index` is a stream.json as 'asr prepare' writes it.
void check_prepared_index(const nlohmann::json& index, const std::string& path);

// The same of progress.json, for a stream of so many tasks.
void check_progress(const nlohmann::json& state, const std::string& path, size_t tasks);

inline constexpr const char* kPreparedIndex = "/stream.json";    // of the folder, written last
inline constexpr const char* kPreparedState = "/progress.json";  // while it is being written

// A source file as it is remembered, and whether it is still so.
nlohmann::json source_of(const std::string& path);
bool unchanged(const nlohmann::json& source);

}  // namespace asr
