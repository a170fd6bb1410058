// Metrics over predicted texts, by name. A metric is one file and one line in metrics.def; a benchmark's quirk is a
// variant with a name of its own, so that numbers under different rules never share a column.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace asr {

// A prediction with all answers that count as right (or, for VQA, what each annotator said).
struct Answered {
  std::string id, text;
  std::vector<std::string> references;
  std::string type = {};  // question type where a metric depends on it (NExT-QA: "DC", "CW", ...); else empty
};

struct MetricResult {
  double score = 0;                          // 0..100; CIDEr and means that hold it may exceed 100
  std::vector<double> per_sample;            // 0..1, in the order of the samples
  std::map<std::string, double> components;  // fractions, such as "bleu_4"
};

// An unknown name, no sample at all, or a sample without references is an error.
MetricResult evaluate_metric(const std::string& name, const std::vector<Answered>& samples);
std::vector<std::string> metric_names();

// Ends with an error where a metric would: its name is unknown, or the dictionary that it reads is not installed. To be
// asked before hours of training, not after them.
void check_metric(const std::string& name);

// What most metrics are: the mean of a value per sample, under the component's name.
MetricResult mean_result(const std::string& component, std::vector<double> per_sample);

// The best over a sample's references of `value(prediction, reference)`, for every sample.
template <class Value>
std::vector<double> best_over_references(const std::vector<Answered>& samples, const Value& value) {
  std::vector<double> out;
  out.reserve(samples.size());
  for (const auto& sample : samples) {
    double best = 0;
    for (const auto& reference : sample.references) {
      const double got = value(sample.text, reference);
      if (got > best) best = got;
    }
    out.push_back(best);
  }
  return out;
}

#define METRIC(name) MetricResult evaluate_##name(const std::vector<Answered>& samples);
#include "metrics/metrics.def"
#undef METRIC

}  // namespace asr
