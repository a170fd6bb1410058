// Bad model folders and bad questions: one line that says what, through the same classes as the commands. On our own
// fixtures, so that a bare clone tests all of it.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "tests/backbones/reference_checks.h"

namespace asr {
namespace {

namespace fs = std::filesystem;

class BadModel : public ::testing::Test {
 protected:
  void SetUp() override { golden = open_reference("llava"); }  // our own, so that a bare clone tests this too
  std::string error() {
    try {
      const auto model = load_backbone(golden.folder);
      for (const auto& adapter : {golden.folder + "/adapter"})
        if (fs::exists(adapter)) load_adapter(*model, adapter);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }
  void edit_config(const std::function<void(nlohmann::json&)>& edit) {
    auto config = golden.config;
    edit(config);
    std::ofstream(golden.folder + "/config.json") << config.dump();
  }
  Golden golden;
};

TEST_F(BadModel, IsNamed) {
  EXPECT_EQ(error(), "");
  edit_config([](auto& c) { c["model_type"] = "gpt_neox"; });
  EXPECT_NE(error().find("'gpt_neox' is not supported; known: llava"), std::string::npos) << error();
  edit_config([](auto& c) { c["text_config"]["hidden_size"] = 128; });
  EXPECT_NE(error().find("has shape"), std::string::npos) << error();
  edit_config([](auto& c) { c["text_config"]["num_hidden_layers"] = 40; });
  EXPECT_NE(error().find("is missing"), std::string::npos) << error();
  edit_config([](auto& c) { c["text_config"]["num_hidden_layers"] = 1; });
  EXPECT_NE(error().find("tensors that the model does not have"), std::string::npos) << error();
  edit_config([](auto& c) { c["text_config"]["hidden_size"] = "wide"; });
  EXPECT_NE(error().find("hidden_size"), std::string::npos) << error();
  edit_config([](auto& c) { c["text_config"]["rope_parameters"] = {{"rope_type", "longrope"}, {"rope_theta", 1e4}}; });
  EXPECT_NE(error().find("'longrope' are not supported"), std::string::npos) << error();
  edit_config([](auto&) {});
  fs::remove(golden.folder + "/adapter/adapter_model.safetensors");
  EXPECT_NE(error().find("holds no adapter_model.safetensors"), std::string::npos) << error();
  std::ofstream(golden.folder + "/config.json") << "{ not json";
  EXPECT_NE(error().find("config.json:1:"), std::string::npos) << error();
  EXPECT_NE(error().find("not valid JSON"), std::string::npos) << error();
  fs::remove(golden.folder + "/config.json");
  EXPECT_NE(error().find("holds no config.json"), std::string::npos) << error();
}

TEST_F(BadModel, AShardOrATensorOfIt) {
  const auto broken = open_reference("llama");
  const auto message = [&] { return error_of([&] { load_backbone(broken.folder); }); };
  const auto shard = broken.folder + "/model-00003-of-00008.safetensors";
  const auto bytes = read_text(shard);
  fs::remove(shard);
  EXPECT_CONTAINS(message(), "shard 'model-00003-of-00008.safetensors' is missing");
  write_text(shard, bytes.substr(0, bytes.size() / 2));
  EXPECT_CONTAINS(message(), "model-00003-of-00008.safetensors: ");
  write_text(shard, bytes);
  const auto index = broken.folder + "/model.safetensors.index.json";
  auto map = nlohmann::json::parse(read_text(index));
  map["weight_map"].erase("model.norm.weight");
  write_text(index, map.dump());
  EXPECT_CONTAINS(message(), "'model.norm.weight' is not listed");
}

TEST_F(BadModel, ATokenizerWithoutVocabularyOrNone) {
  const auto path = golden.folder + "/tokenizer.json";
  auto tokenizer = nlohmann::json::parse(read_text(path));
  tokenizer["model"]["vocab"] = nlohmann::json::object();
  write_text(path, tokenizer.dump());
  const auto ask = [&] {
    return error_of([&] { load_pretrained(golden.folder)->pack_prompt("what?", {}, {}, false); });
  };
  EXPECT_CONTAINS(ask(), "tokenizer.json: ");
  EXPECT_CONTAINS(ask(), "no vocabulary");
  fs::remove(path);
  EXPECT_CONTAINS(ask(), "neither tokenizer.json nor tokenizer.model");
  EXPECT_EQ(load_pretrained(golden.folder)->pack_ids({5, 6}, {}, {}).size(), 1);  // numbers need no tokenizer
}

TEST_F(BadModel, ImageTokensMustMatch) {
  const auto model = open_model(golden.folder);
  const auto message = [&](const Batch& batch) { return error_of([&] { model->forward(batch, Pass{}, Want{}); }); };
  auto batch = batch_of(golden);
  batch.ids = at::where(batch.ids.eq(model->image_token()), at::full_like(batch.ids, 5), batch.ids);
  EXPECT_CONTAINS(message(batch), "the text has 0 image tokens");
  batch = batch_of(golden);
  batch.pixels = torch::Tensor();
  EXPECT_CONTAINS(message(batch), "but there is no picture");
  batch = batch_of(golden);
  batch.ids[0][0] = 100000;
  EXPECT_CONTAINS(message(batch), "outside the vocabulary");
}

TEST(BadGrid, DoesNotMatchTheTokensOrThePixels) {
  const auto golden = open_reference("qwen2_5_vl");
  const auto model = open_model(golden.folder);
  const auto message = [&](const Batch& batch) { return error_of([&] { model->forward(batch, Pass{}, Want{}); }); };
  auto batch = batch_of(golden);
  batch.image_grid = batch.image_grid.clone();
  batch.image_grid[0][2] += 2;
  EXPECT_CONTAINS(message(batch), "patches, but image_grid_thw adds up to");
  batch.image_grid[0][2] -= 1;
  EXPECT_CONTAINS(message(batch), "is no multiple of blocks of 2 x 2");
  batch = batch_of(golden);
  batch.image_grid = torch::Tensor();
  EXPECT_CONTAINS(message(batch), "need image_grid_thw");
  batch = batch_of(golden);
  const auto place = batch.ids.eq(model->image_token()).nonzero();
  batch.ids[place[0][0].item<int64_t>()][place[0][1].item<int64_t>()] = 5;
  EXPECT_CONTAINS(message(batch), "they must match");
}

// Pictures of one pixel and long strips go through every family, or are refused by the family's own rule.
class OddQuestion : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    golden = open_reference(GetParam());
    model = open_model(golden.folder, at::kFloat);
  }
  Golden golden;
  std::unique_ptr<PretrainedBackbone> model;
};
INSTANTIATE_TEST_SUITE_P(All, OddQuestion, ::testing::Values("instructblip", "internvl", "llava", "qwen2_5_vl"));

TEST_P(OddQuestion, PicturesOfOddSizes) {
  at::NoGradGuard no_grad;
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{1, 1}, {1, 20000}, {20000, 1}}) {
    const Image8 image{height, width, std::vector<uint8_t>(static_cast<size_t>(height * width * 3), 100)};
    const auto pack = [&, h = height] {
      return model->pack_prompt("what is it?", {image}, {cat("of height ", h)}, false);
    };
    if (GetParam() == "qwen2_5_vl" && height != width) {
      EXPECT_CONTAINS(error_of(pack), "one side is more than 200");
      continue;
    }
    const auto batch = pack();
    const auto hidden = model->inspect(batch, Pass{}, {}, batch.mask).hidden;
    EXPECT_TRUE(hidden.isfinite().all().item<bool>()) << height << " x " << width;
  }
}

TEST_P(OddQuestion, EmptyOrLongerThanTheContext) {
  const Image8 image{30, 30, std::vector<uint8_t>(30 * 30 * 3, 100)};
  const auto ask = [&](const std::string& question) {
    return error_of([&] { model->pack_prompt(question, {image}, {"picture"}, false); });
  };
  EXPECT_CONTAINS(ask(""), "the question is empty");
  EXPECT_CONTAINS(ask(std::string(5000, 'x')), "do not fit into the context of");
  auto batch = model->pack_ids(std::vector<int64_t>(5000, 5), {}, {});
  EXPECT_CONTAINS(error_of([&] { model->inspect(batch, Pass{}, {}, batch.mask); }), "do not fit into the context of");
  batch = model->pack_ids(std::vector<int64_t>(100, 5), {}, {});
  EXPECT_CONTAINS(error_of([&] { model->continue_greedily(batch, batch.mask, Pass{}, 5000, false); }),
                  "and 5000 new ones do not fit into the context of");
}

}  // namespace
}  // namespace asr
