// Sets of values for a run's options: what the authors of its methods train with, what the ASR paper trains with, or
// where this project says to begin. A preset gives values only to options that no file and no --set names.
#pragma once

#include <string>
#include <vector>

#include "train/run_options.h"

namespace asr {

struct PresetValues {
  std::string name;
  std::vector<Assignment> taken;  // of options that nobody set
  std::vector<Assignment> left;   // of those that somebody did

  std::string note() const;  // "native: lora_rank=128, ...; as given: learning_rate"
};

PresetValues values_of_preset(const RunOptions& run, const std::vector<Assignment>& given);

}  // namespace asr
