// ROUGE-L as in the COCO caption evaluation: precision and recall of the longest common subsequence, each the best over
// the references on its own, joined with beta = 1.2; the corpus score is the mean.
#include <algorithm>
#include <unordered_map>

#include "metrics/caption_metrics.h"

namespace asr {
namespace {

using Bits = std::vector<uint64_t>;

// Where each word stands in a sentence, as bits. Words frequent enough that setting their bits anew would cost more
// than a row of the table keep them; there are at most 64 such words, so memory stays linear.
class Places {
 public:
  explicit Places(const WordIds& words) : width_((words.size() + 63) / 64), scratch_(width_) {
    for (size_t i = 0; i < words.size(); ++i) places_[words[i]].push_back(i);
    for (const auto& [word, where] : places_)
      if (where.size() > width_) set(kept_[word] = Bits(width_), where, true);
  }

  template <class Use>
  void with_bits(uint32_t word, const Use& use) {
    const auto kept = kept_.find(word);
    if (kept != kept_.end()) return use(kept->second);
    const auto found = places_.find(word);
    if (found == places_.end()) return;  // a word not in the sentence changes nothing
    set(scratch_, found->second, true);
    use(scratch_);
    set(scratch_, found->second, false);
  }

 private:
  static void set(Bits& bits, const std::vector<size_t>& where, bool on) {
    for (size_t i : where) bits[i / 64] = on ? bits[i / 64] | uint64_t(1) << (i % 64) : 0;
  }

  size_t width_;
  Bits scratch_;
  std::unordered_map<uint32_t, std::vector<size_t>> places_;
  std::unordered_map<uint32_t, Bits> kept_;
};

double rouge_l(const CaptionSample& sample) {
  double precision = 0, recall = 0;
  for (const auto& reference : sample.references) {
    if (reference.empty() || sample.prediction.empty()) continue;
    const auto common = static_cast<double>(longest_common_subsequence(sample.prediction, reference));
    precision = std::max(precision, common / static_cast<double>(sample.prediction.size()));
    recall = std::max(recall, common / static_cast<double>(reference.size()));
  }
  if (precision == 0 || recall == 0) return 0;
  constexpr double beta2 = 1.2 * 1.2;
  return (1 + beta2) * precision * recall / (recall + beta2 * precision);
}

}  // namespace

// Row by row over `b`, all of `a` at once: a zero bit marks a place of `a` where the length grows, and one addition
// with carries moves all of them (bit-parallel dynamic programming).
size_t longest_common_subsequence(const WordIds& a, const WordIds& b) {
  Places places(a);
  Bits row((a.size() + 63) / 64, ~uint64_t(0));
  for (uint32_t word : b)
    places.with_bits(word, [&row](const Bits& match) {
      uint64_t carry = 0;
      for (size_t i = 0; i < row.size(); ++i) {
        const uint64_t hit = row[i] & match[i];
        const uint64_t sum = row[i] + hit, next = sum + carry;
        carry = (sum < hit) | (next < sum);
        row[i] = next | (row[i] & ~match[i]);
      }
    });
  size_t length = 0;
  for (size_t i = 0; i < a.size(); ++i) length += !(row[i / 64] >> (i % 64) & 1);
  return length;
}

MetricResult rouge_l_of(const Captions& captions) {
  std::vector<double> values;
  for (const auto& sample : captions.samples) values.push_back(rouge_l(sample));
  return mean_result("rouge_l", std::move(values));
}

MetricResult evaluate_rouge_l(const std::vector<Answered>& samples) {
  return rouge_l_of(Captions(samples));
}

}  // namespace asr
