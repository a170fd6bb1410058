// Small text helpers: nearest names for typing errors, sizes and durations for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace asr {

// Edit distance with transpositions, so that "palne" is one step from "plane".
int edit_distance(const std::string& a, const std::string& b);

// "; did you mean 'x'?" for the nearest candidate, or "; known: a, b, c" when none is near.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& candidates);

bool ends_with(const std::string& text, const std::string& ending);
inline bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
std::string trimmed(const std::string& text);  // without spaces, tabs and line ends at both sides
std::string join(const std::vector<std::string>& parts, const std::string& separator);
std::string human_bytes(double bytes);
std::string human_duration(double seconds);  // "8s", "2m 05s", "1h 12m"

// Parses the whole of `text`; false when it is not exactly one finite number.
bool parse_double(const std::string& text, double& value);
bool parse_int(const std::string& text, int64_t& value);

// Lines of at most `columns`, broken at spaces; a longer word stays whole, so that a path can be copied.
std::vector<std::string> broken(const std::string& text, size_t columns);

// One line of a file or terminal, with control characters shown as escapes, cut to `limit`.
std::string printable(const std::string& text, size_t limit = 60);

}  // namespace asr
