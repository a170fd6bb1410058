// The prototype memory: all that ASR keeps between stages. Per skill a mean, a diagonal variance, a mean angular
// spectrum and how many samples went in; nothing of any sample. Stored as one checksummed safetensors file.
#pragma once

#include <string>
#include <vector>

#include "spectral/moments.h"
#include "spectral/options.h"
#include "spectral/spectral_loss.h"

namespace asr {

struct Prototype {
  int64_t skill = 0;  // column of the posterior; 0 for a global prototype, the stage index for a task's
  int64_t count = 0;  // samples over all stages
  std::vector<double> mean, variance, angular, map;
};

struct PrototypeMemory {
  Options options;
  int64_t stages = 0;                     // stages seen
  std::vector<std::string> skill_names;   // by skill index; may be shorter than the largest index
  int64_t map_height = 0, map_width = 0;  // of raw-map prototypes, otherwise 0
  std::vector<Prototype> prototypes;      // ascending by skill

  // EMA of one stage into the memory; a skill seen first takes the moments.
  void take(const StageMoments& stage);
  // What the method does with a stage: in the ablation without distillation only the first is taken.
  bool wants_stage() const { return options.asr.holds_spectra() || stages == 0; }
  bool update(const StageMoments& stage);  // whether anything changed
  void leave_out_stage() { ++stages; }     // unmeasured, where none is wanted

  std::string name_of(int64_t skill) const;
  PrototypeTensors tensors() const;  // float64
};

PrototypeMemory load_memory(const std::string& path);  // verifies the checksum and every invariant
void save_memory(const std::string& path, const PrototypeMemory& memory);

}  // namespace asr
