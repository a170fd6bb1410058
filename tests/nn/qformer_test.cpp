// The Q-Former against a plain computation in double, its taps and its adapters.
#include "nn/qformer.h"

#include <gtest/gtest.h>

#include "nn/adapter_sites.h"
#include "tests/support/random_model.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

using nlohmann::json;

constexpr int64_t width = 12, heads = 3, inner = 20, image_width = 10, queries = 4, depth = 3;
constexpr double eps = 1e-12;

RandomModel qformer_model() {
  RandomModel model(21);
  model.tensor("query_tokens", {1, queries, width}, 1);
  model.tensor("qformer.embeddings.word_embeddings.weight", {30, width}, 1);
  model.tensor("qformer.embeddings.position_embeddings.weight", {8, width}, 1);
  model.norm("qformer.embeddings.layernorm", width);
  for (int64_t i = 0; i < depth; ++i) {
    const auto at = "qformer.encoder.layer." + std::to_string(i) + ".";
    const auto attention = [&](const std::string& name, int64_t memory) {
      model.linear(at + name + ".attention.query", width, width);
      model.linear(at + name + ".attention.key", width, memory);
      model.linear(at + name + ".attention.value", width, memory);
      model.linear(at + name + ".output.dense", width, width);
      model.norm(at + name + ".output.LayerNorm", width);
    };
    attention("attention", width);
    if (i % 2 == 0) attention("crossattention", image_width);
    for (const std::string which : {"", "_query"}) {
      model.linear(at + "intermediate" + which + ".dense", inner, width);
      model.linear(at + "output" + which + ".dense", width, inner);
      model.norm(at + "output" + which + ".LayerNorm", width);
    }
  }
  return model;
}

json qformer_config() {
  return {{"num_query_tokens", queries},
          {"qformer_config",
           {{"hidden_size", width},
            {"num_attention_heads", heads},
            {"num_hidden_layers", depth},
            {"intermediate_size", inner},
            {"encoder_hidden_size", image_width},
            {"vocab_size", 30},
            {"max_position_embeddings", 8},
            {"cross_attention_frequency", 2}}}};
}

struct Input {
  torch::Tensor image = torch::randn({2, 7, image_width});
  torch::Tensor ids = torch::tensor({{3, 7, 29, 1, 5}, {8, 2, 4, 0, 0}});
  torch::Tensor mask = torch::tensor({{1, 1, 1, 1, 1}, {1, 1, 1, 0, 0}});
  torch::Tensor visible() const { return at::cat({torch::ones({2, queries}, at::kLong), mask}, 1).to(at::kBool); }
};

struct Plain {
  torch::Tensor out;
  std::vector<torch::Tensor> self, cross;  // attention weights
};

Plain plain_qformer(const RandomModel& model, const Input& input) {
  Plain result;
  const auto words = model["qformer.embeddings.word_embeddings.weight"].index_select(0, input.ids.flatten());
  const auto text = words.view({2, 5, width}) + model["qformer.embeddings.position_embeddings.weight"].slice(0, 0, 5);
  auto x = at::cat({model["query_tokens"].expand({2, queries, width}), text}, 1);
  x = model.layer_normed("qformer.embeddings.layernorm", x, eps);
  const auto hidden = input.visible().logical_not().view({2, 1, 1, -1});
  const auto image = input.image.to(at::kDouble);
  for (int64_t i = 0; i < depth; ++i) {
    const auto at = "qformer.encoder.layer." + std::to_string(i) + ".";
    const auto attention = [&](const std::string& name, const torch::Tensor& from, const torch::Tensor& memory,
                               const torch::Tensor& unseen, std::vector<torch::Tensor>& kept) {
      const auto q = model.apply(at + name + ".attention.query", from).contiguous();
      kept.push_back(plain_weights(q, model.apply(at + name + ".attention.key", memory), heads, unseen));
      const auto mixed = plain_mix(kept.back(), model.apply(at + name + ".attention.value", memory));
      return model.layer_normed(at + name + ".output.LayerNorm", model.apply(at + name + ".output.dense", mixed) + from,
                                eps);
    };
    x = attention("attention", x, x, hidden, result.self);
    auto first = x.slice(1, 0, queries);
    if (i % 2 == 0) first = attention("crossattention", first, image, {}, result.cross);
    const auto feed_forward = [&](const std::string& which, const torch::Tensor& from) {
      const auto up = model.apply(at + "intermediate" + which + ".dense", from);
      const auto active = RandomModel::gelu(up);
      return model.layer_normed(at + "output" + which + ".LayerNorm",
                                model.apply(at + "output" + which + ".dense", active) + from, eps);
    };
    x = at::cat({feed_forward("_query", first), feed_forward("", x.slice(1, queries))}, 1);
  }
  result.out = x;
  return result;
}

TEST(QFormer, EqualsThePlainFormula) {
  const auto model = qformer_model();
  const auto weights = model.weights();
  QFormer former(qformer_config(), weights);
  weights.finish();
  EXPECT_EQ(former.cross_attentions(), 2);
  const Input input;
  const auto plain = plain_qformer(model, input);
  expect_close(former(input.image, input.ids, input.mask, Pass()), plain.out, 1e-5, "float");
  // Words that are not seen change nothing for the others.
  auto other = input.ids.clone();
  other[1][3] = 17;
  other[1][4] = 18;
  const auto changed = former(input.image, other, input.mask, Pass());
  const auto seen = input.visible().to(at::kFloat).unsqueeze(-1);
  expect_close(changed * seen, plain.out * seen, 1e-5, "padding");
  expect_close(former(input.image.to(at::kBFloat16), input.ids, input.mask, Pass()), plain.out, 0.05, "bfloat16");
  int64_t visited = 0;
  former.each([&](torch::Tensor& weight) {
    visited += weight.numel();
    weight = weight.to(at::kDouble);
  });
  EXPECT_EQ(visited, model.size());
  expect_close(former(input.image.to(at::kDouble), input.ids, input.mask, Pass()), plain.out, 1e-12, "double");
}

TEST(QFormer, TapsShowTheModelsOwnAttention) {
  const auto model = qformer_model();
  const QFormer former(qformer_config(), model.weights());
  const Input input;
  const auto plain = plain_qformer(model, input);
  TapRequest cross, self;
  cross.layers = {1};
  cross.rows = torch::tensor({{0, 1, 2, 3}, {3, 1, 0, -1}});
  cross.columns = at::arange(1, 7).expand({2, 6});  // without the class token
  self.layers = {0, 2};
  self.rows = torch::tensor({{4, 5, 6, 7, 8}, {4, 5, 6, -1, -1}});
  self.columns = at::arange(queries).expand({2, queries});
  TapResult crossed, selves;
  const auto tapped = former(input.image, input.ids, input.mask, Pass(), {&cross, &crossed, &self, &selves});
  EXPECT_TRUE(tapped.equal(former(input.image, input.ids, input.mask, Pass())));
  ASSERT_EQ(crossed.layers.size(), 1u);
  ASSERT_EQ(selves.layers.size(), 2u);

  auto expected = plain.cross[1].slice(3, 1).clone();
  expected[1] = expected[1].index_select(1, torch::tensor({3, 1, 0, 0}));
  expected[1].select(1, 3).zero_();
  expect_close(crossed.layers[0], expected, 1e-5, "queries to patches");
  EXPECT_LE(crossed.layers[0].sum(-1).max().item<double>(), 1.0);
  for (const size_t i : {0, 1}) {
    auto text = plain.self[2 * i].slice(2, queries).slice(3, 0, queries).clone();
    text[1].slice(1, 3).zero_();
    expect_close(selves.layers[i], text, 1e-5, "text to queries");
  }
}

TEST(QFormer, GradientsReachExpertsThroughOutputAndTap) {
  QFormer former(qformer_config(), qformer_model().weights());
  const auto sites = default_sites(former.sites("qformer."));
  ASSERT_EQ(former.sites("qformer.").size(), 4u * depth + 4u * 2u);
  ASSERT_EQ(sites.size(), 2u * depth + 2u * 2u);
  EXPECT_EQ(sites[0].name, "qformer.encoder.layer.0.attention.attention.query");
  EXPECT_EQ(sites[3].name, "qformer.encoder.layer.0.crossattention.attention.value");
  const Input input;
  const auto base = former(input.image, input.ids, input.mask, Pass());
  const auto experts = add_experts(sites, 2, 4, 1);
  EXPECT_TRUE(former(input.image, input.ids, input.mask, Pass()).equal(base));  // B begins at zero
  std::vector<torch::Tensor> parameters;
  for (const auto& [name, tensor] : experts) {
    if (name.find("lora_B") != std::string::npos) tensor.data().normal_();
    parameters.push_back(tensor);
  }
  TapRequest request;
  request.layers = {0, 1};
  request.rows = at::arange(queries).expand({2, queries});
  request.columns = at::arange(1, 7).expand({2, 6});
  TapResult tapped;
  const auto run = [&] {
    tapped.layers.clear();
    return former(input.image, input.ids, input.mask, Pass(), {&request, &tapped});
  };
  const auto through_output = gradients(run().narrow(1, 0, queries).square().sum(), parameters);
  run();
  const auto through_tap = gradients(tapped.stacked().square().sum(), parameters);
  for (size_t i = 0; i < experts.size(); ++i) {
    const auto& name = experts[i].first;
    ASSERT_TRUE(through_output[i].defined()) << name;
    EXPECT_GT(through_output[i].abs().max().item<double>(), 0) << name;
    // Attention rows come from queries and keys: the values of the last one tapped do not take part.
    const bool takes_part = name.find("layer.2.crossattention.attention.value") == std::string::npos;
    ASSERT_EQ(through_tap[i].defined(), takes_part) << name;
    EXPECT_EQ(takes_part && through_tap[i].abs().max().item<double>() > 0, takes_part) << name;
  }
}

TEST(QFormer, ComputesTheSameOnEveryDevice) {
  QFormer former(qformer_config(), qformer_model().weights());
  const Input input;
  TapRequest request;
  request.layers = {0, 1};
  request.rows = at::arange(queries).expand({2, queries});
  request.columns = at::arange(1, 7).expand({2, 6});
  TapResult expected_rows;
  const auto expected = former(input.image, input.ids, input.mask, Pass(), {&request, &expected_rows});
  for (const auto& device : devices()) {
    former.each([&](torch::Tensor& weight) { weight = weight.to(device); });
    request.rows = request.rows.to(device);
    request.columns = request.columns.to(device);
    const auto ids = input.ids.to(device), mask = input.mask.to(device);
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      TapResult rows;
      const auto found = former(input.image.to(device, type), ids, mask, Pass(), {&request, &rows});
      EXPECT_EQ(found.scalar_type(), type);
      expect_close(found, expected, type == at::kFloat ? 1e-4 : 0.05, device.str());
      expect_close(rows.stacked(), expected_rows.stacked(), type == at::kFloat ? 1e-4 : 0.05, device.str());
    }
  }
}

TEST(QFormer, WorksWithoutAnInstructionAndRefusesLongOnes) {
  const QFormer former(qformer_config(), qformer_model().weights());
  const auto image = torch::randn({2, 7, image_width});
  const auto none = torch::zeros({2, 0}, at::kLong);
  EXPECT_EQ(former(image, none, none, Pass()).sizes(), at::IntArrayRef({2, queries, width}));
  const auto nine = torch::ones({2, 9}, at::kLong);
  EXPECT_CONTAINS(error_of([&] { former(image, nine, nine, Pass()); }), "longer than the Q-Former's 8 positions");
}

}  // namespace
}  // namespace asr
