#include "nn/rotary_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace asr {
namespace {

constexpr double kPi = 3.14159265358979323846;

double real(const nlohmann::json& object, const char* key, double otherwise, const std::string& path) {
  if (!object.contains(key) || object[key].is_null()) return otherwise;
  check(object[key].is_number(), path, ": '", key, "' is no number");
  return object[key].get<double>();
}

// YaRN stretches slow pairs, leaves fast ones alone, and mixes between.
std::vector<double> yarn_speeds(const RotaryConfig& c, const std::vector<double>& plain, int64_t width) {
  const auto pair_of = [&](double turns) {
    return static_cast<double>(width) * std::log(static_cast<double>(c.trained_positions) / (turns * 2 * kPi)) /
           (2 * std::log(c.theta));
  };
  const double low = std::max(0.0, std::floor(pair_of(c.beta_fast)));
  double high = std::min(static_cast<double>(width - 1), std::ceil(pair_of(c.beta_slow)));
  if (low == high) high += 0.001;
  auto out = plain;
  for (size_t i = 0; i < out.size(); ++i) {
    const double stretched = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    out[i] = plain[i] / c.factor * stretched + plain[i] * (1 - stretched);
  }
  return out;
}

std::vector<double> llama3_speeds(const RotaryConfig& c, const std::vector<double>& plain) {
  const auto trained = static_cast<double>(c.trained_positions);
  auto out = plain;
  for (auto& speed : out) {
    const double wave = 2 * kPi / speed;
    if (wave < trained / c.high_frequency) continue;
    if (wave > trained / c.low_frequency) {
      speed /= c.factor;
    } else {
      const double smooth = (trained / wave - c.low_frequency) / (c.high_frequency - c.low_frequency);
      speed = (1 - smooth) * speed / c.factor + smooth * speed;
    }
  }
  return out;
}

}  // namespace

RotaryConfig rotary_config(const nlohmann::json& text, const std::string& path) {
  nlohmann::json rope = nlohmann::json::object();
  for (const char* key : {"rope_scaling", "rope_parameters"})
    if (text.contains(key) && !text[key].is_null()) {
      check(text[key].is_object(), path, ": '", key, "' is no object");
      rope = text[key];
    }
  RotaryConfig c;
  c.theta = real(rope, "rope_theta", real(text, "rope_theta", 10000, path), path);
  check(c.theta > 1, path, ": rope_theta is ", c.theta, "; it must be above 1");
  for (const char* key : {"type", "rope_type"})
    if (rope.contains(key) && rope[key].is_string()) c.type = rope[key].get<std::string>();
  if (c.type == "mrope") c.type = "default";
  const std::vector<std::string> known = {"default", "linear", "dynamic", "llama3", "yarn"};
  check(std::find(known.begin(), known.end(), c.type) != known.end(), path, ": rotary positions of type '", c.type,
        "' are not supported; known: default, linear, dynamic, llama3, yarn");
  check(real(rope, "partial_rotary_factor", real(text, "partial_rotary_factor", 1, path), path) == 1, path,
        ": partial_rotary_factor other than 1 is not supported");
  c.factor = real(rope, "factor", 1, path);
  check(c.factor > 0, path, ": the rotary 'factor' must be positive");
  const double longest = real(text, "max_position_embeddings", 2048, path);
  c.trained_positions = static_cast<int64_t>(
      c.type == "dynamic" ? longest : real(rope, "original_max_position_embeddings", longest, path));
  c.low_frequency = real(rope, "low_freq_factor", 1, path);
  c.high_frequency = real(rope, "high_freq_factor", 4, path);
  c.beta_fast = real(rope, "beta_fast", 32, path);
  c.beta_slow = real(rope, "beta_slow", 1, path);
  if (c.type == "yarn") {
    const auto scale = [&](double m) { return c.factor <= 1 ? 1.0 : 0.1 * m * std::log(c.factor) + 1; };
    const double m = real(rope, "mscale", 0, path), all = real(rope, "mscale_all_dim", 0, path);
    c.attention_scale = real(rope, "attention_factor", m != 0 && all != 0 ? scale(m) / scale(all) : scale(1), path);
  }
  if (rope.contains("mrope_section")) {
    check(rope["mrope_section"].is_array() && rope["mrope_section"].size() == 3, path,
          ": 'mrope_section' must hold three numbers");
    for (const auto& part : rope["mrope_section"]) {
      check(part.is_number_integer() && part.get<int64_t>() >= 0, path, ": 'mrope_section' must hold three numbers");
      c.sections.push_back(part.get<int64_t>());
    }
  }
  return c;
}

std::vector<double> rotary_speeds(const RotaryConfig& c, int64_t width, int64_t positions) {
  double theta = c.theta;
  if (c.type == "dynamic" && positions > c.trained_positions) {
    const double stretch = c.factor * static_cast<double>(positions) / static_cast<double>(c.trained_positions);
    theta *= std::pow(stretch - (c.factor - 1), static_cast<double>(width) / static_cast<double>(width - 2));
  }
  std::vector<double> plain;
  for (int64_t i = 0; i < width / 2; ++i)
    plain.push_back(std::exp(-std::log(theta) * 2 * static_cast<double>(i) / static_cast<double>(width)));
  if (c.type == "linear")
    for (auto& speed : plain) speed /= c.factor;
  if (c.type == "llama3") return llama3_speeds(c, plain);
  if (c.type == "yarn") return yarn_speeds(c, plain, width);
  return plain;
}

}  // namespace asr
