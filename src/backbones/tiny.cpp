#include "backbones/tiny.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/safetensors_metadata.h"
#include "tensor/tensor_io.h"
#include "tensor/torch_compat.h"

namespace asr {

TinyConfig tiny_config(const std::string& kind, const std::string& size) {
  check(kind == "tiny" || kind == "tiny_cross", "backbone '", kind, "' is unknown; use tiny or tiny_cross");
  check(size == "S" || size == "M" || size == "L", "size '", size, "' is unknown; use S, M or L");
  TinyConfig c;
  c.size = size;
  const int64_t width = size == "S" ? 128 : size == "M" ? 256 : 384, depth = size == "S" ? 4 : size == "M" ? 6 : 8;
  c.vision = {64, 8, size == "S" ? 3 : 4, width, width / 32, 2 * width};
  c.text.layers = depth;
  c.text.width = width;
  c.text.heads = c.text.kv_heads = width / 32;
  c.text.mlp = 2 * width;
  c.text.cross = kind == "tiny_cross";
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
  m.vision_.config = v;
  m.decoder_.config = t;
  m.vision_.layers.resize(v.layers);
  m.decoder_.layers.resize(t.layers);
  linear("vision.patches", m.vision_.patches, v.width, 3 * v.patch * v.patch, true);
  visit("vision.positions", m.vision_.positions, std::vector<int64_t>{v.grid() * v.grid(), v.width});
  for (int64_t i = 0; i < v.layers; ++i) {
    auto& l = m.vision_.layers[i];
    const std::string at = cat("vision.layers.", i, ".");
    layer_norm(at + "attention_norm", l.attention_norm, v.width);
    layer_norm(at + "mlp_norm", l.mlp_norm, v.width);
    linear(at + "qkv", l.qkv, 3 * v.width, v.width, true);
    linear(at + "o", l.o, v.width, v.width, true);
    linear(at + "up", l.up, v.mlp, v.width, true);
    linear(at + "down", l.down, v.width, v.mlp, true);
  }
  layer_norm("vision.final_norm", m.vision_.final_norm, v.width);
  linear("projector.in", m.projector_in_, t.width, v.width, true);
  linear("projector.out", m.projector_out_, t.width, t.width, true);
  visit("embedding.weight", m.embedding_, std::vector<int64_t>{m.config_.vocabulary, t.width});
  const int64_t head = t.width / t.heads;
  for (int64_t i = 0; i < t.layers; ++i) {
    auto& l = m.decoder_.layers[i];
    const std::string at = cat("layers.", i, ".");
    visit(at + "attention_norm.weight", l.attention_norm.weight, std::vector<int64_t>{t.width});
    visit(at + "mlp_norm.weight", l.mlp_norm.weight, std::vector<int64_t>{t.width});
    linear(at + "q", l.q, t.width, t.width, false);
    linear(at + "k", l.k, t.kv_heads * head, t.width, false);
    linear(at + "v", l.v, t.kv_heads * head, t.width, false);
    linear(at + "o", l.o, t.width, t.width, false);
    linear(at + "gate", l.gate, t.mlp, t.width, false);
    linear(at + "up", l.up, t.mlp, t.width, false);
    linear(at + "down", l.down, t.width, t.mlp, false);
    if (!t.cross) continue;
    visit(at + "cross.norm.weight", l.cross.norm.weight, std::vector<int64_t>{t.width});
    linear(at + "cross.q", l.cross.q, t.width, t.width, false);
    linear(at + "cross.k", l.cross.k, t.width, t.width, false);
    linear(at + "cross.v", l.cross.v, t.width, t.width, false);
    linear(at + "cross.o", l.cross.o, t.width, t.width, false);
  }
  visit("final_norm.weight", m.decoder_.final_norm.weight, std::vector<int64_t>{t.width});
}

namespace {

// Places must stand out from the first step, or questions of location take long to come off chance.
double initial_spread(const std::string& name, int64_t inputs) {
  if (name == "vision.positions") return 0.5;
  return name == "embedding.weight" ? 0.02 : 1 / std::sqrt(static_cast<double>(inputs));
}

}  // namespace

std::unique_ptr<TinyBackbone> TinyBackbone::random(TinyConfig config, const WordTokenizer& tokenizer, uint64_t seed) {
  auto m = std::make_unique<TinyBackbone>();
  config.vocabulary = tokenizer.size();
  m->config_ = config;
  m->tokenizer_ = tokenizer;
  auto generator = at::detail::createCPUGenerator(seed);
  visit(*m, [&](const std::string& name, torch::Tensor& weight, const std::vector<int64_t>& shape) {
    const bool norm = name.find("norm.weight") != std::string::npos, bias = name.find(".bias") != std::string::npos;
    if (norm)
      weight = torch::ones(shape);
    else if (bias)
      weight = torch::zeros(shape);
    else
      weight = at::randn(shape, generator, at::CPU(at::kFloat)) * initial_spread(name, shape[1]);
  });
  return m;
}

NamedParameters TinyBackbone::named_weights() const {
  NamedParameters out;
  visit(const_cast<TinyBackbone&>(*this), [&](const std::string& name, torch::Tensor& weight,
                                              const std::vector<int64_t>&) { out.emplace_back(name, weight); });
  return out;
}

std::string TinyBackbone::name() const {
  return (config_.text.cross ? "tiny_cross-" : "tiny-") + config_.size;
}

void TinyBackbone::save(const std::string& path) const {
  NamedTensors tensors;
  for (const auto& [name, weight] : named_weights())
    tensors.emplace_back(name, weight.detach().to(at::kCPU, at::kBFloat16));
  const auto& v = config_.vision;
  const auto& t = config_.text;
  const nlohmann::json config = {{"size", config_.size},
                                 {"vision", {v.image, v.patch, v.layers, v.width, v.heads, v.mlp}},
                                 {"text", {t.layers, t.width, t.heads, t.kv_heads, t.mlp}}};
  save_tensors(path, tensors,
               {{"asr_backbone", t.cross ? "tiny_cross" : "tiny"},
                {"config", config.dump()},
                {"vocabulary", nlohmann::json(tokenizer_.pieces()).dump()}});
}

namespace {

TinyConfig read_config(const Safetensors& file, bool cross) {
  const auto config = metadata_json(file, "config");
  const auto numbers = [&](const char* key, size_t count) {
    check(config.is_object() && config.contains(key) && config[key].is_array() && config[key].size() == count,
          file.path, ": config lacks '", key, "'");
    for (const auto& value : config[key])
      check(value.is_number_integer() && value > 0 && value < 100000, file.path, ": config '", key,
            "' holds a size that cannot be");
    return config[key].get<std::vector<int64_t>>();
  };
  TinyConfig c;
  const auto v = numbers("vision", 6), t = numbers("text", 5);
  c.vision = {v[0], v[1], v[2], v[3], v[4], v[5]};
  c.text.layers = t[0];
  c.text.width = t[1];
  c.text.heads = t[2];
  c.text.kv_heads = t[3];
  c.text.mlp = t[4];
  c.text.cross = cross;
  c.size = config.contains("size") && config["size"].is_string() ? config["size"].get<std::string>() : "custom";
  check(c.vision.image % c.vision.patch == 0 && c.vision.width % c.vision.heads == 0 &&
            c.text.width % c.text.heads == 0 && c.text.heads % c.text.kv_heads == 0,
        file.path, ": config does not divide: patches, heads");
  return c;
}

WordTokenizer read_vocabulary(const Safetensors& file) {
  const auto pieces = metadata_json(file, "vocabulary");
  check(pieces.is_array(), file.path, ": 'vocabulary' is no list");
  std::vector<std::string> list;
  for (const auto& piece : pieces) {
    check(piece.is_string(), file.path, ": 'vocabulary' holds something that is no text");
    list.push_back(piece.get<std::string>());
  }
  return WordTokenizer::from_pieces(std::move(list), file.path);
}

}  // namespace

std::unique_ptr<TinyBackbone> TinyBackbone::load(const std::string& path) {
  const auto file = read_safetensors(path);
  const auto kind = file.metadata.find("asr_backbone");
  check(kind != file.metadata.end() && (kind->second == "tiny" || kind->second == "tiny_cross"), path,
        ": is no tiny backbone; make one with 'asr pretrain'");
  verify_checksum(file);
  auto m = std::make_unique<TinyBackbone>();
  m->config_ = read_config(file, kind->second == "tiny_cross");
  m->tokenizer_ = read_vocabulary(file);
  m->config_.vocabulary = m->tokenizer_.size();
  size_t used = 0;
  visit(*m, [&](const std::string& name, torch::Tensor& weight, const std::vector<int64_t>& shape) {
    weight = load_tensor(file, name).to(at::kFloat);
    check(weight.sizes() == at::IntArrayRef(shape), path, ": '", name, "' has shape ", shape_text(weight.sizes()),
          "; expected ", shape_text(shape));
    ++used;
  });
  check(used == file.tensors.size(), path, ": holds ", file.tensors.size() - used,
        " tensors that this backbone has no place for");
  return m;
}

void TinyBackbone::configure(const BackboneOptions& options) {
  check(options.geometry_layer <= config_.text.layers, "geometry.layer=", options.geometry_layer, " but ", name(),
        " has ", config_.text.layers, " layers");
  check(options.recipe == "native", "recipe=", options.recipe, " is for Hugging Face models; ", name(),
        " has one prompt");
  check(!options.text_weighted_queries, "attention.qformer_rows=text, but ", name(), " has no Q-Former");
  check(!options.recompute || !config_.text.cross, "gradient_checkpointing=yes is not there for ", name());
  options_ = options;
}

void TinyBackbone::to(at::Device device) {
  visit(*this,
        [&](const std::string&, torch::Tensor& weight, const std::vector<int64_t>&) { weight = weight.to(device); });
}

std::vector<AdapterSite> TinyBackbone::all_sites() {
  auto out = vision_.sites("vision.");
  out.push_back({"projector.in", &projector_in_, SitePart::projector});
  out.push_back({"projector.out", &projector_out_, SitePart::projector});
  for (size_t i = 0; i < decoder_.layers.size(); ++i) {
    auto& l = decoder_.layers[i];
    const auto prefix = cat("layers.", i, ".");
    const auto layer = static_cast<int64_t>(i);
    add_sites(out, prefix, layer,
              {{"q", &l.q, SitePart::q}, {"k", &l.k, SitePart::k}, {"v", &l.v, SitePart::v}, {"o", &l.o, SitePart::o}});
    if (config_.text.cross)
      add_sites(out, prefix, layer,
                {{"cross.q", &l.cross.q, SitePart::cross_q},
                 {"cross.k", &l.cross.k, SitePart::cross_k},
                 {"cross.v", &l.cross.v, SitePart::cross_v},
                 {"cross.o", &l.cross.o, SitePart::cross_o}});
    add_sites(out, prefix, layer,
              {{"gate", &l.gate, SitePart::gate}, {"up", &l.up, SitePart::up}, {"down", &l.down, SitePart::down}});
  }
  return out;
}

}  // namespace asr
