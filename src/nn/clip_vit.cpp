#include "nn/clip_vit.h"

#include <algorithm>

#include "base/error.h"
#include "nn/adapter_sites.h"

namespace asr {
namespace {

TowerShape clip_defaults() {
  TowerShape out;
  out.image = {224, 224};
  out.patch = {32, 32};
  out.width = 768;
  out.layers = 12;
  out.heads = 12;
  out.mlp = 3072;
  out.eps = 1e-5;
  out.activation = Activation::quick_gelu;
  return out;
}

// Negative numbers count from the end; the hidden states are one more than the layers.
std::vector<int64_t> feature_layers(const ModelConfig& config, int64_t layers) {
  auto out = config.integers("vision_feature_layer", {-2});
  check(!out.empty(), config.name_of("vision_feature_layer"), " is an empty list");
  for (auto& layer : out) {
    const int64_t given = layer;
    if (layer < 0) layer += layers + 1;
    check(layer >= 0 && layer <= layers, config.name_of("vision_feature_layer"), " names layer ", given,
          ", but the tower has ", layers);
  }
  return out;
}

}  // namespace

ClipVit::ClipVit(const nlohmann::json& json, Weights weights) {
  const ModelConfig config(json, "config.json");
  const auto vision = config.part("vision_config");
  const auto type = vision.text("model_type", "clip_vision_model");
  check(type == "clip_vision_model", vision.name_of("model_type"), " is '", type,
        "'; only LLaVA models with a CLIP vision tower (clip_vision_model) are supported");
  shape = read_tower_shape(vision, clip_defaults());
  features = feature_layers(config, shape.layers);
  const auto strategy = config.text("vision_feature_select_strategy", "default");
  check(strategy == "default" || strategy == "full", config.name_of("vision_feature_select_strategy"), " is '",
        strategy, "'; use default or full");
  keep_class = strategy == "full";

  const int64_t width = shape.width;
  class_token = weights.take("embeddings.class_embedding", {width});
  patches = take_patch_embedding(weights, "embeddings.patch_embedding", shape, /*bias=*/false);
  positions = weights.take("embeddings.position_embedding.weight", {1 + shape.rows() * shape.columns(), width});
  weights.ignore("embeddings.position_ids");  // 0, 1, 2, ... in files of older versions
  first_norm = weights.layer_norm("pre_layrnorm", width, shape.eps);
  const ClipLayerShape layer_shape{width, shape.heads, shape.mlp, shape.eps, shape.activation};
  const int64_t needed = *std::max_element(features.begin(), features.end());
  for (int64_t i = 0; i < shape.layers; ++i) {
    auto layer = take_clip_layer(weights.below("encoder.layers." + std::to_string(i) + "."), layer_shape);
    if (i < needed) layers.push_back(std::move(layer));
  }
  weights.layer_norm("post_layernorm", width, shape.eps);  // only the pooled class token would go through it
}

torch::Tensor ClipVit::operator()(const torch::Tensor& pixels, const Pass& pass, torch::Tensor* states) const {
  check(pixels.dim() == 4 && pixels.size(2) == shape.image[0] && pixels.size(3) == shape.image[1], "pixels ",
        pixels.sizes(), " are not of the tower's size ", shape.image[0], " x ", shape.image[1],
        "; is preprocessor_config.json of this checkpoint?");
  auto x = embed_patches(pixels, patches, class_token, shape, pass);
  x = first_norm(x + positions.to(x.scalar_type()));
  std::vector<torch::Tensor> hidden = {x};
  for (const auto& l : layers) {
    x = l(x, /*causal=*/false, pass);
    hidden.push_back(x);
  }
  if (states) *states = x;
  std::vector<torch::Tensor> chosen;
  for (const int64_t layer : features) {
    const auto& state = hidden[static_cast<size_t>(layer)];
    chosen.push_back(keep_class ? state : state.slice(1, 1));
  }
  return at::cat(chosen, 2);
}

std::vector<AdapterSite> ClipVit::sites(const std::string& prefix) {
  std::vector<AdapterSite> out;
  for (size_t i = 0; i < layers.size(); ++i) {
    auto& l = layers[i];
    add_sites(out, cat(prefix, "encoder.layers.", i, "."), static_cast<int64_t>(i),
              {{"self_attn.q_proj", &l.q, SitePart::vision},
               {"self_attn.k_proj", &l.k, SitePart::vision},
               {"self_attn.v_proj", &l.v, SitePart::vision},
               {"self_attn.out_proj", &l.o, SitePart::vision}});
  }
  return out;
}

bool ClipVit::adapted() const {
  return std::any_of(layers.begin(), layers.end(), [](const auto& l) { return any_adapted({&l.q, &l.k, &l.v, &l.o}); });
}

}  // namespace asr
