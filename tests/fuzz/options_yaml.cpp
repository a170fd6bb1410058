// Any text as an option file: either an Error, or a list of non-empty keys.
#include <cstdlib>

#include "base/error.h"
#include "base/options.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    for (const auto& assignment : asr::parse_yaml_options({reinterpret_cast<const char*>(data), size}, "fuzz"))
      if (assignment.key.empty() || assignment.origin.empty()) std::abort();
  } catch (const asr::Error&) {
  }
  return 0;
}
