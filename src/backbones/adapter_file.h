// Adapters in PEFT's layout: adapter_config.json and adapter_model.safetensors, as Python's PEFT writes and reads them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backbones/backbone.h"

namespace asr {

// Adds the adapter of `folder` as one more expert to the model and returns its tensors under PEFT's names, without
// "base_model.model.". Strict: every tensor must find its place, and no pair may be incomplete.
NamedParameters load_adapter(Backbone& model, const std::string& folder);

// In a folder of slots with gates, which PEFT cannot read (train/run_adapter.h).
inline constexpr const char* kSlotsFile = "asr_adapter.json";
// Fails where `folder` is a whole run's; the line names its adapter.
void check_no_run_folder(const std::string& folder);

struct AdapterConfig {
  int64_t rank = 16;
  double alpha = 32, dropout = 0;
  std::string base_model = {};  // as the user gave it, a path or a name on the hub, so that PEFT finds it again
  std::map<std::string, int64_t> rank_pattern = {};  // of sites with another rank
  std::map<std::string, double> alpha_pattern = {};
};
void save_adapter(const std::string& folder, const NamedParameters& parameters, const AdapterConfig& config);

}  // namespace asr
