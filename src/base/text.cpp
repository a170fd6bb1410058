#include "base/text.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace asr {

int edit_distance(const std::string& a, const std::string& b) {
  const size_t columns = b.size() + 1;
  std::vector<int> before(columns), last(columns), row(columns);
  for (size_t j = 0; j < columns; ++j) last[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j < columns; ++j) {
      const int substitute = last[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substitute});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[columns - 1];
}

std::string did_you_mean(const std::string& name, const std::vector<std::string>& candidates) {
  if (candidates.empty()) return "";
  const std::string wanted = name.substr(0, 100);
  const std::string* best = nullptr;
  int best_distance = 0;
  for (const auto& candidate : candidates) {
    const int distance = edit_distance(wanted, candidate);
    if (!best || distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  const int near = std::max<int>(2, static_cast<int>(best->size()) / 3);
  if (best_distance <= near) return "; did you mean '" + *best + "'?";
  if (candidates.size() > 12) return "; nearest is '" + *best + "'";
  return "; known: " + join(candidates, ", ");
}

bool ends_with(const std::string& text, const std::string& ending) {
  return text.size() >= ending.size() && text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
}

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n"), end = text.find_last_not_of(" \t\r\n");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

std::string join(const std::vector<std::string>& parts, const std::string& separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
  }
  return out;
}

std::string human_bytes(double bytes) {
  const char* units[] = {"B", "KB", "MB", "GB", "TB"};
  int unit = 0;
  while (bytes >= 1000 && unit < 4) {
    bytes /= 1000;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 || bytes >= 100 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
  return text;
}

std::string human_duration(double seconds) {
  char text[32];
  const int64_t total = std::isfinite(seconds) && seconds < 1e9 ? std::llround(std::max(0.0, seconds)) : 0;
  if (!std::isfinite(seconds) || seconds >= 1e9) return "?";
  if (total < 60) {
    std::snprintf(text, sizeof text, "%ds", static_cast<int>(total));
  } else if (total < 3600) {
    std::snprintf(text, sizeof text, "%dm %02ds", static_cast<int>(total / 60), static_cast<int>(total % 60));
  } else {
    std::snprintf(text, sizeof text, "%dh %02dm", static_cast<int>(total / 3600), static_cast<int>(total / 60 % 60));
  }
  return text;
}

bool parse_double(const std::string& text, double& value) {
  if (text.empty() || text.find_first_not_of("0123456789+-.eE") != std::string::npos) return false;  // no hex, no names
  char* end = nullptr;
  value = std::strtod(text.c_str(), &end);
  return end == text.c_str() + text.size() && std::isfinite(value);
}

bool parse_int(const std::string& text, int64_t& value) {
  if (text.empty() || std::isspace(static_cast<unsigned char>(text[0]))) return false;
  char* end = nullptr;
  errno = 0;
  value = std::strtoll(text.c_str(), &end, 10);
  return errno == 0 && end == text.c_str() + text.size();
}

namespace {

// The bytes of the UTF-8 character that begins at `at`; 0 where none does.
size_t character_length(const std::string& text, size_t at) {
  const auto byte = [&](size_t i) { return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xc2 && first <= 0xdf   ? 2
                        : (first & 0xf0) == 0xe0         ? 3
                        : first >= 0xf0 && first <= 0xf4 ? 4
                                                         : 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  return length;
}

// What steers a terminal: the control codes of ASCII and of Unicode (U+0080 to U+009F, where U+009B opens a command as
// escape and bracket do), line separators, and marks that turn the direction of the text around them.
bool steers_terminal(const std::string& text, size_t at, size_t length) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  if (length == 1) return byte(0) < 0x20 || byte(0) == 0x7f;
  if (length == 2) return byte(0) == 0xc2 && byte(1) < 0xa0;
  if (length != 3 || byte(0) != 0xe2) return false;
  return (byte(1) == 0x80 && byte(2) >= 0xa8 && byte(2) <= 0xae) ||
         (byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9);
}

}  // namespace

std::vector<std::string> broken(const std::string& text, size_t columns) {
  std::vector<std::string> out(1);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const auto word = text.substr(begin, end - begin);
    if (!out.back().empty() && out.back().size() + 1 + word.size() > columns) out.emplace_back();
    out.back() += (out.back().empty() ? "" : " ") + word;
    begin = end + 1;
  }
  return out;
}

std::string printable(const std::string& text, size_t limit) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (out.size() >= limit) return out + "...";
    const size_t length = character_length(text, at), taken = std::max<size_t>(1, length);
    if (length > 0 && !steers_terminal(text, at, length)) {
      out += text.substr(at, length);
    } else {
      for (size_t i = at; i < at + taken; ++i) {
        char escape[8];
        std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(text[i])));
        out += escape;
      }
    }
    at += taken;
  }
  return out;
}

}  // namespace asr
