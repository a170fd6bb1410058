#include "metrics/metric.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace asr {
namespace {

struct NamedMetric {
  const char* name;
  MetricResult (*evaluate)(const std::vector<Answered>&);
};

const NamedMetric kMetrics[] = {
#define METRIC(name) {#name, evaluate_##name},
#include "metrics/metrics.def"
#undef METRIC
};

}  // namespace

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const auto& row : kMetrics) names.push_back(row.name);
  return names;
}

MetricResult evaluate_metric(const std::string& name, const std::vector<Answered>& samples) {
  for (const auto& row : kMetrics) {
    if (name != row.name) continue;
    check(!samples.empty(), "metric ", name, ": there is no sample to score");
    for (const auto& sample : samples)
      check(!sample.references.empty(), "metric ", name, ": sample '", printable(sample.id),
            "' has no reference; give 'answer', 'answers' or 'references'");
    return row.evaluate(samples);
  }
  fail("unknown metric '", printable(name), "'", did_you_mean(name, metric_names()));
}

void check_metric(const std::string& name) {
  const auto names = metric_names();
  check(std::find(names.begin(), names.end(), name) != names.end(), "unknown metric '", printable(name), "'",
        did_you_mean(name, names));
  for (const char* reader : {"meteor", "caption7", "wups", "wups_vqacl"})
    if (name == reader) evaluate_metric(name, {{"", "a cat", {"a cat"}}});
}

MetricResult mean_result(const std::string& component, std::vector<double> per_sample) {
  MetricResult out;
  double sum = 0;
  for (double value : per_sample) sum += value;
  const double mean = per_sample.empty() ? 0 : sum / static_cast<double>(per_sample.size());
  out.score = 100 * mean;
  out.components[component] = mean;
  out.per_sample = std::move(per_sample);
  return out;
}

}  // namespace asr
