// Stages of the world under PCLR, without a trainer, and what a sample's query and a key's score are by hand.
#pragma once

#include <filesystem>

#include "data/packed_samples.h"
#include "tests/methods/held_state.h"
#include "tests/methods/method_case.h"
#include "tests/support/small_tokenizer.h"
#include "train/kept_state.h"

namespace asr {

struct PclrCase {
  TemporaryFolder folder;
  std::unique_ptr<MethodCase> made;
  int seed = 0;

  explicit PclrCase(const MethodOptions& options = {}, const std::string& fixture = "") {
    if (fixture.empty()) {
      write_small_model(folder / "model");
    } else {
      std::filesystem::copy(ASR_SOURCE_DIR "/tests/fixtures/models/" + fixture, folder / "model",
                            std::filesystem::copy_options::recursive);
      const auto config = nlohmann::json::parse(read_text(folder / "model/config.json"));
      if (!std::filesystem::exists(folder / "model/tokenizer.json")) write_small_tokenizer(folder / "model", config);
    }
    std::vector<Assignment> list = {{"pclr.pool", "2", "test"}};
    for (const auto& [key, value] : options) list.push_back({"pclr." + key, value, "test"});
    made = std::make_unique<MethodCase>("pclr", list, folder / "model");
    made->lay_out(1);
  }
  // As MethodCase has them; where the model packs its batches itself, packed.
  std::shared_ptr<SampleSet> data(size_t task) {
    const auto sample = [this, task](int64_t i) { return made->stream->sample(task, DataSplit::train, i); };
    if (made->model->image_size() > 0) return std::make_shared<EncodedSamples>(made->data(task));
    const auto picture = [sample](int64_t i) {
      auto drawn = sample(i);
      return Image8{drawn.height, drawn.width, std::move(drawn.pixels)};
    };
    return packed_samples(12, sample, {picture}, *made->model, nullptr);
  }
  torch::Tensor stored(const std::string& name) {
    StateHolder holder("");
    made->method->state(holder);
    for (const auto& item : holder.items)
      if (item.name == name) return item.tensor;
    return {};
  }
  int64_t number(const std::string& name) { return stored(name).item<int64_t>(); }
  torch::Tensor drawn(at::IntArrayRef sizes) {
    auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(++seed));
    return at::randn(sizes, generator, at::CPU(at::kFloat));
  }
  // Numbers in the ranks of a slot, as if they had been trained.
  void learn(const std::string& slot = "fresh", double spread = 0.4) {
    at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : made->bank->tensors_of(slot)) {
      auto value = tensor;
      value.copy_(drawn(tensor.sizes()) * spread);
    }
  }
  void enter(int stage, const SampleSet& set) {
    auto context = made->stage_context(stage, set);
    made->method->begin_stage(context);
    made->method->before_stage(context);
  }
  void begin(int stage, const SampleSet& set) {
    enter(stage, set);
    learn();
  }
  void end(int stage, const SampleSet& set) {
    auto context = made->stage_context(stage, set);
    made->method->after_stage(context);
  }
  void integrate(int stage, const SampleSet& set) {
    auto context = made->stage_context(stage, set);
    Phase phase;
    phase.name = "integrate";
    made->method->begin_phase(context, phase);
  }
};

// Mean token embedding and first state of the tower, or the mean of its states, each of length 1, in double. A model
// that sees pictures inside its own pass is asked for both.
inline torch::Tensor query_of(MethodCase& fixture, const SampleBatch& batch, bool of_all_states = false) {
  at::NoGradGuard no_grad;
  if (fixture.model->image_size() == 0) {
    Want want;
    want.loss = false;
    want.early = true;
    const auto out = fixture.model->forward(batch.input, Pass{0, nullptr}, want);
    const auto text = out.text_input.to(at::kDouble);
    const auto picture = (of_all_states ? out.tower_mean : out.tower_first).to(at::kDouble);
    return at::cat({text / text.norm(2, 1, true), picture / picture.norm(2, 1, true)}, 1);
  }
  std::vector<torch::Tensor> rows;
  const auto table = fixture.model->token_embedding().to(at::kDouble);
  const auto tower =
      batch.input.features.defined() ? batch.input.features : fixture.model->encode_images(batch.input.pixels);
  for (int64_t b = 0; b < batch.size(); ++b) {
    auto text = torch::zeros({table.size(1)}, at::kDouble);
    for (int64_t t = 0; t < batch.input.ids.size(1); ++t)
      if (batch.input.question[b][t].item<bool>()) text += table[batch.input.ids[b][t].item<int64_t>()];
    const auto states = tower[b].to(at::kDouble);
    const auto picture = of_all_states ? states.mean(0) : states[0];
    rows.push_back(at::cat({text / text.norm(), picture / picture.norm()}));
  }
  return at::stack(rows);
}

// The cosine of the texts and, by its width over theirs, that of the pictures.
inline double key_score(const torch::Tensor& query, const torch::Tensor& key, int64_t text = 32) {
  const int64_t picture = query.size(0) - text;
  const auto cosine = [&](int64_t begin, int64_t width) {
    const auto q = query.narrow(0, begin, width).to(at::kDouble), k = key.narrow(0, begin, width).to(at::kDouble);
    return ((q * k).sum() / (q.norm() * k.norm())).item<double>();
  };
  return cosine(0, text) + static_cast<double>(picture) / static_cast<double>(text) * cosine(text, picture);
}

}  // namespace asr
