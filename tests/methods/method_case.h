// A method between a small model and a stage of the world, without a trainer around it: what a test hands it is what it
// computes from.
#pragma once

#include <set>

#include "data/encoded_samples.h"
#include "methods/method.h"
#include "tests/train/run_support.h"
#include "train/objectives.h"
#include "train/run_parts.h"

namespace asr {

struct MethodCase {
  std::unique_ptr<Backbone> model;
  std::unique_ptr<AdapterBank> bank;
  std::unique_ptr<Objective> objective = language_objective();
  std::unique_ptr<Method> method;
  std::string name;
  RunOptions run;
  std::unique_ptr<Stream> stream;
  const Team alone;
  NamedParameters trained;

  MethodCase(const std::string& composition, const std::vector<Assignment>& options, const std::string& path)
      : model(load_backbone(path)), name(composition) {
    bank = std::make_unique<AdapterBank>(model->all_sites());
    method = std::move(make_methods(composition, options)[0]);
    method->prepare(*model, Options());
    run.lora_rank = 4;
    run.lora_alpha = 8;
    StreamOptions world;
    world.train = 12;
    world.val = 4;
    world.image_size = 32;
    stream = make_stream(world);
  }

  EncodedSamples data(size_t task_number = 0) {
    return encode_samples(
        12, [&](int64_t i) { return stream->sample(task_number, DataSplit::train, i); }, *model, nullptr);
  }

  // Makes the slots of a stage, with numbers in both factors.
  void lay_out(int stage) {
    std::vector<std::unique_ptr<Method>> methods;
    methods.push_back(std::move(method));
    for (const auto& slot : stage_layout(methods, {name}, bank->sites(), plain_layout(model->all_sites(), run), stage))
      bank->ensure(slot, static_cast<uint64_t>(stage));
    method = std::move(methods[0]);
    trained = bank->trained();
  }
  // Two stages laid out with numbers in them, the second begun.
  void enter_second_stage() {
    lay_out(1);
    lay_out(2);
    randomise();
    const auto set = data();
    auto context = stage_context(2, set);
    method->begin_stage(context);
  }
  void randomise(double spread = 0.1) {
    auto generator = at::detail::createCPUGenerator(7);
    at::NoGradGuard no_grad;
    for (const auto& [tensor_name, tensor] : bank->tensors()) {
      auto value = tensor;
      value.copy_(at::randn(tensor.sizes(), generator, at::CPU(at::kFloat)) * spread);
    }
  }

  RoutedPass pass(const SampleBatch& batch, int stage, bool answering) {
    RoutedPass out;
    out.how.answering = answering;
    out.how.slots = answering ? bank->answering() : bank->training();
    RouteContext context{*model, *bank, batch, stage, answering, out.how.slots, out.given, &out.choices, &out.inserted};
    method->route(context);
    return out;
  }
  StageContext stage_context(int stage, const SampleSet& set) {
    return {stage,      1,       8,   *model, *bank,
            *objective, trained, set, {},     [this, stage](const SampleBatch& b) { return pass(b, stage, true); },
            alone};
  }

  // What the method adds to the loss of a batch.
  struct Added {
    std::map<std::string, torch::Tensor> log;
    std::vector<std::pair<torch::Tensor, double>> losses;
    torch::Tensor total() const {
      torch::Tensor sum = torch::zeros({});
      for (const auto& [term, weight] : losses) sum = sum + term * weight;
      return sum;
    }
  };
  Added losses(const SampleBatch& batch, const Phase& phase = {}, int stage = 1) {
    Added out;
    const std::vector<int64_t> rows;
    Share share{alone};
    share.positions = range(0, batch.size());
    Want want;
    objective->ask_for_logits(want);
    const auto routed = pass(batch, stage, false);
    auto output = model->forward(routed.seen(batch).input, routed.pass(), want);
    if (method->needs(2).logits) output.logits = objective->logits(output);
    const auto logits = [&](const Pass& other, const std::vector<torch::Tensor>& parameters) {
      return objective->logits_of(*model, batch, other, parameters);
    };
    StepContext step{trained, *model, *bank,  *objective, phase,      batch, rows,
                     share,   output, logits, out.log,    out.losses, -1,    1};
    method->add_losses(step);
    return out;
  }
};

// The different answers of these samples, sorted: what a closed head may choose from.
inline std::vector<std::string> answers_of(const std::vector<const SampleSet*>& sets) {
  std::set<std::string> answers;
  for (const auto* set : sets)
    for (const auto& info : set->infos()) answers.insert(info.answer);
  return {answers.begin(), answers.end()};
}

using MethodOptions = std::vector<std::pair<std::string, std::string>>;  // without the method's name before them

// The same with a small model of its own.
struct OwnModelCase {
  TemporaryFolder folder;
  std::unique_ptr<MethodCase> fixture;
  OwnModelCase(const std::string& method, const MethodOptions& options, const std::string& kind = "tiny") {
    write_small_model(folder / "model", kind);
    std::vector<Assignment> list;
    for (const auto& [key, value] : options) list.push_back({method + "." + key, value, "test"});
    fixture = std::make_unique<MethodCase>(method, list, folder / "model");
  }
  MethodCase* operator->() { return fixture.get(); }

  void begin(int stage, const SampleSet& set) {
    fixture->lay_out(stage);
    auto context = fixture->stage_context(stage, set);
    fixture->method->begin_stage(context);
    fixture->method->before_stage(context);
  }
};

}  // namespace asr
