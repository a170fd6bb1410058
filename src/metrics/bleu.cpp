// BLEU-1..4 over the corpus with the closest reference length, as in the COCO caption evaluation, whose two small
// constants keep an empty count from dividing by zero. With one sample it takes the average reference length.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "metrics/caption_metrics.h"

namespace asr {
namespace {

constexpr double kSmall = 1e-9, kTiny = 1e-15;

struct Counts {
  double guessed[kLongestNgram] = {}, right[kLongestNgram] = {}, length = 0, reference_length = 0;

  void add(const Counts& other) {
    for (int k = 0; k < kLongestNgram; ++k) {
      guessed[k] += other.guessed[k];
      right[k] += other.right[k];
    }
    length += other.length;
    reference_length += other.reference_length;
  }

  std::array<double, kLongestNgram> scores() const {
    std::array<double, kLongestNgram> out;
    const double ratio = (length + kTiny) / (reference_length + kSmall);
    const double brevity = ratio < 1 ? std::exp(1 - 1 / ratio) : 1;
    double product = 1;
    for (int k = 0; k < kLongestNgram; ++k) {
      product *= (right[k] + kTiny) / (guessed[k] + kSmall);
      out[k] = std::pow(product, 1.0 / (k + 1)) * brevity;
    }
    return out;
  }
};

double reference_length(const CaptionSample& sample, bool average) {
  const auto own = static_cast<double>(sample.prediction.size());
  double sum = 0, best = static_cast<double>(sample.references[0].size());
  for (const auto& reference : sample.references) {
    const auto length = static_cast<double>(reference.size());
    const double distance = std::abs(length - own), least = std::abs(best - own);
    if (distance < least || (distance == least && length < best)) best = length;
    sum += length;
  }
  return average ? sum / static_cast<double>(sample.references.size()) : best;
}

Counts counts_of(const CaptionSample& sample, bool average_length) {
  NgramCounts allowed;
  for (const auto& reference : sample.references)
    for (const auto& [ngram, count] : count_ngrams(reference)) {
      int& most = allowed[ngram];
      most = std::max(most, count);
    }
  Counts out;
  out.length = static_cast<double>(sample.prediction.size());
  out.reference_length = reference_length(sample, average_length);
  for (int k = 0; k < kLongestNgram; ++k) out.guessed[k] = std::max(0.0, out.length - k);
  for (const auto& [ngram, count] : count_ngrams(sample.prediction)) {
    const auto found = allowed.find(ngram);
    if (found != allowed.end()) out.right[length_of(ngram) - 1] += std::min(count, found->second);
  }
  return out;
}

}  // namespace

MetricResult bleu_of(const Captions& captions) {
  MetricResult out;
  Counts total;
  for (const auto& sample : captions.samples) {
    const auto counts = counts_of(sample, captions.samples.size() == 1);
    total.add(counts);
    out.per_sample.push_back(std::min(1.0, counts.scores()[kLongestNgram - 1]));
  }
  const auto scores = total.scores();
  for (int k = 0; k < kLongestNgram; ++k) out.components["bleu_" + std::to_string(k + 1)] = scores[k];
  out.score = 100 * scores[kLongestNgram - 1];
  return out;
}

MetricResult evaluate_bleu(const std::vector<Answered>& samples) {
  return bleu_of(Captions(samples));
}

}  // namespace asr
