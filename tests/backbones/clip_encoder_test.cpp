// The frozen CLIP encoder: against plain computations in double on a random folder, against transformers on the
// fixtures of tools/make_clip_golden.py, and what it says of folders that do not fit.
#include <gtest/gtest.h>

#include <functional>

#include "backbones/clip_encoder.h"
#include "io/image.h"
#include "tests/support/clip_folder.h"
#include "tests/support/rounding.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

Image8 stripes(int64_t height, int64_t width, int64_t step) {
  Image8 out{height, width, {}};
  for (int64_t i = 0; i < height * width * 3; ++i) out.rgb.push_back(static_cast<uint8_t>((i * step) % 251));
  return out;
}

// One tower, plainly, in double.
struct PlainClip {
  const std::map<std::string, torch::Tensor>& tensors;

  torch::Tensor operator[](const std::string& name) const { return tensors.at(name).to(at::kDouble); }
  torch::Tensor apply(const std::string& name, const torch::Tensor& x) const {
    const auto y = x.matmul((*this)[name + ".weight"].t());
    return tensors.count(name + ".bias") ? y + (*this)[name + ".bias"] : y;
  }
  torch::Tensor normed(const std::string& name, const torch::Tensor& x) const {
    const auto centred = x - x.mean(-1, true);
    return centred / (centred.square().mean(-1, true) + 1e-5).sqrt() * (*this)[name + ".weight"] +
           (*this)[name + ".bias"];
  }
  torch::Tensor layers(const std::string& prefix, torch::Tensor x, bool causal) const {  // [T, width], two heads
    const int64_t count = x.size(0), half = x.size(1) / 2;
    for (int i = 0; i < 2; ++i) {
      const auto at = prefix + "encoder.layers." + std::to_string(i) + ".";
      const auto in = normed(at + "layer_norm1", x);
      const auto q = apply(at + "self_attn.q_proj", in), k = apply(at + "self_attn.k_proj", in),
                 v = apply(at + "self_attn.v_proj", in);
      std::vector<torch::Tensor> heads;
      for (int64_t h = 0; h < 2; ++h) {
        auto scores = q.narrow(1, h * half, half).mm(k.narrow(1, h * half, half).t()) / std::sqrt(double(half));
        if (causal) scores = scores.masked_fill(torch::ones({count, count}, at::kBool).triu(1), -INFINITY);
        heads.push_back(scores.softmax(1).mm(v.narrow(1, h * half, half)));
      }
      x = x + apply(at + "self_attn.out_proj", at::cat(heads, 1));
      const auto up = apply(at + "mlp.fc1", normed(at + "layer_norm2", x));
      x = x + apply(at + "mlp.fc2", up / (1 + (-1.702 * up).exp()));
    }
    return x;
  }
  torch::Tensor picture(const torch::Tensor& pixels) const {  // [1, 3, 12, 12]
    const auto patches = at::conv2d(pixels.to(at::kDouble), (*this)["vision_model.embeddings.patch_embedding.weight"],
                                    {}, at::IntArrayRef{4, 4})
                             .flatten(2)[0]
                             .t();
    auto x = at::cat({(*this)["vision_model.embeddings.class_embedding"].unsqueeze(0), patches}) +
             (*this)["vision_model.embeddings.position_embedding.weight"];
    x = layers("vision_model.", normed("vision_model.pre_layrnorm", x), false);
    return apply("visual_projection", normed("vision_model.post_layernorm", x.narrow(0, 0, 1)));
  }
  torch::Tensor text(const std::vector<int64_t>& ids) const {  // pooled at its last token
    const auto count = static_cast<int64_t>(ids.size());
    auto x = (*this)["text_model.embeddings.token_embedding.weight"].index_select(0, torch::tensor(ids, at::kLong)) +
             (*this)["text_model.embeddings.position_embedding.weight"].narrow(0, 0, count);
    x = layers("text_model.", x, true);
    return normed("text_model.final_layer_norm", x.narrow(0, count - 1, 1));
  }
};

class ClipEncoderTest : public ::testing::Test {
 protected:
  ClipFolder model{5};
  TemporaryFolder place;
  std::string folder = place / "clip";
  // Float32 through a dozen products of at most 32 terms each, in two layers.
  const double close = 2e-5;

  void SetUp() override { model.write(folder); }
  std::string error(const std::function<void(json&)>& edit = {}) {
    auto config = model.config;
    if (edit) edit(config);
    write_text(folder + "/config.json", config.dump());
    return error_of([&] { ClipEncoder encoder(folder); });
  }
};

TEST_F(ClipEncoderTest, AgreesWithAPlainComputation) {
  const ClipEncoder encoder(folder);
  const PlainClip plain{model.tensors};
  for (const auto& picture : {stripes(12, 12, 7), stripes(30, 17, 5)})
    expect_close(encoder.pictures({picture}), plain.picture(encoder.pixels_of(picture)), close, "picture");
  const int64_t begin = clip_tokens() - 2, end = clip_tokens() - 1;
  const std::vector<int64_t> ids = {begin, 515, 513, '1' + 256, end};  // the cat 1
  EXPECT_EQ(encoder.text_ids("The CAT 1"), ids);
  expect_close(encoder.texts({"The CAT 1"}, ClipTextForm::pooled), plain.text(ids), close, "pooled");
  expect_close(encoder.texts({"The CAT 1"}, ClipTextForm::projected), plain.apply("text_projection", plain.text(ids)),
               close, "projected");
  EXPECT_EQ(encoder.picture_width(), 10);
  EXPECT_EQ(encoder.text_width(ClipTextForm::pooled), 12);
  EXPECT_EQ(encoder.text_width(ClipTextForm::projected), 10);
}

TEST_F(ClipEncoderTest, LongTextsAreCutAtTheRightAndStillEnd) {
  const ClipEncoder encoder(folder);
  const auto ids = encoder.text_ids("a a a a a a a a a a a a");
  ASSERT_EQ(ids.size(), 9u);
  EXPECT_EQ(ids.front(), clip_tokens() - 2);
  EXPECT_EQ(ids[7], 'a' + 256);
  EXPECT_EQ(ids.back(), clip_tokens() - 1);
  EXPECT_EQ(encoder.text_ids("a a a a a a a").size(), 9u);  // just fits
  EXPECT_EQ(encoder.text_ids("").size(), 2u);
}

TEST_F(ClipEncoderTest, AVectorDoesNotDependOnItsNeighbours) {
  const ClipEncoder encoder(folder);
  const auto a = stripes(20, 20, 3), b = stripes(14, 31, 11);
  EXPECT_TRUE(at::equal(encoder.pictures({a, b}), at::cat({encoder.pictures({a}), encoder.pictures({b})})));
  const auto both = encoder.texts({"the cat", "at"}, ClipTextForm::projected);
  EXPECT_TRUE(at::equal(both.narrow(0, 1, 1), encoder.texts({"at"}, ClipTextForm::projected)));
  EXPECT_EQ(encoder.pictures({Image8()}).abs().max().item<double>(), 0);  // nothing to see
}

TEST_F(ClipEncoderTest, AnotherModelHasAnotherDescription) {
  const auto first = ClipEncoder(folder).description();
  EXPECT_EQ(first.size(), 64u);
  EXPECT_EQ(ClipEncoder(folder).description(), first);
  ClipFolder(6).write(place / "other");
  EXPECT_NE(ClipEncoder(place / "other").description(), first);
  model.tensors.at("text_projection.weight")[0][0] += 1;
  model.write(folder);
  EXPECT_NE(ClipEncoder(folder).description(), first);
}

TEST_F(ClipEncoderTest, HalfPrecisionIsWidenedAndSizesAreKnown) {
  double numbers = 0;
  for (auto& [name, tensor] : model.tensors) {
    tensor = tensor.to(at::kHalf);
    numbers += static_cast<double>(tensor.numel());
  }
  model.write(folder);
  ClipEncoder encoder(folder);
  encoder.to(at::kCPU);
  const auto picture = stripes(12, 12, 7);
  const auto found = encoder.pictures({picture});
  EXPECT_EQ(found.scalar_type(), at::kFloat);
  expect_close(found, PlainClip{model.tensors}.picture(encoder.pixels_of(picture)), close, "picture");
  const auto sizes = clip_sizes(folder);
  EXPECT_EQ(sizes.weight_bytes, 4 * numbers);
  EXPECT_EQ(sizes.text_width(ClipTextForm::pooled), 12);
  EXPECT_EQ(sizes.text_width(ClipTextForm::projected), 10);
}

TEST_F(ClipEncoderTest, BadConfigurationsAreNamed) {
  EXPECT_CONTAINS(error([](json& c) { c["model_type"] = "clip_vision_model"; }),
                  "model_type is 'clip_vision_model'; an encoder is a whole CLIP model");
  EXPECT_CONTAINS(error([](json& c) { c.erase("text_config"); }), "'text_config' is missing; an encoder is a whole");
  EXPECT_CONTAINS(error([](json& c) { c["projection_dim"] = 11; }),
                  "'visual_projection.weight' has shape [10, 16] where config.json asks for [11, 16]");
  EXPECT_CONTAINS(error([](json& c) { c["projection_dim"] = 5000; }), "at most 4096 are kept");
  EXPECT_CONTAINS(error([](json& c) { c["vision_config"]["num_hidden_layers"] = 1; }),
                  "tensors that the model does not have");
  EXPECT_CONTAINS(error([](json& c) { c["text_config"]["eos_token_id"] = 7; }),
                  "'text_config.eos_token_id' is 7, but <|endoftext|> is 520 in its tokenizer");
  EXPECT_CONTAINS(error([](json& c) { c["text_config"]["vocab_size"] = 100; }), "where config.json asks for [100, 12]");
  EXPECT_CONTAINS(error_of([&] { ClipEncoder encoder(place / "nowhere"); }), "nowhere");
}

TEST_F(ClipEncoderTest, OldFilesMustEndTheirVocabularyWithTheEndToken) {
  write_text(folder + "/config.json", [&] {
    auto config = model.config;
    config["text_config"]["eos_token_id"] = 2;
    return config.dump();
  }());
  const ClipEncoder old(folder);
  ASSERT_NO_THROW(old.texts({"the cat"}, ClipTextForm::pooled));
  write_text(folder + "/added_tokens.json", "{\"<more>\": 521}");
  model.tensors["text_model.embeddings.token_embedding.weight"] = torch::randn({522, 12});
  model.config["text_config"]["vocab_size"] = 522;
  model.config["text_config"]["eos_token_id"] = 2;
  save_tensors(folder + "/model.safetensors", {model.tensors.begin(), model.tensors.end()}, {});
  EXPECT_CONTAINS(error(), "its tokenizer has tokens after <|endoftext|>");
}

TEST_F(ClipEncoderTest, BadFilesAreNamed) {
  ClipFolder::write_processor(folder, 16);
  EXPECT_CONTAINS(error(), "its vision tower takes 12x12");
  ClipFolder::write_processor(folder, 12);
  fs::remove(folder + "/preprocessor_config.json");
  EXPECT_CONTAINS(error(), "preprocessor_config.json");
  ClipFolder::write_processor(folder, 12);
  auto tokenizer = clip_tokenizer_json();
  tokenizer["added_tokens"] = json::array();
  tokenizer["model"]["vocab"].erase("<|startoftext|>");
  write_text(folder + "/tokenizer.json", tokenizer.dump());
  EXPECT_CONTAINS(error(), "its tokenizer has no '<|startoftext|>'");
  fs::remove(folder + "/tokenizer.json");
  EXPECT_CONTAINS(error(), "neither tokenizer.json nor tokenizer.model nor vocab.json");
  model.write(folder);
  fs::resize_file(folder + "/model.safetensors", fs::file_size(folder + "/model.safetensors") - 100);
  EXPECT_CONTAINS(error(), "model.safetensors");
  for (auto at = model.tensors.begin(); at != model.tensors.end();)
    at = at->first.rfind("text_model.", 0) == 0 ? model.tensors.erase(at) : std::next(at);
  model.write(folder);
  EXPECT_CONTAINS(error(), "its weights hold no text tower");
}

// ---- against transformers -----------------------------------------------------------------------------------------

class ClipGolden : public ::testing::TestWithParam<std::string> {
 protected:
  std::string folder = std::string(ASR_SOURCE_DIR) + "/tests/fixtures/clip/" + GetParam();
  void SetUp() override {
    if (!fs::exists(folder)) GTEST_SKIP() << folder << " is not there";
  }
};

TEST_P(ClipGolden, TextsAndPicturesAsTransformers) {
  const ClipEncoder encoder(folder);
  const auto io = read_safetensors(folder + "/io.safetensors");
  const auto texts = json::parse(read_text(folder + "/texts.json"));
  std::vector<std::string> all;
  for (const auto& entry : texts) {
    all.push_back(entry["text"].get<std::string>());
    EXPECT_EQ(encoder.text_ids(all.back()), entry["ids"].get<std::vector<int64_t>>()) << all.back();
  }
  // Both sides are float32 or better; a tower has at most three layers.
  const double close = 3e-5;
  expect_close(encoder.texts(all, ClipTextForm::pooled), load_tensor(io, "out.text.pooled"), close, "pooled");
  expect_close(encoder.texts(all, ClipTextForm::projected), load_tensor(io, "out.text.projected"), close, "projected");
  expect_close(encoder.encode_pixels(load_tensor(io, "in.pixel_values")), load_tensor(io, "out.pixels.projected"),
               close, "pixels");
  for (int i = 0; fs::exists(folder + "/picture-" + std::to_string(i) + ".png"); ++i) {
    const auto number = std::to_string(i);
    const auto picture = read_image(folder + "/picture-" + number + ".png");
    expect_close(encoder.pixels_of(picture), load_tensor(io, "proc." + number), 1e-5, "processor " + number);
    expect_close(encoder.pictures({picture}), load_tensor(io, "out.picture." + number), close, "picture " + number);
  }
}

INSTANTIATE_TEST_SUITE_P(Folders, ClipGolden, ::testing::Values("old", "new"),
                         [](const auto& entry) { return entry.param; });

}  // namespace
}  // namespace asr
