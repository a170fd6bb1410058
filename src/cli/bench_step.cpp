// asr bench step: one LoRA training step of a built-in backbone - forward, loss, backward, AdamW - on random data.
// tools/bench_step.py --against runs the same step in plain Python in turns with this one.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <iostream>
#include <optional>

#include "backbones/tiny.h"
#include "base/error.h"
#include "cli/bench_backbone.h"
#include "cli/command.h"
#include "cli/version.h"
#include "data/measure.h"
#include "nn/adamw.h"
#include "spectral/descriptor.h"
#include "spectral/spectral_loss.h"
#include "tensor/record.h"

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
  s.config.text.layers = 2;
  s.config.text.width = 32;
  s.config.text.heads = s.config.text.kv_heads = 4;
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
  b.question_tokens = first - 1;
  return b;
}

// What ASR adds to a step: tapped rows, descriptors, the loss against 15 prototypes, and the geometry term with the
// base's embeddings at hand, as they are in every epoch and run but the first.
class AsrTerms {
 public:
  AsrTerms(SampleBatch& batch, int64_t width, int64_t grid) : encoder_(grid, grid, options_.spectral) {
    const int64_t skills = 15, D = options_.spectral.dim(), M = options_.spectral.angular_bins, B = batch.size();
    PrototypeTensors prototypes;
    prototypes.skill = torch::arange(skills);
    prototypes.mean = torch::rand({skills, D}, at::kDouble);
    prototypes.variance = torch::rand({skills, D}, at::kDouble) + 0.1;
    prototypes.angular = torch::rand({skills, M}, at::kDouble) + 0.1;
    loss_.emplace(prototypes, options_, at::TensorOptions().dtype(at::kFloat));
    batch.input.functional = batch.input.question.clone();
    batch.posterior = torch::rand({B, skills}).softmax(1);
    batch.reference_image = torch::randn({B, width});
    batch.reference_text = torch::randn({B, width});
  }
  torch::Tensor added(const SampleBatch& batch, const Output& out) const {
    const auto descriptor = encoder_.descriptor(out.attention, row_weights(batch.input, out));
    const auto geometry = geometry_loss(out.image, out.text, batch.reference_image, batch.reference_text);
    return weighted_sum({{out.loss, 1},
                         {(*loss_)(descriptor, batch.posterior).loss, options_.asr.beta},
                         {geometry, options_.asr.gamma}});
  }

 private:
  Options options_;
  SpectralEncoder encoder_;
  std::optional<SpectralLoss> loss_;
};

class Step {
 public:
  explicit Step(const std::string& name, bool with_asr = false) {
    torch::manual_seed(1);
    const Setting setting = setting_of(name);
    const auto words = some_words();
    model_ = TinyBackbone::random(setting.config, words, 1);
    batch_.input = random_batch(setting, words.size());
    std::vector<torch::Tensor> learnt;
    for (const auto& [site, tensor] : add_experts(model_->sites(), kRank, 2 * kRank, 2)) learnt.push_back(tensor);
    optimizer_ = std::make_unique<AdamW>(learnt, AdamWOptions());
    if (!with_asr) return;
    asr_.emplace(batch_, model_->width(), setting.config.vision.grid());
    want_.tap_layers = std::min<int64_t>(4, model_->layers());
    want_.pooled = true;
  }
  // Milliseconds of each; `processor` gets those that this process had a processor for.
  std::vector<double> run(int steps, std::vector<double>* processor = nullptr) {
    std::vector<double> times;
    for (int i = 0; i < steps; ++i) {
      const auto start = std::chrono::steady_clock::now();
      const auto busy = std::clock();
      const auto out = model_->forward(batch_.input, {}, want_);
      const auto loss = asr_ ? asr_->added(batch_, out) : out.loss;
      optimizer_->zero_grad();
      loss.backward();
      optimizer_->step(1e-4);
      check(std::isfinite(loss.item<double>()), "the loss is not finite");
      if (processor) processor->push_back(static_cast<double>(std::clock() - busy) * 1000 / CLOCKS_PER_SEC);
      times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    return times;
  }

 private:
  std::unique_ptr<TinyBackbone> model_;
  SampleBatch batch_;
  Want want_;
  std::optional<AsrTerms> asr_;
  std::unique_ptr<AdamW> optimizer_;
};

double median_of(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// Reads a number of steps a line, answers with their times: tools/bench_step.py gives the turns.
void serve(const std::string& model) {
  Step step(model);
  for (int steps; std::cin >> steps;) std::cout << json(step.run(steps)).dump() << std::endl;
}

struct Sides {
  std::vector<double> plain, asr;        // milliseconds a step
  std::vector<double> ratio, processor;  // of the fastest steps, one a pair of turns: by the clock, by processor time
};

double least(const std::vector<double>& times) {
  return *std::min_element(times.begin(), times.end());
}

// Plain and regularised steps in turns of five. A neighbour on the machine slows both sides of a pair of turns, so the
// median of the ratios within pairs says what ASR adds; each side's minimum over all turns is a single lucky step.
// Processor time leaves out what neighbours took, but counts threads that wait by spinning: read it with --threads 1.
Sides take_turns(const std::string& model, int calls) {
  const int turn = 5;
  Step plain(model), regularised(model, /*with_asr=*/true);
  plain.run(3);
  regularised.run(3);  // warm-up
  Sides out;
  while (static_cast<int>(out.plain.size()) < calls) {
    std::vector<double> busy_a, busy_b;
    const auto a = plain.run(turn, &busy_a), b = regularised.run(turn, &busy_b);
    out.plain.insert(out.plain.end(), a.begin(), a.end());
    out.asr.insert(out.asr.end(), b.begin(), b.end());
    out.ratio.push_back(least(b) / least(a));
    out.processor.push_back(least(busy_b) / least(busy_a));
  }
  return out;
}

void run(int calls, const Common& common) {
  json results = json::array();
  std::vector<std::vector<std::string>> rows = {
      {"model", "plain min", "median ms", "asr min", "median ms", "overhead", "by minima", "by processor time"}};
  for (const char* model : {"decoder", "cross"}) {
    const auto sides = take_turns(model, calls);
    const double min_a = least(sides.plain), min_b = least(sides.asr), mid_a = median_of(sides.plain),
                 mid_b = median_of(sides.asr), overhead = median_of(sides.ratio) - 1,
                 processor = median_of(sides.processor) - 1;
    results.push_back({{"model", model},
                       {"min_ms", min_a},
                       {"median_ms", mid_a},
                       {"asr_min_ms", min_b},
                       {"asr_median_ms", mid_b},
                       {"asr_overhead", overhead},
                       {"asr_overhead_of_minima", min_b / min_a - 1},
                       {"asr_overhead_processor", processor}});
    const auto percent = [](double x) { return number(100 * x, 1) + " %"; };
    rows.push_back({model, number(min_a, 2), number(mid_a, 2), number(min_b, 2), number(mid_b, 2), percent(overhead),
                    percent(min_b / min_a - 1), percent(processor)});
  }
  if (common.json) return print_json({{"calls", calls}, {"program", version_info()}, {"results", results}});
  std::cout << text_table(rows);
}

}  // namespace

void add_bench_step(CLI::App& bench, Common& common) {
  struct Arguments {
    int calls = 20;
    std::string serve;
    BackboneBench large;
  };
  auto arguments = std::make_shared<Arguments>();
  auto* step =
      bench.add_subcommand("step", "a LoRA training step of the built-in backbones, or of a large one (--backbone)");
  step->add_option("--calls", arguments->calls, "timed steps of each")
      ->capture_default_str()
      ->check(CLI::Range(1, 10000));
  step->add_option("--serve", arguments->serve,
                   "answer numbers of steps on stdin with their times, for tools/bench_step.py")
      ->check(CLI::IsMember({"decoder", "cross"}));
  auto& large = arguments->large;
  step->add_option("--backbone", large.backbone,
                   "a large model by its published sizes: llava-1.5-7b, qwen2.5-vl-7b, internvl3-8b, instructblip-7b");
  step->add_flag("--random-weights", large.random, "with --backbone: weights are drawn, nothing is read");
  step->add_option("--batch", large.batch, "with --backbone: samples")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  step->add_option("--text-tokens", large.text_tokens, "with --backbone: beside the visual ones")
      ->capture_default_str()
      ->check(CLI::Range(1, 8192));
  step->add_option("--layers", large.layers, "with --backbone: of every tower; 0: as the model has")
      ->capture_default_str()
      ->check(CLI::Range(0, 200));
  step->add_option("--rank", large.rank, "with --backbone: of the adapters")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  step->add_option("--dropout", large.dropout, "with --backbone: of what adapters read; 0: none")
      ->capture_default_str()
      ->check(between(0.0, 0.9));
  step->add_option("--device", large.device, "with --backbone: cuda or cpu")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "cuda"}));
  step->add_option("--base-precision", large.base_precision, "with --backbone: of the frozen weights: plain, fp8, nf4")
      ->capture_default_str()
      ->check(CLI::IsMember({"plain", "fp8", "nf4"}));
  step->add_flag("--checkpointing", large.checkpointing, "with --backbone: layers run again in the backward pass");
  step->add_flag("--deterministic", large.deterministic, "with --backbone: as full_determinism=yes");
  step->add_flag("--profile", large.profile, "with --backbone: where a GPU's time goes, by kind of kernel");
  step->add_flag("--brief", large.brief, "with --backbone: steps without ASR's geometry term alone");
  step->callback([arguments, &common] {
    auto& wide = arguments->large;
    wide.calls = arguments->calls;
    if (!wide.backbone.empty())
      bench_backbone(wide, common);
    else if (arguments->serve.empty())
      run(arguments->calls, common);
    else
      serve(arguments->serve);
  });
}

}  // namespace asr
