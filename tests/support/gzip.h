// Reference data that others ship compressed, through the system's gzip.
#pragma once

#include <cstdio>
#include <string>

namespace asr {

inline std::string gunzipped(const std::string& path) {
  std::string out;
  std::FILE* pipe = popen(("gzip -dc '" + path + "'").c_str(), "r");
  if (!pipe) return out;
  char buffer[1 << 16];
  for (size_t got; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, got);
  pclose(pipe);
  return out;
}

}  // namespace asr
