// QUAD without a trainer: a model that moves on from its teacher, and what both say and look at, computed by hand in
// double with whole attention matrices.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "tests/methods/listening_objective.h"
#include "tests/methods/method_case.h"
#include "tests/support/plain_tiny.h"

namespace asr {

class QuadCase : public MethodCase {
 public:
  explicit QuadCase(const std::vector<Assignment>& options, const std::string& kind = "tiny")
      : QuadCase(std::make_unique<TemporaryFolder>(), options, kind) {}

  void listen(std::unique_ptr<Objective> to) {
    objective = std::move(to);
    listening = &listen_to(objective);
  }
  // The first stage is over, and training has left the teacher.
  void enter_second_stage(const SampleSet& first, const SampleSet& second) {
    lay_out(1);
    randomise(0.3);
    auto context = stage_context(1, first);
    method->begin_stage(context);
    method->before_stage(context);
    method->after_stage(context);
    auto next = stage_context(2, second);
    method->begin_stage(next);
    method->before_stage(next);
  }
  void move_on() {
    at::NoGradGuard no_grad;
    for (const auto& [tensor_name, tensor] : bank->tensors_of(kTrainedSlot)) {
      auto value = tensor;
      value.mul_(-0.5).add_(0.05);
    }
    for (const auto& [tensor_name, tensor] : objective->parameters()) {
      auto value = tensor;
      value.mul_(0.8).add_(0.1);
    }
  }

  Added step(const SampleSet& set, const std::vector<int64_t>& rows) {
    Added out;
    const Phase phase;
    const auto batch = set.rows(rows);
    Share share{alone};
    share.positions = range(0, batch.size());
    Output output;
    output.loss = torch::full({}, 3.0);
    out.losses.emplace_back(output.loss, 1);
    const auto logits = [](const Pass&, const std::vector<torch::Tensor>&) { return torch::Tensor(); };
    StepContext context{trained, *model, *bank,  *objective, phase,      batch, rows,
                        share,   output, logits, out.log,    out.losses, -1,    1};
    method->add_losses(context);
    return out;
  }

  PlainTiny plain(const std::string& slot) {
    std::map<std::string, torch::Tensor> added;
    for (const auto& site : model->sites()) {
      const auto& expert = bank->at(slot, site.name).experts[0];
      added[site.name] = expert.b.detach().to(at::kDouble).mm(expert.a.detach().to(at::kDouble)) * expert.scale;
    }
    return PlainTiny(dynamic_cast<const TinyBackbone&>(*model), added);
  }

  const ListeningObjective* listening = nullptr;

 private:
  QuadCase(std::unique_ptr<TemporaryFolder> folder, const std::vector<Assignment>& options, const std::string& kind)
      : MethodCase("quad", options, written(*folder, kind)), folder_(std::move(folder)) {
    listen(language_objective());
  }
  static std::string written(const TemporaryFolder& folder, const std::string& kind) {
    write_small_model(folder / "model", kind);
    return folder / "model";
  }
  std::unique_ptr<TemporaryFolder> folder_;
};

inline PlainStates states_of(const PlainTiny& plain, const TinyBackbone& model, const Batch& batch) {
  const auto seen = plain.project(batch.features.defined() ? batch.features : model.encode_images(batch.pixels));
  const auto words = plain.words(batch.ids);
  if (model.config().text.cross) return plain.run(words, batch.mask, seen);
  const auto before = torch::ones({batch.size(), seen.size(1)}, at::kBool);
  return plain.run(at::cat({seen, words}, 1), at::cat({before, batch.mask}, 1), {});
}

struct Expected {
  double loss = 0, divergence = 0;
};

// The mean over rows of -sum_j a_j log b_j, over the entries up to `seen`, and of sum_j a_j log (a_j / b_j).
class MeanOfRows {
 public:
  void add(const torch::Tensor& a, const torch::Tensor& b, int64_t seen) {
    for (int64_t j = 0; j < seen; ++j) {
      const double p = a[j].item<double>(), q = b[j].item<double>();
      sum_.loss -= p * std::log(q);
      sum_.divergence += p * std::log(p / q);
    }
    ++count_;
  }
  Expected mean() const { return {sum_.loss / count_, sum_.divergence / count_}; }

 private:
  Expected sum_;
  double count_ = 0;
};

inline Expected attention_by_hand(const PlainStates& old, const PlainStates& now, const Batch& batch, size_t layers,
                                  bool answers) {
  MeanOfRows out;
  const size_t depth = old.self.size();
  const int64_t shift = old.self[0].size(2) - batch.ids.size(1);
  for (size_t layer = depth - layers; layer < depth; ++layer)
    for (int64_t b = 0; b < batch.size(); ++b)
      for (int64_t t = 0; t < batch.ids.size(1); ++t) {
        const bool row = batch.question[b][t].item<bool>() || (answers && batch.labels[b][t].item<int64_t>() >= 0);
        for (int64_t h = 0; row && h < old.self[0].size(1); ++h)
          out.add(old.self[layer][b][h][shift + t], now.self[layer][b][h][shift + t], shift + t + 1);
      }
  return out.mean();
}

}  // namespace asr
