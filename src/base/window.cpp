#include "base/window.h"

#include <sys/ioctl.h>

#include <cstdlib>

#include "base/text.h"

namespace asr {

int window_columns(std::FILE* stream) {
  winsize size{};
  return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

int output_columns() {
  if (const char* set = std::getenv("COLUMNS")) {
    int64_t columns = 0;
    if (parse_int(set, columns) && columns > 0 && columns < 10000) return static_cast<int>(columns);
  }
  return window_columns(stdout);
}

}  // namespace asr
