// Runs of fake methods: two stages of two steps on a small model, undisturbed, ended and resumed, or by two processes.
#pragma once

#include <filesystem>

#include "backbones/adapter_file.h"
#include "base/interrupt.h"
#include "tensor/tensor_io.h"
#include "tests/methods/fake_methods.h"
#include "tests/support/process_runs.h"
#include "tests/train/run_support.h"
#include "train/audit.h"
#include "train/objectives.h"
#include "train/run_adapter.h"

namespace asr {

inline std::vector<Assignment> fake_run(const std::string& model, const std::string& out, const FakeCase& fake) {
  auto list = small_run(model, out, fake.name);
  const auto set = [&](const std::string& key, const std::string& value) { list.push_back({key, value, "test"}); };
  set("stream.tasks", "2");
  set("stream.train", "16");
  set("stream.val", "4");
  set("analysis.samples", "2");
  set("analysis.overlays", "1");
  set("lora_rank", "4");
  set("save_steps", "1");
  for (const auto& [key, value] : fake.settings) set(key, value);
  return list;
}

struct FakeRun {
  std::string folder;
  FakeDiary diary;
};

inline FakeRun undisturbed(const std::vector<Assignment>& options) {
  fake_diary() = {};
  FakeRun out;
  out.folder = run_small(options)[0];
  out.diary = fake_diary();
  return out;
}

// A process alone that is gone, without a word, before its second sum is back.
class FakeDeath final : public Team {
 public:
  void sum(torch::Tensor&) const override {
    if (++sums_ == 2) throw std::runtime_error("killed");
  }

 private:
  mutable int sums_ = 0;
};

// Killed and stopped by turns until it is through.
inline void run_disturbed(const std::vector<Assignment>& options) {
  for (int attempt = 0; attempt < 40; ++attempt) {
    const FakeDeath death;
    const Team calm;
    const bool kill = attempt % 2 == 0;
    if (!kill) plan_stop(SIGINT, StopPlace::step);
    std::string end;
    try {
      run_all({resolve_run(options), attempt > 0, "test", kill ? &death : &calm});
    } catch (const std::exception& error) {
      end = error.what();
      EXPECT_CONTAINS(end, kill ? "killed" : "--resume");
    }
    forget_stop();
    if (end.empty()) return;
  }
  ADD_FAILURE() << "the run did not end";
}

// Files of tensors in a run's adapter folder, and in the folders of its slots.
inline std::vector<std::string> adapter_files(const std::string& run) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(run + "/adapter"))
    if (entry.path().extension() == ".safetensors")
      out.push_back(std::filesystem::path(entry.path()).lexically_relative(run).string());
  std::sort(out.begin(), out.end());
  return out;
}

inline void expect_close_adapters(const std::string& a, const std::string& b, double tolerance) {
  ASSERT_FALSE(adapter_files(a).empty());
  ASSERT_EQ(adapter_files(a), adapter_files(b));
  for (const auto& file : adapter_files(a)) {
    const auto x = read_safetensors(a + "/" + file), y = read_safetensors(b + "/" + file);
    ASSERT_EQ(x.tensors.size(), y.tensors.size());
    for (const auto& view : x.tensors) {
      if (!load_tensor(x, view.name).is_floating_point()) continue;
      if (load_tensor(x, view.name).numel() == 0) continue;
      // Not number by number: AdamW makes a whole step of a gradient that is little more than rounding.
      const auto far = (load_tensor(x, view.name) - load_tensor(y, view.name)).abs().mean().item<double>();
      EXPECT_LT(far, tolerance) << view.name;
    }
  }
}

// What a run of this method learnt to answer by: its own objective with the numbers beside the adapter, or words.
inline std::unique_ptr<Objective> stored_objective(const std::string& run, const Backbone& model,
                                                   const Stream& stream) {
  const auto name = std::filesystem::path(run).filename().string();
  std::vector<std::unique_ptr<Method>> methods;
  methods.push_back(make_method(name));
  const auto answers = [&] {
    std::map<std::string, int64_t> out;
    for (size_t task = 0; task < stream.tasks().size(); ++task)
      for (int64_t i = 0; i < stream.size(task, DataSplit::train); ++i)
        ++out[stream.text(task, DataSplit::train, i).answer];
    return out;
  };
  auto out = methods_objective(methods, {name}, {model, answers});
  if (!out) return language_objective();
  at::NoGradGuard no_grad;
  const auto stored = read_safetensors(run + "/adapter/answer_head.safetensors");
  for (auto& [tensor_name, tensor] : out->parameters()) tensor.copy_(load_tensor(stored, tensor_name));
  return out;
}

// What the stored adapter answers, in the form of the run's own predictions.
inline void expect_answers_as_evaluated(const std::vector<Assignment>& options, const std::string& run) {
  const auto config = resolve_run(options);
  const auto model = load_backbone(config.run.model);
  const auto folder = run + "/adapter";
  std::unique_ptr<SlotAdapter> slots;
  if (holds_slots(folder)) {
    slots = std::make_unique<SlotAdapter>(*model, folder);  // which knows how its run set the model up
  } else {
    model->configure(config.run.backbone_options());
    load_adapter(*model, folder);
  }
  const PassFor pass = [&](const SampleBatch& batch) { return slots ? slots->pass_for(batch) : RoutedPass{}; };
  const auto stream = make_stream(config.run.stream);
  const auto analyser = make_analyser(config.run.parser_path(), config.options.asr.skill);
  const Team alone;
  Data data(*stream, *model, *analyser, alone);
  const auto objective = stored_objective(run, *model, *stream);
  for (size_t number = 0; number < 2; ++number) {
    const auto& set = data.get(number, config.run.scored_split());
    const auto score =
        evaluate_task({*model, *objective, pass}, set, stream->tasks()[number].metric, config.run.eval_batch, alone);
    const auto path = run + "/predictions/stage-02-task-0" + std::to_string(number + 1) + ".jsonl";
    EXPECT_EQ(predictions_text(set, score), read_text(path));
  }
}

}  // namespace asr
