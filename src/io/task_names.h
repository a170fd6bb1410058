// What a task may be called. Names end up in CSV files, tables, folders and on terminals, so what none of these can
// hold is refused when a stream is opened or prepared, before anything runs.
#pragma once

#include <string>
#include <vector>

namespace asr {

inline constexpr size_t kLongestTaskName = 120;  // characters

// Why `name` cannot be one; "" where it can: UTF-8, not empty, not too long, no control characters and no line ends.
std::string name_problem(const std::string& name);

// The part of a name that a folder's name can hold: up to 100 bytes, whole characters.
std::string folder_part(const std::string& name);

// Every name is one that a task can have, and none stands twice. `place`, such as a file, opens the message.
void check_names(const std::vector<std::string>& names, const std::string& place);

}  // namespace asr
