// asr bench step --backbone: forward, loss, backward, clipping and AdamW of a large model with LoRA on its usual sites,
// plain, with ASR's spectral loss, and with its geometry term too, in later epochs and in the first, which asks the
// base for its embeddings. bench/hf_step.py is the same step with transformers.
#include "cli/bench_backbone.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <iostream>
#include <map>
#include <optional>

#include "backbones/base_precision.h"
#include "backbones/pretrained.h"
#include "base/error.h"
#include "base/folders.h"
#include "cli/version.h"
#include "data/measure.h"
#include "nn/adamw.h"
#include "spectral/descriptor.h"
#include "spectral/spectral_loss.h"
#include "tensor/device.h"
#include "tensor/device_profile.h"
#include "tensor/record.h"
#include "tensor/runtime.h"
#include "train/model_shape.h"

namespace asr {
namespace {

using nlohmann::json;

constexpr int64_t kAnswerTokens = 4, kQuestionTokens = 8, kPrototypes = 15;
constexpr int kApart = 5;   // steps whose parts are timed apart
constexpr int kSide = 672;  // of the picture, in pixels: 576 visual tokens of Qwen2.5-VL

enum class Terms { plain, spectral, full, first };
constexpr std::pair<Terms, const char*> kTerms[] = {{Terms::plain, "plain"},
                                                    {Terms::spectral, "asr, spectral"},
                                                    {Terms::full, "asr, full"},
                                                    {Terms::first, "asr, full, first epoch"}};

json shortened(json config, int64_t layers) {
  if (layers == 0) return config;
  for (const char* part : {"text_config", "vision_config", "qformer_config"})
    for (const char* key : {"num_hidden_layers", "depth"})
      if (config.contains(part) && config[part].contains(key)) config[part][key] = layers;
  return config;
}

double median_ms(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

double milliseconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// What the device's library reaches in one large product, in operations a second.
double matrix_ceiling(at::Device device) {
  const int64_t n = device.is_cuda() ? 8192 : 1024;
  const auto kind = at::TensorOptions().dtype(usual_type(device)).device(device);
  const auto a = at::randn({n, n}, kind), b = at::randn({n, n}, kind);
  std::vector<double> times;
  for (int i = 0; i < 12; ++i)
    times.push_back(milliseconds_of([&] { check(a.mm(b)[0][0].item<double>() < 1e30, "a product gave no number"); }));
  return 2 * std::pow(static_cast<double>(n), 3) / median_ms(times) * 1e3;
}

// A model folder, or the published sizes of a model.
struct ModelSource {
  json config;
  std::unique_ptr<ImageProcessor> processor;
};

ModelSource source_of(const std::string& name) {
  if (path_exists(name)) return {read_model_folder(name).config, load_image_processor(name)};
  const auto published = published_config(name);
  return {published.config, make_image_processor(published.image_processor, "image processor")};
}

// Words, none of which stands for a picture.
torch::Tensor some_ids(const PretrainedBackbone& model, int64_t rows, int64_t columns) {
  const int64_t words = std::min<int64_t>(model.language().vocabulary() - 1, 1000);
  const auto ids = at::randint(0, words, {rows, columns}, at::kLong);
  return at::where(ids.eq(model.image_token()), ids + 1, ids);
}

// Of a step: products of frozen weights and attention, not of adapters.
struct Work {
  double tokens = 0, operations = 0;
  double left_out = 0;  // where the last layer goes on with the positions that predict answers
  double forward = 0;   // of a pass without gradients

  double of(Terms terms) const {
    const bool all = terms == Terms::full || terms == Terms::first;
    return operations - (all ? 0 : left_out) + (terms == Terms::first ? forward : 0);
  }
};

// Milliseconds with the loss, and of its gradients; clipping and AdamW are the rest of a step.
struct Parts {
  std::vector<double> forward, backward;
};

class BackboneStep {
 public:
  explicit BackboneStep(const BackboneBench& a) : device_(device_named(a.device)), dropout_(a.dropout) {
    torch::manual_seed(1);
    const auto kind = at::TensorOptions().dtype(usual_type(device_)).device(device_);
    const auto format = weight_format_named(a.base_precision);
    check_format(format, device_);
    const auto source = source_of(a.backbone);
    const auto config = shortened(source.config, a.layers);
    if (a.random) {
      model_ = make_backbone(random_model_folder(config, kind));
    } else {
      model_ = load_backbone(a.backbone);
      model_->to(device_);
    }
    keep_weights_in(*model_, format);
    BackboneOptions options;
    options.recompute = a.checkpointing;
    options.ends_at_answers = device_.is_cuda();  // as runs
    model_->configure(options);
    make_batch(a, source, dynamic_cast<PretrainedBackbone&>(*model_));
    for (const auto& [site, tensor] : add_experts(model_->sites(), a.rank, 2.0 * static_cast<double>(a.rank), 2))
      learnt_.push_back(tensor);
    optimizer_ = std::make_unique<AdamW>(learnt_, AdamWOptions());
    make_terms();
    count_work(shape_of_config(config, a.backbone), options);
  }

  // With `parts` the device is waited for between them.
  double run(Terms terms, Parts* parts = nullptr) {
    const auto begin = std::chrono::steady_clock::now();
    const auto since = [&] {
      return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    };
    return milliseconds_of([&] {
      AdapterDropout dropout{dropout_, ++steps_};
      Pass pass;
      pass.dropout = &dropout;
      Want want;
      want.tap_layers = terms == Terms::plain ? 0 : std::min<int64_t>(4, model_->layers());
      want.pooled = terms == Terms::full || terms == Terms::first;
      if (terms == Terms::first) ask_base();
      const auto out = model_->forward(batch_.input, pass, want);
      const auto loss = added(out, terms);
      optimizer_->zero_grad();
      if (parts) {
        loss.item<double>();
        parts->forward.push_back(since());
      }
      loss.backward();
      if (parts) {
        learnt_.back().grad().sum().item<double>();
        parts->backward.push_back(since() - parts->forward.back());
      }
      optimizer_->clip(1);
      optimizer_->step(1e-4);
      check(std::isfinite(loss.item<double>()), "the loss is not finite");
    });
  }

  at::Device device() const { return device_; }
  const Work& work() const { return work_; }
  int64_t trained() const {
    int64_t sum = 0;
    for (const auto& tensor : learnt_) sum += tensor.numel();
    return sum;
  }

 private:
  void ask_base() {
    at::NoGradGuard no_grad;
    Want want;
    want.loss = false;
    want.pooled = true;
    const auto base = model_->forward(batch_.input, Pass{0, nullptr}, want);
    batch_.reference_image = base.image;
    batch_.reference_text = base.text;
  }

  void make_batch(const BackboneBench& a, const ModelSource& source, const PretrainedBackbone& model) {
    const auto& processor = source.processor;
    Image8 picture{kSide, kSide, std::vector<uint8_t>(size_t(kSide) * kSide * 3)};
    for (size_t i = 0; i < picture.rgb.size(); ++i) picture.rgb[i] = static_cast<uint8_t>(i * 2654435761u >> 24);
    ProcessedImages images;
    for (int64_t i = 0; i < a.batch; ++i) processor->append(picture, "picture", images);
    const auto shape = shape_of_config(source.config, a.backbone);
    visual_ = picture_tokens(shape, processor.get(), kSide, kSide);
    const auto image_tokens = static_cast<int64_t>(visual_.visual);
    const int64_t length = image_tokens + a.text_tokens;
    check(a.text_tokens >= kQuestionTokens + kAnswerTokens + 1, "--text-tokens ", a.text_tokens, " leaves no room for ",
          kQuestionTokens, " question and ", kAnswerTokens, " answer tokens");
    auto& batch = batch_.input;
    add_pixels(images, batch);
    batch.ids = at::full({a.batch, length}, model.image_token(), at::kLong);
    batch.ids.narrow(1, image_tokens, a.text_tokens).copy_(some_ids(model, a.batch, a.text_tokens));
    batch.mask = at::ones({a.batch, length}, at::kBool);
    batch.labels = at::full({a.batch, length}, -1, at::kLong);
    const int64_t answer = length - kAnswerTokens;
    batch.labels.narrow(1, answer, kAnswerTokens).copy_(batch.ids.narrow(1, answer, kAnswerTokens));
    batch.question = at::zeros({a.batch, length}, at::kBool);
    batch.question.narrow(1, image_tokens, kQuestionTokens).fill_(true);
    batch.functional = batch.question.clone();
    if (shape.queries > 0) {  // what a Q-Former reads
      batch.instruction = at::randint(1, 20, {a.batch, kQuestionTokens}, at::kLong);
      batch.instruction_mask = at::ones({a.batch, kQuestionTokens}, at::kBool);
    }
    batch = to_device(batch, device_);
  }

  void make_terms() {
    const int64_t D = options_.spectral.dim(), M = options_.spectral.angular_bins, B = batch_.size();
    PrototypeTensors prototypes;
    prototypes.skill = torch::arange(kPrototypes);
    prototypes.mean = torch::rand({kPrototypes, D}, at::kDouble);
    prototypes.variance = torch::rand({kPrototypes, D}, at::kDouble) + 0.1;
    prototypes.angular = torch::rand({kPrototypes, M}, at::kDouble) + 0.1;
    loss_.emplace(prototypes, options_, at::TensorOptions().dtype(at::kFloat).device(device_));
    batch_.posterior = torch::rand({B, kPrototypes}).softmax(1).to(device_);
    batch_.reference_image = torch::randn({B, model_->width()}).to(device_);
    batch_.reference_text = torch::randn({B, model_->width()}).to(device_);
  }

  void count_work(const ModelShape& shape, const BackboneOptions& options) {
    const double B = static_cast<double>(batch_.size()), T = static_cast<double>(batch_.input.ids.size(1));
    const double depth = static_cast<double>(shape.layers), across = static_cast<double>(shape.heads * shape.head);
    work_.tokens = B * T;
    work_.operations = 4 * work_.tokens * shape.decoder_weights() + 2 * B * visual_.positions * shape.vision_weights() +
                       3.5 * depth * 4 * B * T * T * across / 2;
    work_.forward = 2 * work_.tokens * shape.decoder_weights() + 2 * B * visual_.positions * shape.vision_weights() +
                    depth * 4 * B * T * T * across / 2;
    if (!options.ends_at_answers || options.recompute) return;
    const double width = static_cast<double>(shape.width), mlp = static_cast<double>(shape.mlp);
    work_.left_out = 4 * (work_.tokens - B * kAnswerTokens) * width * (across + 3 * mlp);
  }

  torch::Tensor added(const Output& out, Terms terms) {
    if (terms == Terms::plain) return out.loss;
    if (!encoder_) encoder_.emplace(out.attention.size(4), out.attention.size(5), options_.spectral);
    const auto descriptor = encoder_->descriptor(out.attention, row_weights(batch_.input, out));
    const auto spectral = (*loss_)(descriptor, batch_.posterior).loss;
    if (terms == Terms::spectral) return weighted_sum({{out.loss, 1}, {spectral, options_.asr.beta}});
    const auto geometry = geometry_loss(out.image, out.text, batch_.reference_image, batch_.reference_text);
    return weighted_sum({{out.loss, 1}, {spectral, options_.asr.beta}, {geometry, options_.asr.gamma}});
  }

  at::Device device_;
  double dropout_;
  uint64_t steps_ = 0;
  std::unique_ptr<Backbone> model_;
  SampleBatch batch_;
  PictureTokens visual_;
  std::vector<torch::Tensor> learnt_;
  std::unique_ptr<AdamW> optimizer_;
  Options options_;
  std::optional<SpectralEncoder> encoder_;
  std::optional<SpectralLoss> loss_;
  Work work_;
};

struct Measured {
  Terms terms;
  std::string name;
  std::vector<double> times;
  Parts parts;
  MemoryPeak memory;
};

// Which part of a step a kernel belongs to, by its name.
std::string kind_of_kernel(const std::string& name) {
  static const std::vector<std::pair<const char*, const char*>> kinds = {
      {"asr::cuda", "our kernels"},
      {"flash", "attention"},
      {"fmha", "attention"},
      {"sdpa", "attention"},
      {"gemm", "products"},
      {"nvjet", "products"},
      {"cutlass", "products"},
      {"splitK", "products"},
      {"cublas", "products"},
      {"Memcpy", "copies"},
      {"Memset", "copies"},
      {"copy", "copies"},
      {"norm", "norms"},
      {"elementwise", "elementwise"},
      {"reduce", "sums"},
  };
  for (const auto& [part, kind] : kinds)
    if (name.find(part) != std::string::npos) return kind;
  return "other";
}

json profile_of(BackboneStep& step) {
  constexpr int kSteps = 3;
  const auto kernels = profile_kernels([&] {
    for (int i = 0; i < kSteps; ++i) step.run(Terms::plain);
  });
  std::map<std::string, std::pair<double, double>> kinds;
  json longest = json::array();
  for (const auto& kernel : kernels) {
    auto& sum = kinds[kind_of_kernel(kernel.name)];
    sum.first += kernel.milliseconds / kSteps;
    sum.second += static_cast<double>(kernel.calls) / kSteps;
    if (longest.size() < 40)
      longest.push_back({{"kernel", kernel.name.substr(0, 160)},
                         {"ms", kernel.milliseconds / kSteps},
                         {"calls", static_cast<double>(kernel.calls) / kSteps}});
  }
  json by_kind = json::array();
  for (const auto& [kind, sum] : kinds) by_kind.push_back({{"kind", kind}, {"ms", sum.first}, {"calls", sum.second}});
  return {{"kinds", by_kind}, {"longest", longest}};
}

void print_profile(const json& profile) {
  std::vector<std::vector<std::string>> rows = {{"kernels", "ms a step", "starts a step"}};
  for (const auto& kind : profile["kinds"])
    rows.push_back(
        {kind["kind"].get<std::string>(), number(kind["ms"].get<double>(), 1), number(kind["calls"].get<double>(), 0)});
  std::cout << "\n" << text_table(rows) << "\n";
  rows = {{"ms a step", "starts", "longest kernels"}};
  for (const auto& kernel : profile["longest"])
    rows.push_back({number(kernel["ms"].get<double>(), 2), number(kernel["calls"].get<double>(), 0),
                    kernel["kernel"].get<std::string>().substr(0, 100)});
  std::cout << text_table(rows);
}

std::vector<Measured> measure_terms(BackboneStep& step, int calls, bool brief) {
  std::vector<Measured> out;
  for (const auto& [terms, name] : kTerms) {
    if (brief && terms != Terms::plain && terms != Terms::spectral) continue;
    step.run(terms);
    step.run(terms);  // warm-up
    forget_memory_peak(step.device());
    step.run(terms);
    out.push_back({terms, name, {}, {}, memory_peak(step.device())});
  }
  for (int i = 0; i < calls; ++i)  // in turns, so that what disturbs one disturbs all
    for (auto& side : out) side.times.push_back(step.run(side.terms));
  for (int i = 0; i < std::min(calls, kApart); ++i)
    for (auto& side : out) step.run(side.terms, &side.parts);
  return out;
}

}  // namespace

void bench_backbone(const BackboneBench& arguments, const Common& common) {
  set_deterministic(arguments.deterministic);
  check(arguments.random || path_exists(arguments.backbone), "--backbone ", arguments.backbone,
        ": is no model folder; to measure the shape of a published model, give --random-weights");
  BackboneStep step(arguments);
  const double ceiling = matrix_ceiling(step.device());
  const auto measured = measure_terms(step, arguments.calls, arguments.brief);
  const auto& work = step.work();
  const double plain = median_ms(measured[0].times), gib = 1024.0 * 1024 * 1024;
  json results = json::array();
  std::vector<std::vector<std::string>> rows = {{"step", "median ms", "min ms", "over plain", "forward", "backward",
                                                 "tokens/s", "TFLOP/s", "of ceiling", "allocated", "reserved GiB"}};
  for (const auto& side : measured) {
    const double ms = median_ms(side.times), least = *std::min_element(side.times.begin(), side.times.end());
    const double rate = work.of(side.terms) / ms * 1e3;
    results.push_back({{"step", side.name},
                       {"median_ms", ms},
                       {"min_ms", least},
                       {"over_plain", ms / plain - 1},
                       {"forward_ms", median_ms(side.parts.forward)},
                       {"backward_ms", median_ms(side.parts.backward)},
                       {"tokens_a_second", work.tokens / ms * 1e3},
                       {"tflops", rate / 1e12},
                       {"of_ceiling", rate / ceiling},
                       {"allocated_gib", side.memory.allocated / gib},
                       {"reserved_gib", side.memory.reserved / gib}});
    rows.push_back({side.name, number(ms, 1), number(least, 1), number(100 * (ms / plain - 1), 1) + " %",
                    number(median_ms(side.parts.forward), 1), number(median_ms(side.parts.backward), 1),
                    number(work.tokens / ms * 1e3, 0), number(rate / 1e12, 0), number(100 * rate / ceiling, 0) + " %",
                    number(side.memory.allocated / gib, 1), number(side.memory.reserved / gib, 1)});
  }
  json result = {{"backbone", arguments.backbone},
                 {"batch", arguments.batch},
                 {"tokens", work.tokens / static_cast<double>(arguments.batch)},
                 {"trained", step.trained()},
                 {"ceiling_tflops", ceiling / 1e12},
                 {"program", version_info()},
                 {"results", results}};
  if (arguments.profile) result["profile"] = profile_of(step);
  if (common.json) return print_json(result);
  std::cout << fmt::format("{}, batch {} of {:.0f} tokens, {} trained numbers, matrix ceiling {:.0f} TFLOP/s\n",
                           arguments.backbone, arguments.batch, work.tokens / static_cast<double>(arguments.batch),
                           step.trained(), ceiling / 1e12)
            << text_table(rows);
  if (arguments.profile) print_profile(result["profile"]);
}

}  // namespace asr
