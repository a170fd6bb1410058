// Any text as a score matrix: either an Error, or a matrix whose scores can be computed.
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "metrics/score_matrix.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    std::vector<std::string> warnings;
    const auto matrix = asr::parse_score_csv({reinterpret_cast<const char*>(data), size}, "fuzz", warnings);
    const auto scores = asr::score(matrix);
    if (!(scores.ap >= 0 && scores.ap <= 100 + 1e-9)) std::abort();
  } catch (const asr::Error&) {
  }
  return 0;
}
