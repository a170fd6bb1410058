#include "backbones/tiny.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tensor/tensor_io.h"
#include "tensor/torch_compat.h"

namespace asr {

TinyConfig tiny_config(const std::string& size, int64_t vocabulary) {
  check(size == "S" || size == "M" || size == "L", "size '", size, "' is unknown; use S, M or L");
  TinyConfig c;
  c.vocabulary = vocabulary;
  const int64_t width = size == "S" ? 128 : size == "M" ? 256 : 384, depth = size == "S" ? 4 : size == "M" ? 6 : 8;
  c.vision = {64, 8, size == "S" ? 3 : 4, width, width / 32, 2 * width};
  c.text.layers = depth, c.text.width = width, c.text.heads = c.text.kv_heads = width / 32, c.text.mlp = 2 * width;
  return c;
}

// One list of weights serves random initialisation, loading, saving and moving.
template <class Visit>
void TinyBackbone::visit(TinyBackbone& m, const Visit& visit) {
  const auto& v = m.config_.vision;
  const auto& t = m.config_.text;
  const auto linear = [&](const std::string& name, Linear& l, int64_t out, int64_t in, bool bias) {
    visit(name + ".weight", l.weight, std::vector<int64_t>{out, in});
    if (bias) visit(name + ".bias", l.bias, std::vector<int64_t>{out});
  };
  const auto layer_norm = [&](const std::string& name, LayerNorm& n, int64_t width) {
    visit(name + ".weight", n.weight, std::vector<int64_t>{width});
    visit(name + ".bias", n.bias, std::vector<int64_t>{width});
  };
  m.vision_.config = v, m.decoder_.config = t;
  m.vision_.layers.resize(v.layers), m.decoder_.layers.resize(t.layers);
  linear("vision.patches", m.vision_.patches, v.width, 3 * v.patch * v.patch, true);
  visit("vision.positions", m.vision_.positions, std::vector<int64_t>{v.grid() * v.grid(), v.width});
  for (int64_t i = 0; i < v.layers; ++i) {
    auto& l = m.vision_.layers[i];
    const std::string at = cat("vision.layers.", i, ".");
    layer_norm(at + "attention_norm", l.attention_norm, v.width), layer_norm(at + "mlp_norm", l.mlp_norm, v.width);
    linear(at + "qkv", l.qkv, 3 * v.width, v.width, true), linear(at + "o", l.o, v.width, v.width, true);
    linear(at + "up", l.up, v.mlp, v.width, true), linear(at + "down", l.down, v.width, v.mlp, true);
  }
  layer_norm("vision.final_norm", m.vision_.final_norm, v.width);
  linear("projector.in", m.projector_in_, t.width, v.width, true),
      linear("projector.out", m.projector_out_, t.width, t.width, true);
  visit("embedding.weight", m.embedding_, std::vector<int64_t>{m.config_.vocabulary, t.width});
  const int64_t head = t.width / t.heads;
  for (int64_t i = 0; i < t.layers; ++i) {
    auto& l = m.decoder_.layers[i];
    const std::string at = cat("layers.", i, ".");
    visit(at + "attention_norm.weight", l.attention_norm.weight, std::vector<int64_t>{t.width});
    visit(at + "mlp_norm.weight", l.mlp_norm.weight, std::vector<int64_t>{t.width});
    linear(at + "q", l.q, t.width, t.width, false), linear(at + "k", l.k, t.kv_heads * head, t.width, false);
    linear(at + "v", l.v, t.kv_heads * head, t.width, false), linear(at + "o", l.o, t.width, t.width, false);
    linear(at + "gate", l.gate, t.mlp, t.width, false), linear(at + "up", l.up, t.mlp, t.width, false),
        linear(at + "down", l.down, t.width, t.mlp, false);
  }
  visit("final_norm.weight", m.decoder_.final_norm.weight, std::vector<int64_t>{t.width});
}

TinyBackbone TinyBackbone::random(const TinyConfig& config, uint64_t seed) {
  check(config.vocabulary > 0, "a backbone needs a vocabulary");
  TinyBackbone m;
  m.config_ = config;
  auto generator = at::detail::createCPUGenerator(seed);
  visit(m, [&](const std::string& name, torch::Tensor& weight, const std::vector<int64_t>& shape) {
    const bool norm = name.find("norm.weight") != std::string::npos, bias = name.find(".bias") != std::string::npos;
    if (norm)
      weight = torch::ones(shape);
    else if (bias)
      weight = torch::zeros(shape);
    else
      weight = at::randn(shape, generator, at::CPU(at::kFloat)) *
               (shape.size() == 2 && name != "vision.positions" && name != "embedding.weight"
                    ? 1 / std::sqrt(static_cast<double>(shape[1]))
                    : 0.02);
  });
  return m;
}

std::vector<std::pair<std::string, torch::Tensor>> TinyBackbone::named_weights() const {
  std::vector<std::pair<std::string, torch::Tensor>> out;
  visit(const_cast<TinyBackbone&>(*this), [&](const std::string& name, torch::Tensor& weight,
                                              const std::vector<int64_t>&) { out.emplace_back(name, weight); });
  return out;
}

void TinyBackbone::save(const std::string& path) const {
  NamedTensors tensors;
  for (const auto& [name, weight] : named_weights()) tensors.emplace_back(name, weight.to(at::kBFloat16));
  const auto& v = config_.vision;
  const auto& t = config_.text;
  const nlohmann::json config = {{"vocabulary", config_.vocabulary},
                                 {"vision", {v.image, v.patch, v.layers, v.width, v.heads, v.mlp}},
                                 {"text", {t.layers, t.width, t.heads, t.kv_heads, t.mlp}}};
  save_tensors(path, tensors, {{"asr_backbone", "tiny"}, {"config", config.dump()}});
}

TinyBackbone TinyBackbone::load(const std::string& path) {
  const auto file = read_safetensors(path);
  const auto kind = file.metadata.find("asr_backbone"), stored = file.metadata.find("config");
  check(kind != file.metadata.end() && kind->second == "tiny" && stored != file.metadata.end(), path,
        ": is no tiny backbone");
  verify_checksum(file);
  const auto config = nlohmann::json::parse(stored->second, nullptr, false);
  const auto numbers = [&](const char* key, size_t count) {
    check(config.is_object() && config.contains(key) && config[key].is_array() && config[key].size() == count, path,
          ": config lacks '", key, "'");
    return config[key].get<std::vector<int64_t>>();
  };
  TinyBackbone m;
  check(config.is_object() && config.value("vocabulary", 0) > 0, path, ": config lacks a vocabulary");
  m.config_.vocabulary = config["vocabulary"].get<int64_t>();
  const auto v = numbers("vision", 6), t = numbers("text", 5);
  m.config_.vision = {v[0], v[1], v[2], v[3], v[4], v[5]};
  m.config_.text.layers = t[0], m.config_.text.width = t[1], m.config_.text.heads = t[2],
  m.config_.text.kv_heads = t[3], m.config_.text.mlp = t[4];
  size_t used = 0;
  visit(m, [&](const std::string& name, torch::Tensor& weight, const std::vector<int64_t>& shape) {
    weight = load_tensor(file, name).to(at::kFloat);
    check(weight.sizes() == at::IntArrayRef(shape), path, ": '", name, "' has shape ", shape_text(weight.sizes()),
          "; expected ", shape_text(shape));
    ++used;
  });
  check(used == file.tensors.size(), path, ": holds ", file.tensors.size() - used,
        " tensors that this backbone has no place for");
  return m;
}

void TinyBackbone::to(at::Device device) {
  visit(*this,
        [&](const std::string&, torch::Tensor& weight, const std::vector<int64_t>&) { weight = weight.to(device); });
}

std::vector<std::pair<std::string, torch::Tensor>> TinyBackbone::add_experts(int64_t rank, double alpha,
                                                                             uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  std::vector<std::pair<std::string, torch::Tensor>> out;
  const auto adapt = [&](const std::string& name, Linear& linear) {
    linear.experts.push_back(make_expert(linear, rank, alpha, generator));
    out.emplace_back(name + ".lora_A.weight", linear.experts.back().a),
        out.emplace_back(name + ".lora_B.weight", linear.experts.back().b);
  };
  adapt("projector.in", projector_in_), adapt("projector.out", projector_out_);
  for (size_t i = 0; i < decoder_.layers.size(); ++i)
    adapt(cat("layers.", i, ".q"), decoder_.layers[i].q), adapt(cat("layers.", i, ".v"), decoder_.layers[i].v);
  return out;
}

torch::Tensor TinyBackbone::visual_tokens(const torch::Tensor& pixels, const Pass& pass) const {
  return projector_out_(at::gelu(projector_in_(vision_(pixels, pass), pass)), pass);  // [B, V, width]
}

torch::Tensor TinyBackbone::logits(const torch::Tensor& hidden) const {
  return at::linear(hidden, embedding_);
}

namespace {

// Positions of the true entries of each row, in order, padded with -1 to the longest row.
torch::Tensor positions_of(const torch::Tensor& mask) {
  const auto index = at::arange(mask.size(1), mask.options().dtype(at::kLong)).expand_as(mask);
  const auto sorted = std::get<0>(at::where(mask, index, at::full_like(index, mask.size(1))).sort(1));
  const int64_t longest = std::max<int64_t>(1, mask.sum(1).max().item<int64_t>());
  const auto cut = sorted.narrow(1, 0, longest);
  return at::where(cut.lt(mask.size(1)), cut, at::full_like(cut, -1));
}

torch::Tensor masked_mean(const torch::Tensor& x, const torch::Tensor& mask) {
  const auto weight = mask.to(x.scalar_type()).unsqueeze(-1);
  return (x * weight).sum(1) / weight.sum(1).clamp_min(1);
}

}  // namespace

TinyOutput TinyBackbone::forward(const TinyBatch& batch, const Pass& pass, int64_t tap_layers) const {
  const int64_t B = batch.ids.size(0), T = batch.ids.size(1), V = config_.vision.grid() * config_.vision.grid(),
                depth = config_.text.layers;
  check(batch.pixels.size(2) == config_.vision.image && batch.pixels.size(3) == config_.vision.image, "images are ",
        batch.pixels.size(2), "x", batch.pixels.size(3), " but the backbone takes ", config_.vision.image);
  check(tap_layers >= 0 && tap_layers <= depth, "cannot tap ", tap_layers, " of ", depth, " layers");
  const auto visual = visual_tokens(batch.pixels, pass);
  const auto x = at::cat({visual, at::embedding(embedding_, batch.ids)}, 1);
  const auto mask = at::cat({torch::ones({B, V}, batch.mask.options()), batch.mask}, 1);
  const auto positions = at::arange(V + T, batch.ids.options()).expand({B, V + T});

  TinyOutput out;
  TapRequest request;
  TapResult tapped;
  out.rows = positions_of(batch.question);
  request.rows = at::where(out.rows.ge(0), out.rows + V, out.rows);
  request.columns = at::arange(V, batch.ids.options()).expand({B, V});
  for (int64_t i = depth - tap_layers; i < depth; ++i) request.layers.push_back(i);
  const auto hidden =
      decoder_(x, positions, mask, pass, nullptr, tap_layers ? &request : nullptr, tap_layers ? &tapped : nullptr);

  if (tap_layers) {
    const auto rows = tapped.stacked();  // [B, L, heads, Tq, V]
    out.attention = rows.view({B, tap_layers, config_.text.heads, -1, config_.vision.grid(), config_.vision.grid()});
  }
  out.image = masked_mean(hidden.narrow(1, 0, V), torch::ones({B, V}, batch.mask.options()));
  out.text = masked_mean(hidden.narrow(1, V, T), batch.question);
  // The vocabulary projection is computed at answer positions alone; the state before a token predicts it.
  const auto wanted = batch.labels.flatten().ge(0).nonzero().flatten();
  check(wanted.numel() > 0, "no sample of the batch has an answer");
  const auto before = hidden.narrow(1, V - 1, T).reshape({B * T, -1}).index_select(0, wanted);
  out.loss = at::cross_entropy_loss(logits(before), batch.labels.flatten().index_select(0, wanted));
  return out;
}

std::vector<std::vector<int64_t>> TinyBackbone::generate(const TinyBatch& batch, const Pass& pass, int64_t limit,
                                                         int64_t end) const {
  at::NoGradGuard no_grad;
  const int64_t B = batch.ids.size(0), T = batch.ids.size(1), V = config_.vision.grid() * config_.vision.grid();
  // Questions are shifted to the right edge, so that every sample continues at the same column.
  const auto prompt = batch.mask.logical_and(batch.labels.lt(0));
  const auto length = prompt.sum(1, true);  // [B, 1]
  const auto column = at::arange(T, batch.ids.options()).expand({B, T}) - (T - length);
  const auto ids = batch.ids.gather(1, column.clamp_min(0));
  const auto real = column.ge(0);
  const auto x = at::cat({visual_tokens(batch.pixels, pass), at::embedding(embedding_, ids)}, 1);
  const auto mask = at::cat({torch::ones({B, V}, real.options()), real}, 1);
  const auto positions = at::cat({at::arange(V, ids.options()).expand({B, V}), column.clamp_min(0) + V}, 1);

  KvCache cache;
  auto hidden = decoder_(x, positions, mask, pass, &cache);
  std::vector<std::vector<int64_t>> out(B);
  std::vector<bool> done(B, false);
  auto position = (length + V);  // [B, 1]: where the next token stands
  for (int64_t step = 0; step < limit; ++step) {
    const auto next = logits(hidden.narrow(1, hidden.size(1) - 1, 1).squeeze(1)).argmax(-1);  // [B]
    const auto tokens = next.cpu();
    bool all_done = true;
    for (int64_t b = 0; b < B; ++b) {
      const int64_t token = tokens[b].item<int64_t>();
      done[b] = done[b] || token == end;
      if (!done[b]) out[b].push_back(token);
      all_done = all_done && done[b];
    }
    if (all_done || step + 1 == limit) break;
    hidden = decoder_(at::embedding(embedding_, next.unsqueeze(1)), position, torch::ones({B, 1}, real.options()), pass,
                      &cache);
    position = position + 1;
  }
  return out;
}

}  // namespace asr
