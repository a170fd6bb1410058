// asr bench tap, asr bench attention, asr bench load: what looking at attention costs in a model of LLaVA-7B's shape,
// what padding costs there, and how a checkpoint comes into memory.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>

#include <unistd.h>

#include <cmath>

#include "backbones/backbone.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/version.h"
#include "nn/decoder.h"
#include "nn/tap.h"
#include "tensor/device.h"
#include "tensor/tensor_io.h"
#include "tensor/torch_compat.h"

namespace asr {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct TapArguments {
  int64_t layers = 32, tapped = 4, rows = 8, tokens = 640, turns = 10;
  std::string device = "cpu";
};

Linear random_linear(int64_t out, int64_t in, const at::TensorOptions& kind) {
  Linear linear;
  linear.weight = at::randn({out, in}, kind) * (1 / std::sqrt(static_cast<double>(in)));
  return linear;
}

// LLaMA-7B's layers; 576 of the tokens are visual.
Decoder random_decoder(int64_t layers, const at::TensorOptions& kind) {
  Decoder d;
  d.config.layers = layers;
  d.config.width = 4096;
  d.config.heads = d.config.kv_heads = 32;
  d.config.mlp = 11008;
  const int64_t width = d.config.width;
  for (int64_t i = 0; i < layers; ++i) {
    DecoderLayer l;
    l.attention_norm.weight = l.mlp_norm.weight = at::ones({width}, kind);
    l.q = random_linear(width, width, kind);
    l.k = random_linear(width, width, kind);
    l.v = random_linear(width, width, kind);
    l.o = random_linear(width, width, kind);
    l.gate = random_linear(d.config.mlp, width, kind);
    l.up = random_linear(d.config.mlp, width, kind);
    l.down = random_linear(width, d.config.mlp, kind);
    d.layers.push_back(std::move(l));
  }
  d.final_norm.weight = at::ones({width}, kind);
  return d;
}

void bench_tap(const TapArguments& a, const Common& common) {
  const auto device = device_named(a.device);
  check(a.tapped <= a.layers && a.tokens > 576 + a.rows, "there must be as many layers as are tapped, and tokens for ",
        "576 visual ones and the rows");
  at::NoGradGuard no_grad;
  const auto kind = at::TensorOptions().dtype(usual_type(device)).device(device);
  const auto decoder = random_decoder(a.layers, kind);
  const auto x = at::randn({1, a.tokens, decoder.config.width}, kind);
  const auto positions = at::arange(a.tokens, kind.dtype(at::kLong)).view({1, -1});
  const auto mask = at::ones({1, a.tokens}, kind.dtype(at::kBool));
  TapRequest request;
  for (int64_t i = a.layers - a.tapped; i < a.layers; ++i) request.layers.push_back(i);
  request.rows = positions.narrow(1, 600, a.rows).contiguous();
  request.columns = positions.narrow(1, 0, 576).contiguous();
  std::vector<double> started;  // when the host had started a plain pass; close to the whole, it holds the device up
  const auto pass = [&](bool tap) {
    TapResult result;
    torch::Tensor out;
    DecoderInput input{.positions = positions, .mask = mask};
    if (tap) input.tap = {&request, &result};
    const double host = seconds_of([&] { out = decoder(x, input, Pass{}); });
    if (!tap) started.push_back(1000 * host);
    auto sum = out.select(1, 0).sum();
    if (tap) sum = sum + result.stacked().sum();
    check(std::isfinite(sum.item<double>()), "the pass gave no numbers");  // waits for the device
  };
  pass(false);
  pass(true);  // warm-up
  std::vector<double> plain, tapped;
  for (int64_t i = 0; i < a.turns; ++i) {
    plain.push_back(1000 * seconds_of([&] { pass(false); }));
    tapped.push_back(1000 * seconds_of([&] { pass(true); }));
  }
  // The rows alone: the difference of two long passes drowns in their noise.
  const auto q = at::randn({1, 32, a.tokens, 128}, kind), k = at::randn({1, 32, a.tokens, 128}, kind);
  std::vector<double> alone;
  for (int64_t i = 0; i <= a.turns; ++i)
    alone.push_back(1000 / 20.0 * seconds_of([&] {
                      torch::Tensor found;  // one wait for the device in all
                      for (int n = 0; n < 20; ++n) {
                        TapResult result;
                        result.mask = tap_mask(k, mask, true, request);
                        for (int64_t layer = 0; layer < a.tapped; ++layer)
                          result.scores.push_back(tap_scores(q, k, result.mask));
                        result.finish();
                        found = result.stacked();
                      }
                      check(std::isfinite(found.sum().item<double>()), "the rows are no numbers");
                    }));
  const double base = median(plain), with = median(tapped), rows = median(alone);
  // Layers that were left out here still belong to the model that the tap is compared with: 4 of 32 layers are tapped.
  const double share = 4 * rows / static_cast<double>(a.tapped) / (base / static_cast<double>(a.layers) * 32);
  const json result = {{"device", a.device},
                       {"layers", a.layers},
                       {"tapped", a.tapped},
                       {"rows", a.rows},
                       {"tokens", a.tokens},
                       {"forward_ms", base},
                       {"forward_with_tap_ms", with},
                       {"forward_started_ms", median(started)},
                       {"tap_ms", rows},
                       {"of_32_layers_with_4_tapped", share},
                       {"program", version_info()}};
  if (common.json) return print_json(result);
  std::cout << fmt::format(
      "{} layers of LLaMA-7B's shape, {} tokens, on {}: {:.2f} ms; with {} of them tapped for {} rows: {:.2f} ms\n"
      "the tapped rows alone: {:.3f} ms; those of four layers are {:.2f} % of 32 layers\n"
      "the host had started every operator of a pass after {:.2f} ms\n",
      a.layers, a.tokens, a.device, base, a.tapped, a.rows, with, rows, 100 * share, median(started));
}

struct AttentionArguments {
  int64_t batch = 8, tokens = 645, heads = 32, width = 128, turns = 20;
  std::string device = "cpu";
};

// One layer's causal attention over samples of different lengths, forward and backward: padding at the right, which the
// order hides; at the left, with a mask; and the plain form, which forms the whole matrix.
void bench_attention(const AttentionArguments& a, const Common& common) {
  const auto device = device_named(a.device);
  const auto kind = at::TensorOptions().dtype(usual_type(device)).device(device);
  const auto heads = [&] {
    return at::randn({a.batch, a.tokens, a.heads, a.width}, kind).transpose(1, 2).requires_grad_();
  };
  const std::vector<torch::Tensor> x = {heads(), heads(), heads()};
  auto left = at::ones({a.batch, a.tokens}, at::kBool);  // sample b lacks b / (2 B) of the tokens
  for (int64_t b = 0; b < a.batch; ++b) left[b].narrow(0, 0, b * a.tokens / (2 * a.batch)).fill_(false);
  const auto right = left.flip(1).to(device);
  left = left.to(device);
  const auto time = [&](const std::function<torch::Tensor()>& attention) {
    std::vector<double> list;
    for (int64_t turn = 0; turn < a.turns + 2; ++turn) {
      const double seconds = seconds_of([&] {
        const auto grads = gradients(attention().sum(), x);
        check(std::isfinite(grads[0].sum().item<double>()), "attention gave no numbers");
      });
      if (turn >= 2) list.push_back(1000 * seconds);
    }
    return median(list);
  };
  check(order_hides_padding(right), "padding at the right is not hidden by the order");
  const double order = time([&] { return attend(x[0], x[1], x[2], {}, true); }),
               masked = time([&] { return attend(x[0], x[1], x[2], left, true); }),
               plain = time([&] { return attend_reference(x[0], x[1], x[2], left, true); });
  if (common.json)
    return print_json({{"device", a.device},
                       {"batch", a.batch},
                       {"tokens", a.tokens},
                       {"heads", a.heads},
                       {"width", a.width},
                       {"order_ms", order},
                       {"masked_ms", masked},
                       {"plain_ms", plain},
                       {"program", version_info()}});
  std::cout << fmt::format(
      "causal attention of {} samples, {} tokens, {} heads of {} on {}, forward and backward:\n"
      "padding at the right, hidden by the order: {:.3f} ms; at the left, masked: {:.3f} ms; plain form: {:.3f} ms\n",
      a.batch, a.tokens, a.heads, a.width, a.device, order, masked, plain);
}

double resident_megabytes() {
  std::ifstream file("/proc/self/statm");
  double pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * 4096 / 1e6;
}

struct LoadArguments {
  double gigabytes = 2;
  std::string folder;
};

// A LLaMA of random bytes: small numbers in bfloat16.
void write_random_model(const std::string& folder, double gigabytes) {
  const int64_t width = 2048, mlp = 5504, heads = 16, vocabulary = 32000;
  const int64_t layer = 4 * width * width + 3 * width * mlp + 2 * width;
  const auto layers =
      static_cast<int64_t>((gigabytes * 1e9 / 2 - 2.0 * vocabulary * width) / static_cast<double>(layer));
  check(layers >= 1, "--gigabytes ", gigabytes, " is less than the embedding alone; give at least 0.4");
  NamedTensors tensors;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    tensors.emplace_back(name, (at::rand(shape) * 0.02).to(at::kBFloat16));
  };
  add("model.embed_tokens.weight", {vocabulary, width});
  add("lm_head.weight", {vocabulary, width});
  add("model.norm.weight", {width});
  for (int64_t i = 0; i < layers; ++i) {
    const auto at_layer = cat("model.layers.", i, ".");
    for (const char* name : {"q", "k", "v", "o"})
      add(cat(at_layer, "self_attn.", name, "_proj.weight"), {width, width});
    add(at_layer + "mlp.gate_proj.weight", {mlp, width});
    add(at_layer + "mlp.up_proj.weight", {mlp, width});
    add(at_layer + "mlp.down_proj.weight", {width, mlp});
    add(at_layer + "input_layernorm.weight", {width});
    add(at_layer + "post_attention_layernorm.weight", {width});
  }
  fs::create_directories(folder);
  save_tensors(folder + "/model.safetensors", tensors, {});
  const json config = {{"model_type", "llama"},        {"hidden_size", width},        {"intermediate_size", mlp},
                       {"num_attention_heads", heads}, {"num_hidden_layers", layers}, {"vocab_size", vocabulary}};
  write_file_atomically(folder + "/config.json", config.dump(1));
}

void bench_load(const LoadArguments& a, const Common& common) {
  const bool own = a.folder.empty();
  const auto folder = own ? (fs::temp_directory_path() / cat("asr-bench-load-", ::getpid())).string() : a.folder;
  struct Cleaner {
    std::string path;
    ~Cleaner() {
      std::error_code error;
      if (!path.empty()) fs::remove_all(path, error);
    }
  } cleaner{own ? folder : ""};
  if (own) write_random_model(folder, a.gigabytes);
  double bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors") bytes += static_cast<double>(entry.file_size());
  const double before = resident_megabytes();
  std::unique_ptr<Backbone> model;
  const double load = seconds_of([&] { model = load_backbone(folder); });
  const double loaded = resident_megabytes() - before;
  double sum = 0;
  const double read = seconds_of([&] {
    at::NoGradGuard no_grad;
    for (const auto& site : model->adaptable()) sum += site.linear->weight.sum().item<double>();
    sum += model->token_embedding().sum().item<double>();
  });
  const double used = resident_megabytes() - before;
  check(std::isfinite(sum), "the weights are no numbers");
  const json result = {{"file_mb", bytes / 1e6},           {"load_seconds", load},
                       {"resident_mb_after_load", loaded}, {"read_seconds", read},
                       {"resident_mb_after_read", used},   {"resident_of_file", used * 1e6 / bytes},
                       {"program", version_info()}};
  if (common.json) return print_json(result);
  std::cout << fmt::format(
      "{:.0f} MB of weights: loaded in {:.3f} s ({:.0f} MB resident), every weight read once in {:.2f} s more "
      "({:.0f} MB resident, {:.2f} of the file)\n",
      bytes / 1e6, load, loaded, read, used, used * 1e6 / bytes);
}

}  // namespace

void add_bench_model(CLI::App& bench, Common& common) {
  auto* tap = bench.add_subcommand("tap", "tapped attention in a decoder of LLaVA-7B's shape");
  auto t = std::make_shared<TapArguments>();
  tap->add_option("--layers", t->layers, "of the decoder; on a CPU one will do")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  tap->add_option("--tapped", t->tapped, "last layers that are tapped")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  tap->add_option("--rows", t->rows, "functional tokens")->capture_default_str()->check(CLI::Range(1, 40));
  tap->add_option("--tokens", t->tokens, "in the sequence, 576 of them visual")
      ->capture_default_str()
      ->check(CLI::Range(600, 8192));
  tap->add_option("--turns", t->turns, "pairs of passes")->capture_default_str()->check(CLI::Range(1, 1000));
  tap->add_option("--device", t->device, "cpu or cuda")->capture_default_str()->check(CLI::IsMember({"cpu", "cuda"}));
  tap->callback([t, &common] { bench_tap(*t, common); });
  auto* attention = bench.add_subcommand("attention", "causal attention over padded samples, with and without a mask");
  auto n = std::make_shared<AttentionArguments>();
  attention->add_option("--batch", n->batch, "samples")->capture_default_str()->check(CLI::Range(1, 1024));
  attention->add_option("--tokens", n->tokens, "of the longest sample")
      ->capture_default_str()
      ->check(CLI::Range(2, 8192));
  attention->add_option("--heads", n->heads, "of a layer")->capture_default_str()->check(CLI::Range(1, 256));
  attention->add_option("--width", n->width, "of a head")->capture_default_str()->check(CLI::Range(1, 256));
  attention->add_option("--turns", n->turns, "calls of each kind")->capture_default_str()->check(CLI::Range(1, 1000));
  attention->add_option("--device", n->device, "cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "cuda"}));
  attention->callback([n, &common] { bench_attention(*n, common); });
  auto* load = bench.add_subcommand("load", "how long a checkpoint takes to load, and the memory it needs");
  auto l = std::make_shared<LoadArguments>();
  load->add_option("--gigabytes", l->gigabytes, "of a random checkpoint, written to the temporary folder first")
      ->capture_default_str()
      ->check(between(0.4, 100.0));
  load->add_option("--model", l->folder, "a model folder instead")->type_name("DIR");
  load->callback([l, &common] { bench_load(*l, common); });
}

}  // namespace asr
