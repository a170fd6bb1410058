// asr bench step: one LoRA training step of a built-in backbone - forward, loss, backward, AdamW - on random data.
// tools/bench_step.py --against runs the same step in plain Python in turns with this one.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>

#include "backbones/tiny.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/version.h"
#include "nn/adamw.h"

namespace asr {
namespace {

using nlohmann::json;

constexpr int64_t kRank = 16, kAnswer = 3;

struct Setting {
  TinyConfig config;
  int64_t batch, text;
};

Setting setting_of(const std::string& model) {
  if (model == "decoder") return {tiny_config("tiny", "S"), 32, 14};
  // The smallest explicit cross-attention that the paper's authors publish.
  Setting s{tiny_config("tiny_cross", "S"), 8, 12};
  s.config.vision = {32, 8, 1, 32, 4, 64};
  s.config.text.layers = 2, s.config.text.width = 32, s.config.text.heads = s.config.text.kv_heads = 4;
  s.config.text.mlp = 64;
  return s;
}

WordTokenizer some_words() {
  std::string text;
  for (char a = 'a'; a < 'i'; ++a)
    for (char b = 'a'; b < 'i'; ++b) text += {a, b, ' '};
  return WordTokenizer::from_texts({text});
}

Batch random_batch(const Setting& s, int64_t vocabulary) {
  Batch b;
  b.pixels = torch::rand({s.batch, 3, s.config.vision.image, s.config.vision.image});
  b.ids = torch::randint(WordTokenizer::kUnknown, vocabulary, {s.batch, s.text}, at::kLong);
  b.mask = torch::ones({s.batch, s.text}, at::kBool);
  b.mask.slice(0, 0, s.batch, 2).select(1, s.text - 1).fill_(false);
  b.labels = torch::full({s.batch, s.text}, -1, at::kLong);
  const int64_t first = s.text - 1 - kAnswer;
  b.labels.narrow(1, first, kAnswer).copy_(b.ids.narrow(1, first, kAnswer));
  b.question = torch::zeros({s.batch, s.text}, at::kBool);
  b.question.narrow(1, 0, first - 1).fill_(true);
  return b;
}

class Step {
 public:
  explicit Step(const std::string& name) {
    torch::manual_seed(1);
    const Setting setting = setting_of(name);
    const auto words = some_words();
    model_ = TinyBackbone::random(setting.config, words, 1);
    batch_ = random_batch(setting, words.size());
    std::vector<torch::Tensor> learnt;
    for (const auto& [site, tensor] : add_experts(model_->sites(), kRank, 2 * kRank, 2)) learnt.push_back(tensor);
    optimizer_ = std::make_unique<AdamW>(learnt, AdamWOptions());
  }
  std::vector<double> run(int steps) {  // milliseconds of each
    std::vector<double> times;
    for (int i = 0; i < steps; ++i) {
      const auto start = std::chrono::steady_clock::now();
      const auto loss = model_->forward(batch_, {}, {}).loss;
      optimizer_->zero_grad();
      loss.backward();
      optimizer_->step(1e-4);
      check(std::isfinite(loss.item<double>()), "the loss is not finite");
      times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    return times;
  }

 private:
  std::unique_ptr<TinyBackbone> model_;
  Batch batch_;
  std::unique_ptr<AdamW> optimizer_;
};

// Reads a number of steps a line, answers with their times: tools/bench_step.py gives the turns.
void serve(const std::string& model) {
  Step step(model);
  for (int steps; std::cin >> steps;) std::cout << json(step.run(steps)).dump() << std::endl;
}

void run(int calls, const Common& common) {
  json results = json::array();
  std::vector<std::vector<std::string>> rows = {{"model", "min ms", "median ms"}};
  for (const char* model : {"decoder", "cross"}) {
    Step step(model);
    step.run(std::min(calls, 5));  // warm-up
    auto times = step.run(calls);
    std::sort(times.begin(), times.end());
    const double median = times[times.size() / 2];
    results.push_back({{"model", model}, {"min_ms", times[0]}, {"median_ms", median}});
    rows.push_back({model, number(times[0], 2), number(median, 2)});
  }
  if (common.json) return print_json({{"calls", calls}, {"program", version_info()}, {"results", results}});
  std::cout << text_table(rows);
}

}  // namespace

void add_bench_step(CLI::App& bench, Common& common) {
  struct Arguments {
    int calls = 20;
    std::string serve;
  };
  auto arguments = std::make_shared<Arguments>();
  auto* step = bench.add_subcommand("step", "a LoRA training step of the built-in backbones");
  step->add_option("--calls", arguments->calls, "timed steps of each")
      ->capture_default_str()
      ->check(CLI::Range(1, 10000));
  step->add_option("--serve", arguments->serve,
                   "answer numbers of steps on stdin with their times, for tools/bench_step.py")
      ->check(CLI::IsMember({"decoder", "cross"}));
  step->callback([arguments, &common] {
    if (arguments->serve.empty())
      run(arguments->calls, common);
    else
      serve(arguments->serve);
  });
}

}  // namespace asr
