// Training a built-in backbone from scratch on the world's pretraining mixture: every weight, one cosine schedule. It
// makes the bases that the streams start from.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace asr {

struct PretrainOptions {
  std::string backbone = "tiny", size = "S";
  int64_t steps = 9000, batch = 512, warmup = 200;
  int64_t pool = 1000000;  // distinct samples, drawn from again and again
  double learning_rate = 1e-3, weight_decay = 0.05;
  uint64_t seed = 1;
  std::string init;  // a model file of the same kind and size to go on from; empty: random weights
  std::string device = "cpu", out, log;
  int64_t check_every = 1000, check_samples = 300;  // accuracy on validation scenes while training
};

nlohmann::json pretrain(const PretrainOptions& options);  // final accuracies by question type and domain

}  // namespace asr
