// The caption metrics on tokenised captions, so that `caption7` tokenises once for all of them.
#pragma once

#include "metrics/caption_tokens.h"

namespace asr {

MetricResult bleu_of(const Captions& captions);     // components bleu_1 .. bleu_4; score and samples: bleu_4
MetricResult rouge_l_of(const Captions& captions);  // component rouge_l
MetricResult cider_of(const Captions& captions);    // component cider, unclipped
MetricResult meteor_of(const Captions& captions);   // component meteor; needs WordNet

// Length of the longest common subsequence, in time O(|a| |b| / 64) and linear memory.
size_t longest_common_subsequence(const WordIds& a, const WordIds& b);

}  // namespace asr
