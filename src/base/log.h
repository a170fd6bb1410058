// Messages for people, on stderr, so that stdout stays clean for results. Levels: debug, info, warn, off.
#pragma once

#include <string>

#include "base/error.h"

namespace asr {

void set_log_level(const std::string& level);  // an unknown name is an error

void log_line_debug(const std::string& text);
void log_line_info(const std::string& text);
void log_line_warn(const std::string& text);

template <class... Parts>
void log_debug(const Parts&... parts) {
  log_line_debug(cat(parts...));
}
template <class... Parts>
void log_info(const Parts&... parts) {
  log_line_info(cat(parts...));
}
template <class... Parts>
void log_warn(const Parts&... parts) {
  log_line_warn(cat(parts...));
}

}  // namespace asr
