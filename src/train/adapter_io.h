// Adapters in PEFT's layout: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <string>

#include "nn/linear.h"
#include "train/run_options.h"

namespace asr {

void save_adapter(const std::string& folder, const NamedParameters& parameters, const RunOptions& run,
                  const std::string& base_model);

}  // namespace asr
