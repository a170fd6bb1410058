#include "nn/intern_vit.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "nn/adapter_sites.h"
#include "nn/attention.h"

namespace asr {
namespace {

TowerShape intern_defaults() {
  TowerShape out;
  out.image = {448, 448};
  out.patch = {14, 14};
  out.width = 1024;
  out.layers = 24;
  out.heads = 16;
  out.mlp = 4096;
  out.eps = 1e-6;
  return out;
}

struct LayerKind {
  bool rms = false, qk_norm = false, attention_bias = false;
};

LayerKind read_kind(const ModelConfig& vision) {
  const auto norm = vision.text("norm_type", "layer_norm");
  check(norm == "layer_norm" || norm == "rms_norm", vision.name_of("norm_type"), " is '", norm,
        "'; use layer_norm or rms_norm");
  return {norm == "rms_norm", vision.flag("use_qk_norm", false), vision.flag("attention_bias", false)};
}

AnyNorm take_norm(Weights& weights, const std::string& name, const TowerShape& shape, bool rms) {
  if (rms) return weights.rms_norm(name, shape.width, shape.eps);
  return weights.layer_norm(name, shape.width, shape.eps);
}

InternLayer take_layer(Weights weights, const TowerShape& shape, const LayerKind& kind) {
  const int64_t width = shape.width;
  InternLayer out;
  out.attention_norm = take_norm(weights, "layernorm_before", shape, kind.rms);
  out.mlp_norm = take_norm(weights, "layernorm_after", shape, kind.rms);
  out.q = weights.linear("attention.q_proj", width, width, kind.attention_bias);
  out.k = weights.linear("attention.k_proj", width, width, kind.attention_bias);
  out.v = weights.linear("attention.v_proj", width, width, kind.attention_bias);
  out.o = weights.linear("attention.projection_layer", width, width, true);
  if (kind.qk_norm) {
    constexpr double eps = 1e-6;  // of these norms, whatever layer_norm_eps says
    out.q_norm = weights.rms_norm("attention.q_norm", width, eps);
    out.k_norm = weights.rms_norm("attention.k_norm", width, eps);
  }
  out.attention_scale = weights.take("lambda_1", {width});
  out.mlp_scale = weights.take("lambda_2", {width});
  out.mlp = take_mlp(weights, "mlp.fc1", "mlp.fc2", {width, shape.mlp, shape.activation});
  return out;
}

int64_t read_fold(const ModelConfig& config) {
  const double ratio = config.number("downsample_ratio", 0.5);
  const double fold = ratio > 0 && ratio <= 1 ? 1 / ratio : 0;
  check(fold >= 1 && std::abs(fold - std::round(fold)) < 1e-9, config.name_of("downsample_ratio"), " is ", ratio,
        "; it must be one over a whole number");
  return std::lround(fold);
}

int64_t read_feature_layer(const ModelConfig& config, int64_t layers) {
  const auto given = config.integers("vision_feature_layer", {-1});
  check(given.size() == 1, config.name_of("vision_feature_layer"), " must be one number for this family");
  const int64_t layer = given[0] < 0 ? given[0] + layers + 1 : given[0];
  check(layer >= 0 && layer <= layers, config.name_of("vision_feature_layer"), " names layer ", given[0],
        ", but the tower has ", layers);
  return layer;
}

torch::Tensor normed(const AnyNorm& norm, const torch::Tensor& x) {
  return std::visit([&](const auto& one) { return one(x); }, norm);
}

torch::Tensor run_layer(const InternLayer& l, torch::Tensor x, int64_t heads, const Pass& pass) {
  auto qkv = together({&l.q, &l.k, &l.v}, normed(l.attention_norm, x), pass);
  if (l.q_norm.weight.defined()) {
    qkv[0] = l.q_norm(qkv[0]);
    qkv[1] = l.k_norm(qkv[1]);
  }
  const auto mixed = attend_all(split_heads(qkv[0], heads), split_heads(qkv[1], heads), split_heads(qkv[2], heads));
  x = x + l.o(join_heads(mixed), pass) * l.attention_scale.to(x.scalar_type());
  return x + l.mlp(normed(l.mlp_norm, x), pass) * l.mlp_scale.to(x.scalar_type());
}

}  // namespace

InternVit::InternVit(const nlohmann::json& json, Weights weights) {
  const ModelConfig config(json, "config.json");
  const auto vision = config.part("vision_config");
  shape = read_tower_shape(vision, intern_defaults());
  fold = read_fold(config);
  feature_layer = read_feature_layer(config, shape.layers);
  const auto strategy = config.text("vision_feature_select_strategy", "default");
  check(strategy == "default", config.name_of("vision_feature_select_strategy"), " is '", strategy,
        "'; a pixel shuffle needs the grid alone (default)");

  const int64_t width = shape.width, places = 1 + shape.rows() * shape.columns();
  class_token = weights.take("embeddings.cls_token", {1, 1, width}).view({width});
  patches = take_patch_embedding(weights, "embeddings.patch_embeddings.projection", shape, /*bias=*/true);
  if (vision.flag("use_absolute_position_embeddings", true))
    positions = weights.take("embeddings.position_embeddings", {1, places, width}).view({places, width});
  if (vision.flag("use_mask_token", false)) weights.ignore("embeddings.mask_token");  // for pretraining alone
  const auto kind = read_kind(vision);
  for (int64_t i = 0; i < shape.layers; ++i) {
    auto layer = take_layer(weights.below("encoder.layer." + std::to_string(i) + "."), shape, kind);
    if (i < feature_layer) layers.push_back(std::move(layer));
  }
  if (!vision.flag("use_mean_pooling", true)) {
    auto norm = weights.layer_norm("layernorm", width, shape.eps);
    // The norm belongs to the tower's result, which is the last hidden state asked for as -1.
    if (config.integers("vision_feature_layer", {-1})[0] == -1) final_norm = norm;
  }
}

torch::Tensor InternVit::operator()(const torch::Tensor& pixels, const Pass& pass, torch::Tensor* states) const {
  auto x = embed_patches(pixels, patches, class_token, shape, pass);
  const int64_t rows = pixels.size(2) / shape.patch[0], columns = pixels.size(3) / shape.patch[1];
  if (positions.defined())
    x = x + resize_positions(positions, shape.rows(), shape.columns(), rows, columns).to(x.scalar_type());
  for (const auto& layer : layers) x = run_layer(layer, x, shape.heads, pass);
  if (final_norm.weight.defined()) x = final_norm(x);
  if (states) *states = x;
  const auto grid = x.slice(1, 1).reshape({x.size(0), rows, columns, shape.width});  // without the class token
  return fold_blocks(grid, fold).flatten(1, 2);
}

torch::Tensor fold_blocks(const torch::Tensor& x, int64_t fold) {
  const int64_t batch = x.size(0), rows = x.size(1), columns = x.size(2), width = x.size(3);
  check(rows % fold == 0 && columns % fold == 0, "a grid of ", rows, " x ", columns,
        " patches cannot be folded in blocks of ", fold, "; choose another image size");
  return x.reshape({batch, rows / fold, fold, columns / fold, fold, width})
      .permute({0, 1, 3, 2, 4, 5})
      .reshape({batch, rows / fold, columns / fold, fold * fold * width});
}

std::vector<AdapterSite> InternVit::sites(const std::string& prefix) {
  std::vector<AdapterSite> out;
  for (size_t i = 0; i < layers.size(); ++i) {
    auto& l = layers[i];
    add_sites(out, cat(prefix, "encoder.layer.", i, "."), static_cast<int64_t>(i),
              {{"attention.q_proj", &l.q, SitePart::vision},
               {"attention.k_proj", &l.k, SitePart::vision},
               {"attention.v_proj", &l.v, SitePart::vision},
               {"attention.projection_layer", &l.o, SitePart::vision}});
  }
  return out;
}

bool InternVit::adapted() const {
  return std::any_of(layers.begin(), layers.end(), [](const auto& l) { return any_adapted({&l.q, &l.k, &l.v, &l.o}); });
}

}  // namespace asr
