// The vision towers against plain computations in double of the same formulas, on small random models.
#include <gtest/gtest.h>

#include "nn/clip_vit.h"
#include "nn/eva_vit.h"
#include "nn/intern_vit.h"
#include "tests/support/random_model.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

using nlohmann::json;

constexpr int64_t width = 16, heads = 2, inner = 24;

// Patches of 4 x 4 by a convolution, and the class token before them.
torch::Tensor plain_embedding(const RandomModel& model, const torch::Tensor& pixels, const std::string& patches,
                              const std::string& first) {
  const auto bias = model.has(patches + ".bias") ? model[patches + ".bias"] : torch::Tensor();
  const auto cut = at::conv2d(pixels.to(at::kDouble), model[patches + ".weight"], bias, {4, 4});
  const auto token = model[first].view({1, 1, width}).expand({pixels.size(0), 1, width});
  return at::cat({token, cut.flatten(2).transpose(1, 2)}, 1);
}

// Every weight is visited once: moved to double, the tower computes in double.
template <class Tower>
int64_t to_double(Tower& tower) {
  int64_t visited = 0;
  tower.each([&](torch::Tensor& weight) {
    visited += weight.numel();
    weight = weight.to(at::kDouble);
  });
  return visited;
}

// ---- CLIP ---------------------------------------------------------------------------------------------------------

RandomModel clip_model() {
  RandomModel model(11);
  model.tensor("embeddings.class_embedding", {width});
  model.tensor("embeddings.patch_embedding.weight", {width, 3, 4, 4}, 0.15);
  model.tensor("embeddings.position_embedding.weight", {10, width});
  model.norm("pre_layrnorm", width);
  model.norm("post_layernorm", width);
  for (int i = 0; i < 3; ++i) {
    const auto at = "encoder.layers." + std::to_string(i) + ".";
    for (const auto* name : {"q_proj", "k_proj", "v_proj", "out_proj"})
      model.linear(at + "self_attn." + name, width, width);
    model.norm(at + "layer_norm1", width);
    model.norm(at + "layer_norm2", width);
    model.linear(at + "mlp.fc1", inner, width);
    model.linear(at + "mlp.fc2", width, inner);
  }
  return model;
}

json clip_config() {
  return {{"vision_config",
           {{"model_type", "clip_vision_model"},
            {"hidden_size", width},
            {"intermediate_size", inner},
            {"num_attention_heads", heads},
            {"num_hidden_layers", 3},
            {"image_size", 12},
            {"patch_size", 4}}}};
}

std::vector<torch::Tensor> plain_clip(const RandomModel& model, const torch::Tensor& pixels) {  // all hidden states
  auto x = plain_embedding(model, pixels, "embeddings.patch_embedding", "embeddings.class_embedding");
  x = model.layer_normed("pre_layrnorm", x + model["embeddings.position_embedding.weight"], 1e-5);
  std::vector<torch::Tensor> out = {x};
  for (int i = 0; i < 3; ++i) {
    const auto at = "encoder.layers." + std::to_string(i) + ".";
    const auto normed = model.layer_normed(at + "layer_norm1", x, 1e-5);
    const auto weights = plain_weights(model.apply(at + "self_attn.q_proj", normed),
                                       model.apply(at + "self_attn.k_proj", normed), heads);
    x = x + model.apply(at + "self_attn.out_proj", plain_mix(weights, model.apply(at + "self_attn.v_proj", normed)));
    const auto up = model.apply(at + "mlp.fc1", model.layer_normed(at + "layer_norm2", x, 1e-5));
    x = x + model.apply(at + "mlp.fc2", up / (1 + (-1.702 * up).exp()));
    out.push_back(x);
  }
  return out;
}

TEST(ClipVit, FeaturesAreTheHiddenStatesAskedFor) {
  const auto model = clip_model();
  const auto pixels = torch::randn({2, 3, 12, 12});
  const auto hidden = plain_clip(model, pixels);
  auto config = clip_config();
  const auto tower_of = [&] {
    const auto weights = model.weights();
    ClipVit tower(config, weights);
    weights.finish();  // layers that are not computed were taken too
    return tower;
  };
  auto tower = tower_of();  // default: the last but one, without the class token
  EXPECT_EQ(tower.layers.size(), 2u);
  EXPECT_EQ(tower.tokens(), 9);
  expect_close(tower(pixels, Pass()), hidden[2].slice(1, 1), 1e-5, "-2");
  config["vision_feature_layer"] = 3;
  config["vision_feature_select_strategy"] = "full";
  tower = tower_of();
  EXPECT_EQ(tower.tokens(), 10);
  expect_close(tower(pixels, Pass()), hidden[3], 1e-5, "3, full");
  config["vision_feature_layer"] = {-4, 2, -3};
  config["vision_feature_select_strategy"] = "default";
  tower = tower_of();
  EXPECT_EQ(tower.width(), 3 * width);
  EXPECT_EQ(tower.layers.size(), 2u);
  const auto expected = at::cat({hidden[0], hidden[2], hidden[1]}, 2).slice(1, 1);
  expect_close(tower(pixels, Pass()), expected, 1e-5, "a list");
}

TEST(ClipVit, MovesAndComputesInTheTypeOfItsInput) {
  const auto model = clip_model();
  auto config = clip_config();
  config["vision_feature_layer"] = -1;
  ClipVit tower(config, model.weights());
  const auto pixels = torch::randn({2, 3, 12, 12});
  const auto expected = plain_clip(model, pixels).back().slice(1, 1);
  const auto coarse = tower(pixels.to(at::kBFloat16), Pass());
  EXPECT_EQ(coarse.scalar_type(), at::kBFloat16);
  expect_close(coarse, expected, 0.05, "bfloat16");
  EXPECT_EQ(to_double(tower), model.size() - 2 * width);  // all but post_layernorm
  const auto fine = tower(pixels.to(at::kDouble), Pass());
  EXPECT_EQ(fine.scalar_type(), at::kDouble);
  expect_close(fine, expected, 1e-12, "double");
}

TEST(ClipVit, RefusesWhatItCannotCompute) {
  auto model = clip_model();
  const auto refused = [&](json config) { return error_of([&] { ClipVit(config, model.weights()); }); };
  auto config = clip_config();
  config["vision_feature_layer"] = 4;
  EXPECT_CONTAINS(refused(config), "'vision_feature_layer' names layer 4, but the tower has 3");
  config["vision_feature_layer"] = json::array();
  EXPECT_CONTAINS(refused(config), "empty list");
  config["vision_feature_layer"] = -1;
  config["vision_feature_select_strategy"] = "first";
  EXPECT_CONTAINS(refused(config), "use default or full");
  config = clip_config();
  config["vision_config"]["model_type"] = "siglip_vision_model";
  EXPECT_CONTAINS(refused(config), "siglip_vision_model");
  config = clip_config();
  config["vision_config"]["hidden_act"] = "mish";
  EXPECT_CONTAINS(refused(config), "activation 'mish'");
  config = clip_config();
  config["vision_config"]["num_attention_heads"] = 0;
  EXPECT_CONTAINS(refused(config), "'vision_config.num_attention_heads' must be a whole number from 1");
  config = clip_config();
  config["vision_config"]["hidden_size"] = 15;
  EXPECT_CONTAINS(refused(config), "no multiple of num_attention_heads");
  EXPECT_CONTAINS(refused(json::object()), "'vision_config' is missing");
  const ClipVit tower(clip_config(), model.weights());
  EXPECT_CONTAINS(error_of([&] { tower(torch::zeros({1, 3, 8, 8}), Pass()); }), "not of the tower's size 12 x 12");
  model.remove("encoder.layers.2.mlp.fc2.bias");  // of a layer that is never computed
  EXPECT_CONTAINS(refused(clip_config()), "'encoder.layers.2.mlp.fc2.bias' is missing");
}

// ---- InternVL -----------------------------------------------------------------------------------------------------

RandomModel intern_model(bool rich) {  // rich: RMS norms, norms of queries and keys, no biases, a norm at the end
  RandomModel model(12);
  model.tensor("embeddings.cls_token", {1, 1, width});
  model.tensor("embeddings.patch_embeddings.projection.weight", {width, 3, 4, 4}, 0.15);
  model.tensor("embeddings.patch_embeddings.projection.bias", {width});
  model.tensor("embeddings.position_embeddings", {1, 17, width});
  if (rich) model.norm("layernorm", width);
  for (int i = 0; i < 2; ++i) {
    const auto at = "encoder.layer." + std::to_string(i) + ".";
    for (const auto* name : {"q_proj", "k_proj", "v_proj"}) model.linear(at + "attention." + name, width, width, !rich);
    model.linear(at + "attention.projection_layer", width, width);
    if (rich) {
      model.norm(at + "attention.q_norm", width, false);
      model.norm(at + "attention.k_norm", width, false);
    }
    model.norm(at + "layernorm_before", width, !rich);
    model.norm(at + "layernorm_after", width, !rich);
    model.tensor(at + "lambda_1", {width});
    model.tensor(at + "lambda_2", {width});
    model.linear(at + "mlp.fc1", inner, width);
    model.linear(at + "mlp.fc2", width, inner);
  }
  return model;
}

json intern_config(bool rich) {
  return {{"downsample_ratio", 0.5},
          {"vision_config",
           {{"hidden_size", width},
            {"intermediate_size", inner},
            {"num_attention_heads", heads},
            {"num_hidden_layers", 2},
            {"image_size", {16, 16}},
            {"patch_size", {4, 4}},
            {"norm_type", rich ? "rms_norm" : "layer_norm"},
            {"use_qk_norm", rich},
            {"attention_bias", !rich},
            {"use_mean_pooling", !rich}}}};
}

torch::Tensor plain_intern(const RandomModel& model, const torch::Tensor& pixels, bool rich) {  // [B, h, w, width]
  const int64_t rows = pixels.size(2) / 4, columns = pixels.size(3) / 4;
  const auto positions = model["embeddings.position_embeddings"][0];
  const auto grid = plain_resize(positions.slice(0, 1).view({4, 4, width}), rows, columns).view({-1, width});
  auto x = plain_embedding(model, pixels, "embeddings.patch_embeddings.projection", "embeddings.cls_token") +
           at::cat({positions.slice(0, 0, 1), grid}, 0);
  const auto normed = [&](const std::string& name) {
    return rich ? model.rms_normed(name, x, 1e-6) : model.layer_normed(name, x, 1e-6);
  };
  for (int i = 0; i < 2; ++i) {
    const auto at = "encoder.layer." + std::to_string(i) + ".";
    const auto in = normed(at + "layernorm_before");
    auto q = model.apply(at + "attention.q_proj", in), k = model.apply(at + "attention.k_proj", in);
    if (rich) {
      q = model.rms_normed(at + "attention.q_norm", q, 1e-6);
      k = model.rms_normed(at + "attention.k_norm", k, 1e-6);
    }
    const auto mixed = plain_mix(plain_weights(q, k, heads), model.apply(at + "attention.v_proj", in));
    x = x + model[at + "lambda_1"] * model.apply(at + "attention.projection_layer", mixed);
    const auto up = RandomModel::gelu(model.apply(at + "mlp.fc1", normed(at + "layernorm_after")));
    x = x + model[at + "lambda_2"] * model.apply(at + "mlp.fc2", up);
  }
  if (rich) x = model.layer_normed("layernorm", x, 1e-6);
  return x.slice(1, 1).view({x.size(0), rows, columns, width});
}

TEST(InternVit, FoldsBlocksOfPatches) {
  const auto x = torch::randn({2, 6, 9, 5});
  const auto folded = fold_blocks(x, 3);
  ASSERT_EQ(folded.sizes(), at::IntArrayRef({2, 2, 3, 45}));
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t row = 0; row < 6; ++row)
      for (int64_t column = 0; column < 9; ++column)
        for (int64_t c = 0; c < 5; ++c)
          EXPECT_EQ(folded[b][row / 3][column / 3][((row % 3) * 3 + column % 3) * 5 + c].item<float>(),
                    x[b][row][column][c].item<float>());
  // The shuffle as the papers write it: two reshapes with a transposition after each, here for blocks of two.
  const auto y = torch::randn({1, 4, 6, 8});
  const auto half = y.view({1, 4, 3, 16}).permute({0, 2, 1, 3}).contiguous();
  EXPECT_TRUE(fold_blocks(y, 2).equal(half.view({1, 3, 2, 32}).permute({0, 2, 1, 3})));
  EXPECT_CONTAINS(error_of([&] { fold_blocks(y, 4); }), "4 x 6 patches cannot be folded in blocks of 4");
}

TEST(InternVit, EqualsThePlainFormula) {
  for (const bool rich : {false, true}) {
    const auto model = intern_model(rich);
    const auto weights = model.weights();
    InternVit tower(intern_config(rich), weights);
    weights.finish();
    for (const auto& size : {std::vector<int64_t>{2, 3, 16, 16}, {1, 3, 8, 24}, {1, 3, 24, 32}}) {
      const auto pixels = torch::randn(size);
      const auto expected = fold_blocks(plain_intern(model, pixels, rich), 2).flatten(1, 2);
      expect_close(tower(pixels, Pass()), expected, 1e-5, rich ? "rich" : "simple");
    }
    const auto pixels = torch::randn({1, 3, 16, 16});
    const auto expected = fold_blocks(plain_intern(model, pixels, rich), 2).flatten(1, 2);
    expect_close(tower(pixels.to(at::kBFloat16), Pass()), expected, 0.05, "bfloat16");
    EXPECT_EQ(to_double(tower), model.size());
    expect_close(tower(pixels.to(at::kDouble), Pass()), expected, 1e-12, "double");
  }
}

TEST(InternVit, RefusesWhatItCannotCompute) {
  const auto model = intern_model(false);
  auto config = intern_config(false);
  const auto refused = [&] { return error_of([&] { InternVit(config, model.weights()); }); };
  config["downsample_ratio"] = 0.3;
  EXPECT_CONTAINS(refused(), "'downsample_ratio' is 0.3");
  config["downsample_ratio"] = 0.5;
  config["vision_feature_select_strategy"] = "full";
  EXPECT_CONTAINS(refused(), "needs the grid alone");
  config = intern_config(false);
  config["vision_feature_layer"] = {1, 2};
  EXPECT_CONTAINS(refused(), "one number for this family");
  config = intern_config(false);
  config["vision_config"]["norm_type"] = "batch";
  EXPECT_CONTAINS(refused(), "use layer_norm or rms_norm");
}

// ---- EVA ----------------------------------------------------------------------------------------------------------

RandomModel eva_model(bool qkv_bias) {
  RandomModel model(13);
  model.tensor("embeddings.class_embedding", {1, 1, width});
  model.tensor("embeddings.patch_embedding.weight", {width, 3, 4, 4}, 0.15);
  model.tensor("embeddings.patch_embedding.bias", {width});
  model.tensor("embeddings.position_embedding", {1, 10, width});
  model.norm("post_layernorm", width);
  for (int i = 0; i < 2; ++i) {
    const auto at = "encoder.layers." + std::to_string(i) + ".";
    model.linear(at + "self_attn.qkv", 3 * width, width, qkv_bias);
    model.linear(at + "self_attn.projection", width, width);
    model.norm(at + "layer_norm1", width);
    model.norm(at + "layer_norm2", width);
    model.linear(at + "mlp.fc1", inner, width);
    model.linear(at + "mlp.fc2", width, inner);
  }
  return model;
}

json eva_config(bool qkv_bias) {
  return {{"vision_config",
           {{"hidden_size", width},
            {"intermediate_size", inner},
            {"num_attention_heads", heads},
            {"num_hidden_layers", 2},
            {"image_size", 12},
            {"patch_size", 4},
            {"qkv_bias", qkv_bias}}}};
}

torch::Tensor plain_eva(const RandomModel& model, const torch::Tensor& pixels) {
  const int64_t rows = pixels.size(2) / 4, columns = pixels.size(3) / 4;
  const auto positions = model["embeddings.position_embedding"][0];
  const auto grid = plain_resize(positions.slice(0, 1).view({3, 3, width}), rows, columns).view({-1, width});
  auto x = plain_embedding(model, pixels, "embeddings.patch_embedding", "embeddings.class_embedding") +
           at::cat({positions.slice(0, 0, 1), grid}, 0);
  for (int i = 0; i < 2; ++i) {
    const auto at = "encoder.layers." + std::to_string(i) + ".";
    const auto qkv = model.apply(at + "self_attn.qkv", model.layer_normed(at + "layer_norm1", x, 1e-6));
    const auto part = [&](int64_t which) { return qkv.narrow(2, which * width, width).contiguous(); };
    x = x + model.apply(at + "self_attn.projection", plain_mix(plain_weights(part(0), part(1), heads), part(2)));
    const auto up = RandomModel::gelu(model.apply(at + "mlp.fc1", model.layer_normed(at + "layer_norm2", x, 1e-6)));
    x = x + model.apply(at + "mlp.fc2", up);
  }
  return model.layer_normed("post_layernorm", x, 1e-6);
}

TEST(EvaVit, EqualsThePlainFormula) {
  for (const bool qkv_bias : {true, false}) {
    const auto model = eva_model(qkv_bias);
    const auto weights = model.weights();
    EvaVit tower(eva_config(qkv_bias), weights);
    weights.finish();
    const auto pixels = torch::randn({2, 3, 12, 12}), oblong = torch::randn({1, 3, 8, 20});
    expect_close(tower(pixels, Pass()), plain_eva(model, pixels), 1e-5, "float");
    expect_close(tower(oblong, Pass(), /*interpolate=*/true), plain_eva(model, oblong), 1e-5, "another size");
    EXPECT_CONTAINS(error_of([&] { tower(oblong, Pass()); }), "not of the tower's size 12 x 12");
    expect_close(tower(pixels.to(at::kBFloat16), Pass()), plain_eva(model, pixels), 0.05, "bfloat16");
    EXPECT_EQ(to_double(tower), model.size());
    expect_close(tower(pixels.to(at::kDouble), Pass()), plain_eva(model, pixels), 1e-12, "double");
  }
}

// ---- devices --------------------------------------------------------------------------------------------------------

template <class Tower>
void expect_same_on_devices(Tower tower, const torch::Tensor& pixels) {
  const auto expected = tower(pixels, Pass());
  for (const auto& device : devices()) {
    tower.each([&](torch::Tensor& weight) { weight = weight.to(device); });
    expect_close(tower(pixels.to(device), Pass()), expected, 1e-4, device.str());
    const auto coarse = tower(pixels.to(device, at::kBFloat16), Pass());
    EXPECT_EQ(coarse.scalar_type(), at::kBFloat16);
    EXPECT_EQ(coarse.device().type(), device.type());
    expect_close(coarse, expected, 0.05, device.str() + ", bfloat16");
  }
}

TEST(VisionTowers, ComputeTheSameOnEveryDevice) {
  expect_same_on_devices(ClipVit(clip_config(), clip_model().weights()), torch::randn({2, 3, 12, 12}));
  expect_same_on_devices(EvaVit(eva_config(true), eva_model(true).weights()), torch::randn({2, 3, 12, 12}));
  for (const bool rich : {false, true})
    expect_same_on_devices(InternVit(intern_config(rich), intern_model(rich).weights()), torch::randn({1, 3, 8, 24}));
}

}  // namespace
}  // namespace asr
