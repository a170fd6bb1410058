// UCIT's caption score: the mean of BLEU-1..4, METEOR, ROUGE-L and CIDEr, times 100. CIDEr is not bounded by 1, so
// neither is the mean; its parts are among the components. A sample's own value weighs its BLEU-4 fourfold and
// clips its CIDEr at 1.
#include "metrics/caption_metrics.h"

namespace asr {

MetricResult evaluate_caption7(const std::vector<Answered>& samples) {
  const Captions captions(samples);
  const auto bleu = bleu_of(captions), meteor = meteor_of(captions), rouge = rouge_l_of(captions),
             cider = cider_of(captions);
  MetricResult out;
  double sum = 0;
  for (const auto* part : {&bleu, &meteor, &rouge, &cider}) {
    for (const auto& [name, value] : part->components) {
      out.components[name] = value;
      sum += value;
    }
  }
  out.score = 100 * sum / 7;
  for (size_t i = 0; i < samples.size(); ++i)
    out.per_sample.push_back(
        (4 * bleu.per_sample[i] + meteor.per_sample[i] + rouge.per_sample[i] + cider.per_sample[i]) / 7);
  return out;
}

}  // namespace asr
