// Lines of comma-separated values.
#pragma once

#include <string>
#include <vector>

namespace asr {

// Fields may be quoted, with "" for a quote; white space around a field goes. `place` ("FILE:LINE") opens error
// messages.
std::vector<std::string> split_csv_line(const std::string& line, const std::string& place);

// Without white space at the ends; a carriage return counts as such.
std::string trim_field(const std::string& text);

}  // namespace asr
