// A step of a run computed again outside the trainer, from its checkpoints and its data: the loss by its definition,
// in double precision where it is not the model's own work, and the gradient that the optimizer must have been given.
// Every stage is one batch, so that how samples are drawn does not matter, and nothing is clipped, decayed or dropped.
#pragma once

#include <fstream>

#include "data/measure.h"
#include "nn/linear.h"
#include "tensor/tensor_io.h"
#include "tensor/torch_compat.h"
#include "tests/support/process_runs.h"
#include "train/data.h"

namespace asr {

// Two stages of three steps. The fifth is looked at: the second of the second stage, where the weights have left what
// the first stage ended with, and the optimizer's moments before and after it are on disk.
inline std::vector<Assignment> recomputed_run(const TemporaryFolder& folder, const std::string& method,
                                              const Settings& more) {
  auto list = small_run(folder / "model", folder / "out", method);
  const Settings plain = {{"stream.tasks", "2"},
                          {"stream.train", "8"},
                          {"stream.val", "2"},
                          {"num_train_epochs", "3"},
                          {"lora_rank", "2"},
                          {"lora_alpha", "4"},
                          {"lora_dropout", "0"},
                          {"weight_decay", "0"},
                          {"max_grad_norm", "0"},
                          {"learning_rate", "0.1"},
                          {"save_steps", "1"},
                          {"save_total_limit", "100"},
                          {"lr_scheduler_type", "constant"}};
  for (const auto& settings : {plain, more})
    for (const auto& [key, value] : settings) list.push_back({key, value, "test"});
  return list;
}

// -log p of what each row should choose, [N]: z_right - log sum exp z, spelt out.
inline torch::Tensor surprise_of(const torch::Tensor& z, const torch::Tensor& right) {
  const auto chosen = z.gather(1, right.unsqueeze(1)).squeeze(1);
  const auto highest = z.amax(1);
  return highest + (z - highest.unsqueeze(1)).exp().sum(1).log() - chosen;
}

// The gradient of a scalar for all of these, flat.
inline torch::Tensor flat_gradient(const torch::Tensor& scalar, const NamedParameters& parameters) {
  std::vector<torch::Tensor> inputs, parts;
  for (const auto& [name, tensor] : parameters) inputs.push_back(tensor);
  const auto found = gradients(scalar, inputs);
  for (size_t i = 0; i < inputs.size(); ++i)
    parts.push_back((found[i].defined() ? found[i] : torch::zeros_like(inputs[i])).flatten());
  return at::cat(parts).to(at::kDouble);
}

inline torch::Tensor flat_numbers(const NamedParameters& parameters) {
  std::vector<torch::Tensor> parts;
  for (const auto& [name, tensor] : parameters) parts.push_back(tensor.detach().flatten());
  return at::cat(parts).to(at::kDouble);
}

class Recomputation {
 public:
  static constexpr int kFirstStage = 3, kBefore = 4, kStep = 5;  // steps done

  Recomputation(const std::string& method, const Settings& more)
      : model(written_model(folder_)),
        config(resolve_run(recomputed_run(folder_, method, more))),
        run(run_small(recomputed_run(folder_, method, more))[0]),
        stream_(make_stream(config.run.stream)),
        analyser_(make_analyser(config.run.parser_path(), config.options.asr.skill)),
        data_(*stream_, *model, *analyser_, alone_),
        parameters(add_experts(model->sites(), config.run.lora_rank, config.run.lora_alpha, 0)) {
    std::ifstream in(run + "/log.jsonl");
    for (std::string text; std::getline(in, text);) {
      const auto line = nlohmann::json::parse(text);
      if (line.value("current_steps", 0) == kStep && line.contains("grad_norm")) log = line;
    }
  }

  // The adapters as they were after so many steps.
  void set(int step) {
    const auto file = checkpoint(step);
    at::NoGradGuard no_grad;
    for (auto& [name, tensor] : parameters) tensor.copy_(load_tensor(file, "adapter." + name));
  }
  torch::Tensor flat() const { return flat_numbers(parameters); }
  torch::Tensor flat_after(int step) {
    set(step);
    return flat();
  }
  torch::Tensor gradient_of(const torch::Tensor& scalar) const { return flat_gradient(scalar, parameters); }
  // What the optimizer was given in the step, from its first moment m <- 0.9 m + 0.1 g.
  torch::Tensor applied_gradient() const {
    const auto before = load_tensor(checkpoint(kBefore), "optimizer.first").to(at::kDouble),
               after = load_tensor(checkpoint(kStep), "optimizer.first").to(at::kDouble);
    return (after - 0.9 * before) / 0.1;
  }

  // What the method kept before the step, which may lie beside the checkpoint's own file.
  torch::Tensor kept(const std::string& name) const {
    const auto folder = cat(run, "/checkpoints/checkpoint-", kBefore, "/");
    for (const char* file : {"state.safetensors", "kept.safetensors"}) {
      const auto tensors = read_safetensors(folder + file);
      for (const auto& view : tensors.tensors)
        if (view.name == name) return load_tensor(tensors, name).to(at::kDouble);
    }
    fail("the checkpoint holds no ", name);
  }

  SampleBatch batch(size_t task, const std::vector<int64_t>& rows, bool reference = false) {
    return data_.get(task, DataSplit::train, reference).rows(rows);
  }
  SampleBatch whole_stage(size_t task, bool reference = false) {
    return batch(task, range(0, samples(task)), reference);
  }
  int64_t samples(size_t task) const { return stream_->size(task, DataSplit::train); }

  // Logits at the answer tokens. [N, vocabulary]
  torch::Tensor logits(const SampleBatch& of) const {
    Want want;
    want.loss = false;
    want.logits = true;
    return model->forward(of.input, Pass{}, want).logits.to(at::kDouble);
  }
  // Of every answer token.
  torch::Tensor surprise(const SampleBatch& of) const {
    return surprise_of(logits(of), of.input.labels.masked_select(of.input.labels.ge(0)));
  }

 private:
  static std::unique_ptr<Backbone> written_model(const TemporaryFolder& folder) {
    write_small_model(folder / "model");
    return load_backbone(folder / "model");
  }
  Safetensors checkpoint(int step) const {
    return read_safetensors(cat(run, "/checkpoints/checkpoint-", step, "/state.safetensors"));
  }

  TemporaryFolder folder_;
  const Team alone_;

 public:
  const std::unique_ptr<Backbone> model;
  const RunConfig config;
  const std::string run;
  nlohmann::json log;  // of the step

 private:
  const std::unique_ptr<Stream> stream_;
  const std::unique_ptr<QuestionAnalyser> analyser_;
  Data data_;

 public:
  NamedParameters parameters;
};

inline double relative_distance(const torch::Tensor& a, const torch::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

}  // namespace asr
