// Rotary positions as model folders configure them: plain, linear, dynamic, Llama 3, YaRN, and the three-part positions
// (time, height, width) of Qwen's vision models.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace asr {

struct RotaryConfig {
  double theta = 10000;
  std::string type = "default";                               // default, linear, dynamic, llama3, yarn
  double factor = 1;                                          // by how much the context was stretched
  int64_t trained_positions = 0;                              // before stretching; 0 where the type does not ask
  double low_frequency = 1, high_frequency = 4;               // llama3
  double beta_fast = 32, beta_slow = 1, attention_scale = 1;  // yarn
  std::vector<int64_t> sections;  // pairs turned by time, height and width; empty: one position a token
};

// From a text model's configuration, in the spelling of transformers 5 (`rope_parameters`) or before (`rope_theta`,
// `rope_scaling`). `path` names the file in messages.
RotaryConfig rotary_config(const nlohmann::json& text_config, const std::string& path);

// How fast each of the `width` / 2 pairs turns; `positions` is the length in use, which only `dynamic` looks at.
std::vector<double> rotary_speeds(const RotaryConfig& config, int64_t width, int64_t positions);

}  // namespace asr
