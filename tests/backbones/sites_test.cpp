// The linears that may be adapted: named as the checkpoint names them, complete, and with the default ones in the order
// that a run's random draws follow.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "backbones/tiny.h"
#include "tests/backbones/reference_checks.h"

namespace asr {
namespace {

std::vector<std::string> names_of(const std::vector<AdapterSite>& sites) {
  std::vector<std::string> out;
  for (const auto& site : sites) out.push_back(site.name);
  return out;
}

std::map<SitePart, int> count_parts(const std::vector<AdapterSite>& sites) {
  std::map<SitePart, int> out;
  for (const auto& site : sites) ++out[site.part];
  return out;
}

TEST(TinySites, EveryLinearOfAttentionAndLayersIsThere) {
  const auto tokenizer = WordTokenizer::from_texts({"what is it?"});
  for (const std::string kind : {"tiny", "tiny_cross"}) {
    auto config = tiny_config(kind, "S");
    config.text.layers = 2;
    config.vision.layers = 1;
    const auto model = TinyBackbone::random(config, tokenizer, 1);
    std::vector<std::string> all = {"vision.layers.0.qkv", "vision.layers.0.o", "projector.in", "projector.out"};
    std::vector<std::string> usual = {"projector.in", "projector.out"};
    for (const std::string layer : {"layers.0.", "layers.1."}) {
      for (const char* part : {"q", "k", "v", "o"}) all.push_back(layer + part);
      usual.push_back(layer + "q");
      usual.push_back(layer + "v");
      if (kind == "tiny_cross") {
        for (const char* part : {"cross.q", "cross.k", "cross.v", "cross.o"}) all.push_back(layer + part);
        usual.push_back(layer + "cross.q");
        usual.push_back(layer + "cross.v");
      }
      for (const char* part : {"gate", "up", "down"}) all.push_back(layer + part);
    }
    EXPECT_EQ(names_of(model->all_sites()), all);
    EXPECT_EQ(names_of(model->sites()), usual);
    std::map<std::string, torch::Tensor> weights;
    for (const auto& [name, weight] : model->named_weights()) weights[name] = weight;
    for (const auto& site : model->all_sites())
      EXPECT_TRUE(weights.at(site.name + ".weight").is_same(site.linear->weight)) << site.name;
  }
}

class PretrainedSites : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, PretrainedSites, ::testing::ValuesIn(reference_models()),
                         [](const auto& entry) { return test_name(entry.param); });

TEST_P(PretrainedSites, StandForTensorsOfTheCheckpoint) {
  const auto golden = open_reference(GetParam());
  if (IsSkipped()) return;
  const auto model = load_pretrained(golden.folder);
  std::map<std::string, std::vector<int64_t>> stored;
  for (const auto& shard : read_safetensors_set(golden.folder).shards)
    for (const auto& view : shard.tensors)
      stored[model->current_name(view.name)] = std::vector<int64_t>(view.shape.begin(), view.shape.end());
  std::set<std::string> found;
  for (const auto& site : model->all_sites()) {
    EXPECT_TRUE(found.insert(site.name).second) << site.name << " is there twice";
    EXPECT_NE(site.part, SitePart::other) << site.name;
    EXPECT_EQ(site.layer >= 0, site.part != SitePart::projector) << site.name;
    ASSERT_TRUE(stored.count(site.name + ".weight")) << site.name;
    EXPECT_EQ(stored.at(site.name + ".weight"), site.linear->weight.sizes().vec()) << site.name;
  }
  const auto parts = count_parts(model->all_sites());
  const auto depth = static_cast<int>(model->language().decoder.layers.size());
  for (const auto part : {SitePart::gate, SitePart::up, SitePart::down}) EXPECT_EQ(parts.at(part), depth);
  const bool pictures = golden.io.find("in.pixel_values") != nullptr, former = parts.count(SitePart::cross_q) > 0;
  EXPECT_EQ(former, model->folder().type == "instructblip");
  for (const auto part : {SitePart::q, SitePart::k, SitePart::v, SitePart::o}) {
    EXPECT_EQ(parts.at(part), parts.at(SitePart::q));
    EXPECT_EQ(parts.at(part) > depth, former);
  }
  EXPECT_EQ(parts.count(SitePart::vision) > 0, pictures);
  EXPECT_EQ(parts.count(SitePart::projector) > 0, pictures);
}

// Which sites a run adapts, in which order, decides its first weights.
TEST_P(PretrainedSites, DefaultOnesKeepTheirOrder) {
  const auto golden = open_reference(GetParam());
  if (IsSkipped()) return;
  const auto model = load_pretrained(golden.folder);
  const auto type = model->folder().type;
  std::vector<std::string> expected;
  const std::string text = type == "instructblip"               ? "language_model.model.layers."
                           : type == "llama" || type == "qwen2" ? "model.layers."
                                                                : "model.language_model.layers.";
  for (size_t i = 0; i < model->language().decoder.layers.size(); ++i)
    for (const char* part : {".self_attn.q_proj", ".self_attn.v_proj"}) expected.push_back(cat(text, i, part));
  if (type == "instructblip") {
    const auto& qformer = golden.config["qformer_config"];
    for (int64_t i = 0; i < qformer["num_hidden_layers"].get<int64_t>(); ++i) {
      const bool crossing = i % qformer["cross_attention_frequency"].get<int64_t>() == 0;
      for (const std::string kind : {"attention", "crossattention"})
        for (const char* part : {".attention.query", ".attention.value"})
          if (kind == "attention" || crossing) expected.push_back(cat("qformer.encoder.layer.", i, ".", kind, part));
    }
    expected.push_back("language_projection");
  } else if (type == "qwen2_5_vl") {
    expected.push_back("model.visual.merger.mlp.0");
    expected.push_back("model.visual.merger.mlp.2");
  } else if (golden.io.find("in.pixel_values")) {
    expected.push_back("model.multi_modal_projector.linear_1");
    expected.push_back("model.multi_modal_projector.linear_2");
  }
  EXPECT_EQ(names_of(model->sites()), expected);
}

}  // namespace
}  // namespace asr
