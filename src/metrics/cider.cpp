// CIDEr-D: n-grams weighted by how few samples have them among their references, cosine similarity with clipped counts,
// a penalty for unlike lengths (sigma 6), mean over n = 1..4 and over the references, times ten. The document
// frequencies come from the references at hand, so one sample alone always scores 0.
#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "metrics/caption_metrics.h"

namespace asr {
namespace {

constexpr double kSigma = 6;

struct Weighted {
  std::unordered_map<Ngram, double, NgramHash> weights;
  double norm[kLongestNgram] = {};
  double length = 0;  // in pairs of words, as the reference code counts
};

class Documents {
 public:
  explicit Documents(const Captions& captions) : log_count_(std::log(static_cast<double>(captions.samples.size()))) {
    for (const auto& sample : captions.samples) {
      std::unordered_set<Ngram, NgramHash> seen;
      for (const auto& reference : sample.references)
        for (const auto& [ngram, count] : count_ngrams(reference))
          if (seen.insert(ngram).second) ++frequency_[ngram];
    }
  }

  Weighted weigh(const WordIds& words) const {
    Weighted out;
    for (const auto& [ngram, count] : count_ngrams(words)) {
      const int k = length_of(ngram) - 1;
      const auto found = frequency_.find(ngram);
      const double seen = found == frequency_.end() ? 1 : found->second;
      const double weight = count * (log_count_ - std::log(seen));
      out.weights[ngram] = weight;
      out.norm[k] += weight * weight;
      if (k == 1) out.length += count;
    }
    for (double& norm : out.norm) norm = std::sqrt(norm);
    return out;
  }

 private:
  double log_count_;
  NgramCounts frequency_;
};

double similarity(const Weighted& said, const Weighted& truth) {
  double dot[kLongestNgram] = {}, sum = 0;
  for (const auto& [ngram, weight] : said.weights) {
    const auto found = truth.weights.find(ngram);
    if (found != truth.weights.end()) dot[length_of(ngram) - 1] += std::min(weight, found->second) * found->second;
  }
  for (int k = 0; k < kLongestNgram; ++k)
    if (said.norm[k] > 0 && truth.norm[k] > 0) sum += dot[k] / (said.norm[k] * truth.norm[k]);
  const double difference = said.length - truth.length;
  return sum / kLongestNgram * std::exp(-difference * difference / (2 * kSigma * kSigma));
}

}  // namespace

MetricResult cider_of(const Captions& captions) {
  const Documents documents(captions);
  std::vector<double> values;
  for (const auto& sample : captions.samples) {
    const auto said = documents.weigh(sample.prediction);
    double sum = 0;
    for (const auto& reference : sample.references) sum += similarity(said, documents.weigh(reference));
    values.push_back(10 * sum / static_cast<double>(sample.references.size()));
  }
  auto out = mean_result("cider", std::move(values));
  for (double& value : out.per_sample) value = std::clamp(value, 0.0, 1.0);
  return out;
}

MetricResult evaluate_cider(const std::vector<Answered>& samples) {
  return cider_of(Captions(samples));
}

}  // namespace asr
