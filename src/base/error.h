// The one exception type, and how to raise it. A message names the file, key or line and a remedy; only
// main catches. Exit status 2 means bad input or usage, 1 anything else (disk full, no memory).
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace asr {

struct Error : std::runtime_error {
  Error(const std::string& message, int exit_status) : std::runtime_error(message), status(exit_status) {}
  int status;
};

template <class... Parts>
std::string cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw Error(cat(parts...), 2);
}

// The machine, not the user, is at fault: no space, no permission, no device.
template <class... Parts>
[[noreturn]] void fail_system(const Parts&... parts) {
  throw Error(cat(parts...), 1);
}

template <class... Parts>
void check(bool ok, const Parts&... parts) {
  if (!ok) fail(parts...);
}

// The same error, of a function that does not know which file it is about.
template <class Function>
auto about_file(const std::string& path, const Function& function) {
  try {
    return function();
  } catch (const Error& error) {
    throw Error(path + ": " + error.what(), error.status);
  }
}

}  // namespace asr
