#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "base/text.h"

namespace asr {
namespace {

spdlog::logger& logger() {
  static auto instance = [] {
    auto made = std::make_shared<spdlog::logger>("asr", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%^asr:%$ %v");
    return made;
  }();
  return *instance;
}

}  // namespace

void set_log_level(const std::string& level) {
  if (level == "debug") return logger().set_level(spdlog::level::debug);
  if (level == "info") return logger().set_level(spdlog::level::info);
  if (level == "warn") return logger().set_level(spdlog::level::warn);
  if (level == "off") return logger().set_level(spdlog::level::off);
  fail("log level '", level, "' is unknown", did_you_mean(level, {"debug", "info", "warn", "off"}));
}

void log_line_debug(const std::string& text) {
  logger().debug("{}", text);
}
void log_line_info(const std::string& text) {
  logger().info("{}", text);
}
void log_line_warn(const std::string& text) {
  logger().warn("{}", text);
}

}  // namespace asr
