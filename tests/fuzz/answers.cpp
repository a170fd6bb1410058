// Any text as a prediction and as a reference: every metric that needs no WordNet gives a value in 0..1.
#include <cstdlib>

#include "base/error.h"
#include "metrics/metric.h"
#include "metrics/porter.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const size_t middle = text.find('|');
  const std::string said = text.substr(0, middle), truth = middle == std::string::npos ? text : text.substr(middle + 1);
  for (const auto& name : asr::metric_names()) {
    if (name == "meteor" || name == "caption7" || name.rfind("wups", 0) == 0) continue;
    try {
      const auto result = asr::evaluate_metric(name, {{"1", said, {truth}}, {"2", truth, {truth, said}}});
      for (double value : result.per_sample)
        if (!(value >= 0 && value <= 1)) std::abort();
    } catch (const asr::Error&) {  // a reference that is no box
    }
  }
  asr::porter_stem(said);
  return 0;
}
