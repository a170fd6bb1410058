// D-MoLE without a trainer: stages of the world, what its autoencoders read and make of it by hand, and three tasks
// that recognise a sample each.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "tests/methods/held_state.h"
#include "tests/methods/method_case.h"

namespace asr {

struct MoleCase : OwnModelCase {
  explicit MoleCase(const MethodOptions& options, const std::string& kind = "tiny")
      : OwnModelCase("d-mole", options, kind) {}

  void enter_phase(int stage, const SampleSet& set, const std::string& name) {
    auto context = fixture->stage_context(stage, set);
    Phase phase;
    phase.name = name;
    fixture->method->begin_phase(context, phase);
  }
  torch::Tensor parameter(const std::string& wanted) {
    const auto groups = fixture->method->parameters();
    for (const auto& [name, tensor] : groups.at(0).parameters)
      if (name == wanted) return tensor;
    return {};
  }
};

// What a task is recognised by: the largest entries of the tower's last states and of the question's, read alone.
inline torch::Tensor features_by_hand(MethodCase& fixture, const SampleBatch& batch) {
  at::NoGradGuard no_grad;
  const auto pixels = batch.pixels ? batch.pixels() : batch.input.pixels;
  const auto tower = fixture.model->encode_images(pixels).amax(1).to(at::kDouble);
  Want want;
  want.loss = false;
  want.states = true;
  const auto alone = fixture.model->without_pictures(batch.input);
  const auto text = fixture.model->forward(alone, Pass{0, nullptr}, want).text_max.to(at::kDouble);
  auto out = at::cat({tower, text}, 1);
  for (int64_t b = 0; b < out.size(0); ++b) out[b] /= std::sqrt(out[b].square().sum().item<double>());
  return out;
}

struct PlainCode {
  torch::Tensor encode, encode_bias, decode, decode_bias;
  double error(const torch::Tensor& z) const {
    const auto e = encode.to(at::kDouble), d = decode.to(at::kDouble);
    std::vector<double> code;
    for (int64_t h = 0; h < e.size(0); ++h)
      code.push_back(std::max(0.0, e[h].dot(z).item<double>() + encode_bias[h].item<double>()));
    const auto inner = torch::tensor(code, at::kDouble);
    double sum = 0;
    for (int64_t i = 0; i < d.size(0); ++i) {
      const double y = 1 / (1 + std::exp(-(d[i].dot(inner).item<double>() + decode_bias[i].item<double>())));
      sum += std::pow(y - z[i].item<double>(), 2) / static_cast<double>(d.size(0));
    }
    return sum;
  }
};

inline PlainCode code_of(MoleCase& test) {
  return {test.parameter("encode").detach().clone(), test.parameter("encode_bias").detach().clone(),
          test.parameter("decode").detach().clone(), test.parameter("decode_bias").detach().clone()};
}

// Three tasks whose autoencoders give back the features of one sample each, whatever they read.
struct ThreeTasks {
  std::vector<PlainCode> codes;
  std::vector<double> thresholds;
  ThreeTasks(MoleCase& test, const SampleSet& set) {
    const auto features = features_by_hand(*test.fixture, set.rows(range(0, set.size())));
    for (int stage = 1; stage <= 3; ++stage) {
      test.begin(stage, set);
      at::NoGradGuard no_grad;
      test.parameter("decode").zero_();
      const auto like = features[4 * (stage - 1)].clamp(1e-4, 1 - 1e-4);
      test.parameter("decode_bias").copy_((like / (1 - like)).log());
      test.enter_phase(stage, set, "");
      codes.push_back(code_of(test));
      // A threshold is the error of one of these samples, so rounding would decide about it: it is moved off.
      const auto held = held_tensor(*test->method, "thresholds");
      held[stage - 1].mul_(1.001);
      put_tensor(*test->method, "thresholds", held);
      thresholds.push_back(held[stage - 1].item<double>());
      for (int64_t b = 0; b < set.size(); ++b)
        EXPECT_GT(std::abs(codes.back().error(features[b]) / thresholds.back() - 1), 1e-4);
    }
    test->randomise();
  }
  // The best candidate among the first tasks, -1 where there is none.
  int64_t best(const torch::Tensor& z, size_t tasks) const {
    int64_t out = -1;
    double least = 0;
    for (size_t k = 0; k < tasks; ++k) {
      const double error = codes[k].error(z);
      if (error >= thresholds[k] || (out >= 0 && error >= least)) continue;
      out = static_cast<int64_t>(k);
      least = error;
    }
    return out;
  }
};

}  // namespace asr
