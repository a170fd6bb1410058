// CLIP's text tower against a plain computation in double of the same formulas, on a small random model.
#include <gtest/gtest.h>

#include "nn/clip_text.h"
#include "tests/support/random_model.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

using nlohmann::json;

constexpr int64_t width = 12, heads = 3, inner = 20, vocabulary = 30, longest = 7, layer_count = 2;

RandomModel text_model() {
  RandomModel model(21);
  model.tensor("embeddings.token_embedding.weight", {vocabulary, width});
  model.tensor("embeddings.position_embedding.weight", {longest, width});
  model.norm("final_layer_norm", width);
  for (int64_t i = 0; i < layer_count; ++i) {
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

json text_config(int64_t end_token, const std::string& activation) {
  return {{"text_config",
           {{"hidden_size", width},
            {"intermediate_size", inner},
            {"num_attention_heads", heads},
            {"num_hidden_layers", layer_count},
            {"vocab_size", vocabulary},
            {"max_position_embeddings", longest},
            {"hidden_act", activation},
            {"eos_token_id", end_token}}}};
}

// Of one text: the state of its token `place`.
torch::Tensor plain_text(const RandomModel& model, const std::vector<int64_t>& ids, int64_t place, bool quick) {
  const auto count = static_cast<int64_t>(ids.size());
  auto x = model["embeddings.token_embedding.weight"].index_select(0, torch::tensor(ids, at::kLong)).unsqueeze(0) +
           model["embeddings.position_embedding.weight"].narrow(0, 0, count);
  const auto later = torch::ones({count, count}, at::kBool).triu(1);
  for (int64_t i = 0; i < layer_count; ++i) {
    const auto at = "encoder.layers." + std::to_string(i) + ".";
    const auto normed = model.layer_normed(at + "layer_norm1", x, 1e-5);
    const auto weights = plain_weights(model.apply(at + "self_attn.q_proj", normed),
                                       model.apply(at + "self_attn.k_proj", normed), heads, later);
    x = x + model.apply(at + "self_attn.out_proj", plain_mix(weights, model.apply(at + "self_attn.v_proj", normed)));
    const auto up = model.apply(at + "mlp.fc1", model.layer_normed(at + "layer_norm2", x, 1e-5));
    x = x + model.apply(at + "mlp.fc2", quick ? up / (1 + (-1.702 * up).exp()) : RandomModel::gelu(up));
  }
  return model.layer_normed("final_layer_norm", x, 1e-5).select(1, place);
}

ClipText tower_of(const RandomModel& model, int64_t end_token, const std::string& activation) {
  auto weights = model.weights();
  ClipText tower(text_config(end_token, activation), weights);
  weights.finish();  // every tensor was taken
  int64_t visited = 0;
  tower.each([&](torch::Tensor& weight) {
    visited += weight.numel();
    weight = weight.to(at::kDouble);
  });
  EXPECT_EQ(visited, model.size());
  return tower;
}

torch::Tensor ids_tensor(const std::vector<std::vector<int64_t>>& rows) {
  std::vector<torch::Tensor> out;
  for (const auto& row : rows) out.push_back(torch::tensor(row, at::kLong));
  return at::stack(out);
}

TEST(ClipText, IsReadAtItsFirstEndToken) {
  const auto model = text_model();
  const auto tower = tower_of(model, 25, "gelu");
  const auto out = tower(ids_tensor({{28, 3, 4, 25, 25, 25}, {28, 3, 25, 9, 29, 25}, {28, 7, 1, 2, 3, 25}}));
  expect_close(out.narrow(0, 0, 1), plain_text(model, {28, 3, 4, 25}, 3, false), 1e-12, "padding behind it");
  expect_close(out.narrow(0, 1, 1), plain_text(model, {28, 3, 25}, 2, false), 1e-12, "the first of two");
  expect_close(out.narrow(0, 2, 1), plain_text(model, {28, 7, 1, 2, 3, 25}, 5, false), 1e-12, "at the end");
}

TEST(ClipText, OldFilesReadItAtTheLargestToken) {
  const auto model = text_model();
  const auto tower = tower_of(model, 2, "quick_gelu");
  const auto out = tower(ids_tensor({{28, 2, 4, 29, 29}, {28, 3, 4, 5, 29}}));
  expect_close(out.narrow(0, 0, 1), plain_text(model, {28, 2, 4, 29}, 3, true), 1e-12, "the first of the largest");
  expect_close(out.narrow(0, 1, 1), plain_text(model, {28, 3, 4, 5, 29}, 4, true), 1e-12, "the last");
}

TEST(ClipText, BadTextsAndFiles) {
  const auto model = text_model();
  const auto tower = tower_of(model, 25, "gelu");
  EXPECT_CONTAINS(error_of([&] { tower(ids_tensor({{28, 3, 4}})); }), "a text without its end token 25");
  EXPECT_CONTAINS(error_of([&] { tower(ids_tensor({{1, 2, 3, 4, 5, 6, 7, 25}})); }), "takes at most 7");
  const auto error = [&](const std::function<void(json&)>& edit) {
    auto config = text_config(25, "gelu");
    edit(config["text_config"]);
    return error_of([&] { ClipText(config, model.weights()); });
  };
  EXPECT_CONTAINS(error([](json& c) { c["num_attention_heads"] = 5; }), "is no multiple of num_attention_heads");
  EXPECT_CONTAINS(error([](json& c) { c["hidden_size"] = 24; }), "where config.json asks for [30, 24]");
  EXPECT_CONTAINS(error([](json& c) { c["num_hidden_layers"] = 3; }),
                  "encoder.layers.2.layer_norm1.weight' is missing");
  EXPECT_CONTAINS(error([](json& c) { c["hidden_act"] = "mish"; }), "activation 'mish' is not supported");
  EXPECT_CONTAINS(error([](json& c) { c["model_type"] = "siglip_text_model"; }), "only clip_text_model is known");
  EXPECT_CONTAINS(error([](json& c) { c["max_position_embeddings"] = 1; }), "a text needs a place");
}

}  // namespace
}  // namespace asr
