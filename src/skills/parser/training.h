// Training the skill parser on labelled questions, fitting its temperature on held-out ones, and measuring it.
#pragma once

#include <torch/types.h>

#include <functional>
#include <vector>

#include "skills/labelled_questions.h"
#include "skills/parser/parser.h"

namespace asr {

// Called after every step with the loss of its batch; on a GPU with that of an earlier one, so as not to wait for it.
using WatchTraining = std::function<void(int64_t step, double loss)>;

struct ParserTraining {
  uint64_t seed = 0;
  WatchTraining watch = {};
  at::Device device = at::kCPU;
};

int64_t training_steps(const ParserOptions& options, size_t questions);  // by epochs, or as many as `steps` says

// Cross-entropy with AdamW, against the questions' targets where they have some (soft labels of rules, or the posterior
// of a larger parser); batches and dropped words are keyed by (seed, step). The temperature is then fitted on
// `held_out`, if there are any: each question as it is and once more with words dropped as in training, since that is
// what an unfamiliar wording looks like to the parser. The result is on the CPU. A signal (base/interrupt.h) ends the
// training early, with what was learnt so far.
SkillParser train_parser(const std::vector<LabelledQuestion>& train, const std::vector<LabelledQuestion>& held_out,
                         const ParserOptions& options, const ParserTraining& how);

// What `teacher` says of the questions becomes their targets.
void set_targets(std::vector<LabelledQuestion>& questions, const SkillParser& teacher);

// The temperature with the least negative log-likelihood, between 0.05 and 20. logits [N, S], labels [N] int64 or, as
// distributions, [N, S].
double fit_temperature(const torch::Tensor& logits, const torch::Tensor& labels);

struct ParserReport {
  int64_t count = 0;
  double accuracy = 0, log_likelihood = 0;  // fraction; mean of log p(label)
  double calibration_error = 0;             // expected |accuracy - confidence| over 15 equal bins of confidence
  double confidence = 0;                    // mean of the largest posterior
  struct Skill {
    int64_t count = 0, predicted = 0, correct = 0;  // labelled so, answered so, both
  };
  std::vector<Skill> skills;
  struct Confusion {
    int label = 0, answer = 0;
    int64_t count = 0;
  };
  std::vector<Confusion> confusions;  // wrong answers, most frequent first
};
// A soft label counts an answer as right, for the calibration, by the share that it gives to it.
ParserReport evaluate_posterior(const torch::Tensor& posterior, const std::vector<LabelledQuestion>& questions);
ParserReport evaluate_parser(const SkillParser& parser, const std::vector<LabelledQuestion>& questions);

}  // namespace asr
