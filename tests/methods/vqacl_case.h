// VQACL without a trainer: batches that it learns from, and what its prototypes are made of and searched by, by hand.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/methods/fake_runs.h"
#include "tests/methods/method_case.h"
#include "train/kept_state.h"

namespace asr {

inline constexpr double kFloatNear = 1e-5;  // of float32 sums of a few numbers about 1

inline torch::Tensor kept_tensor(Method& method, const std::string& name) {
  StateHolder holder("");
  method.state(holder);
  for (const auto& item : holder.items)
    if (item.name == name) return item.tensor.to(at::kDouble);
  return {};
}

// Mean embedding of the question's words, token by token.
inline std::vector<double> question_by_hand(const Backbone& model, const SampleBatch& batch, int64_t b) {
  const auto table = model.token_embedding().to(at::kDouble);
  std::vector<double> out(static_cast<size_t>(model.width()));
  double count = 0;
  for (int64_t t = 0; t < batch.input.ids.size(1); ++t) {
    if (!batch.input.question[b][t].item<bool>()) continue;
    const auto row = table[batch.input.ids[b][t].item<int64_t>()];
    for (size_t d = 0; d < out.size(); ++d) out[d] += row[static_cast<int64_t>(d)].item<double>();
    ++count;
  }
  for (auto& number : out) number /= count;
  return out;
}

// Mean visual token as it enters the language model, adapters off.
inline torch::Tensor pictures_by_model(const Backbone& model, const SampleBatch& batch) {
  Want want;
  want.loss = false;
  want.early = true;
  return model.forward(batch.input, Pass{0, nullptr}, want).image_input.to(at::kDouble);
}

inline torch::Tensor questions_by_hand(const Backbone& model, const SampleBatch& batch) {
  std::vector<torch::Tensor> rows;
  for (int64_t b = 0; b < batch.size(); ++b)
    rows.push_back(torch::tensor(question_by_hand(model, batch, b), at::kDouble));
  return at::stack(rows);
}

inline int64_t nearest_by_hand(const torch::Tensor& rows, const torch::Tensor& vector) {
  int64_t best = -1;
  double most = -2;
  for (int64_t k = 0; k < rows.size(0); ++k) {
    double dot = 0, left = 0, right = 0;
    for (int64_t d = 0; d < rows.size(1); ++d) {
      const double a = std::tanh(rows[k][d].item<double>()), b = std::tanh(vector[d].item<double>());
      dot += a * b;
      left += a * a;
      right += b * b;
    }
    if (left == 0) continue;
    if (const double cosine = dot / std::sqrt(left * right); cosine > most) {
      most = cosine;
      best = k;
    }
  }
  return best;
}

struct VqaclCase : MethodCase {
  VqaclCase(const std::string& path, const Settings& more = {}) : MethodCase("vqacl", assignments(more), path) {
    lay_out(1);
  }
  static std::vector<Assignment> assignments(const Settings& more) {
    std::vector<Assignment> out;
    for (const auto& [key, value] : more) out.push_back({key, value, "test"});
    return out;
  }
  void begin(int stage, const SampleSet& set) {
    auto context = stage_context(stage, set);
    method->begin_stage(context);
    method->before_stage(context);
  }
  SampleBatch learn(SampleBatch batch, const Phase& phase = {}) {
    Share share{alone};
    share.positions = range(0, batch.size());
    method->mix_batch(batch, share, *model, 1);
    end_step(phase);
    return batch;
  }
  void end_step(const Phase& phase) {
    GradientContext step{1, 0, phase, *bank, trained};
    method->after_backward(step);
  }
};

// Of every category that the rows have: mean of their vectors.
inline std::map<std::string, torch::Tensor> means_by_category(const SampleBatch& batch, const torch::Tensor& vectors) {
  std::map<std::string, torch::Tensor> sums;
  std::map<std::string, double> counts;
  for (int64_t b = 0; b < batch.size(); ++b) {
    const auto& name = batch.info[static_cast<size_t>(b)].category;
    sums[name] = sums.count(name) ? sums[name] + vectors[b] : vectors[b].clone();
    ++counts[name];
  }
  for (auto& [name, sum] : sums) sum /= counts[name];
  return sums;
}

}  // namespace asr
