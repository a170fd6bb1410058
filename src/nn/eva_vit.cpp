#include "nn/eva_vit.h"

#include <algorithm>

#include "base/error.h"
#include "nn/adapter_sites.h"
#include "nn/attention.h"

namespace asr {
namespace {

TowerShape eva_defaults() {
  TowerShape out;
  out.image = {224, 224};
  out.patch = {14, 14};
  out.width = 1408;
  out.layers = 39;
  out.heads = 16;
  out.mlp = 6144;
  out.eps = 1e-6;
  return out;
}

EvaLayer take_layer(Weights weights, const TowerShape& shape, bool qkv_bias) {
  const int64_t width = shape.width;
  EvaLayer out;
  out.attention_norm = weights.layer_norm("layer_norm1", width, shape.eps);
  out.mlp_norm = weights.layer_norm("layer_norm2", width, shape.eps);
  out.qkv = weights.linear("self_attn.qkv", 3 * width, width, qkv_bias);
  out.o = weights.linear("self_attn.projection", width, width, true);
  out.mlp = take_mlp(weights, "mlp.fc1", "mlp.fc2", {width, shape.mlp, shape.activation});
  return out;
}

}  // namespace

EvaVit::EvaVit(const nlohmann::json& json, Weights weights) {
  const auto vision = ModelConfig(json, "config.json").part("vision_config");
  shape = read_tower_shape(vision, eva_defaults());
  const int64_t width = shape.width;
  class_token = weights.take("embeddings.class_embedding", {1, 1, width}).view({width});
  patches = take_patch_embedding(weights, "embeddings.patch_embedding", shape, /*bias=*/true);
  const int64_t places = 1 + shape.rows() * shape.columns();
  positions = weights.take("embeddings.position_embedding", {1, places, width}).view({places, width});
  const bool qkv_bias = vision.flag("qkv_bias", true);
  for (int64_t i = 0; i < shape.layers; ++i)
    layers.push_back(take_layer(weights.below("encoder.layers." + std::to_string(i) + "."), shape, qkv_bias));
  final_norm = weights.layer_norm("post_layernorm", width, shape.eps);
}

torch::Tensor EvaVit::operator()(const torch::Tensor& pixels, const Pass& pass, bool interpolate) const {
  auto x = embed_patches(pixels, patches, class_token, shape, pass);
  const int64_t rows = pixels.size(2) / shape.patch[0], columns = pixels.size(3) / shape.patch[1];
  check(interpolate || (rows == shape.rows() && columns == shape.columns()), "pixels ", pixels.sizes(),
        " are not of the tower's size ", shape.image[0], " x ", shape.image[1],
        "; is preprocessor_config.json of this checkpoint?");
  x = x + resize_positions(positions, shape.rows(), shape.columns(), rows, columns).to(x.scalar_type());
  for (const auto& l : layers) {
    const auto qkv = l.qkv(l.attention_norm(x), pass).chunk(3, -1);
    const auto mixed = attend_all(split_heads(qkv[0], shape.heads), split_heads(qkv[1], shape.heads),
                                  split_heads(qkv[2], shape.heads));
    x = x + l.o(join_heads(mixed), pass);
    x = x + l.mlp(l.mlp_norm(x), pass);
  }
  return final_norm(x);
}

std::vector<AdapterSite> EvaVit::sites(const std::string& prefix) {
  std::vector<AdapterSite> out;
  for (size_t i = 0; i < layers.size(); ++i) {
    auto& l = layers[i];
    add_sites(out, cat(prefix, "encoder.layers.", i, "."), static_cast<int64_t>(i),
              {{"self_attn.qkv", &l.qkv, SitePart::vision}, {"self_attn.projection", &l.o, SitePart::vision}});
  }
  return out;
}

bool EvaVit::adapted() const {
  return std::any_of(layers.begin(), layers.end(), [](const auto& l) { return any_adapted({&l.qkv, &l.o}); });
}

}  // namespace asr
