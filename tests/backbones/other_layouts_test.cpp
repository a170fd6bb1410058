// The layouts in which versions of transformers have written the same models: other names, keys at another place of
// config.json, tensors nobody needs, other processor files. Each gives the numbers of the fixture, bit by bit.
#include <gtest/gtest.h>

#include "backbones/pretrained.h"
#include "tests/support/internvl_folders.h"
#include "tests/support/reference_models.h"

namespace asr {
namespace {

using nlohmann::json;
using Names = std::vector<std::pair<std::string, std::string>>;  // a regular expression and what replaces it

struct Seen {
  torch::Tensor hidden, pixels, ids;
};

// What a folder makes of the fixture's input, and of a picture and a question.
Seen look(const Golden& golden) {
  const auto model = load_pretrained(golden.folder);
  Batch batch;
  batch.ids = golden.index("in.input_ids");
  batch.pixels = golden.real("in.pixel_values");
  batch.mask = golden.index("in.attention_mask").ne(0);
  batch.labels = at::full_like(batch.ids, -1);
  if (golden.io.find("in.image_grid_thw")) batch.image_grid = golden.index("in.image_grid_thw").contiguous();
  at::NoGradGuard no_grad;
  const auto inside = model->inspect(batch, Pass{}, {}, batch.mask);
  const Image8 image{30, 50, std::vector<uint8_t>(30 * 50 * 3, 77)};
  const auto packed = model->pack_prompt("what is the thing?", {image}, {"a.png"}, /*raw=*/false);
  return {model->language().logits(inside.hidden), packed.pixels, packed.ids};
}

void rename(const Golden& golden, const Names& names) {
  TensorsByName out;
  for (const auto& [name, tensor] : read_tensors(golden.folder + "/model.safetensors")) {
    auto other = name;
    for (const auto& [from, to] : names)
      if (const auto changed = std::regex_replace(name, std::regex("^" + from), to); changed != name) {
        other = changed;
        break;
      }
    out[other] = tensor;
  }
  write_tensors(golden.folder + "/model.safetensors", out);
}

void expect_same(const Seen& a, const Seen& b) {
  EXPECT_TRUE(a.hidden.equal(b.hidden));
  EXPECT_TRUE(a.pixels.equal(b.pixels));
  EXPECT_TRUE(a.ids.equal(b.ids));
}

const Names kNewer = {{"vision_tower\\.", "model.vision_tower."},
                      {"multi_modal_projector\\.", "model.multi_modal_projector."},
                      {"language_model\\.model\\.", "model.language_model."},
                      {"language_model\\.lm_head", "lm_head"},
                      {"visual\\.", "model.visual."},
                      {"model\\.", "model.language_model."}};

TEST(OtherLayouts, NewerNames) {
  for (const char* family : {"llava", "internvl", "qwen2_5_vl"}) {
    const auto golden = open_reference(family);
    const auto expected = look(golden);
    rename(golden, kNewer);
    expect_same(expected, look(golden));
  }
}

TEST(OtherLayouts, TowersNameOfReleasedLlavaFiles) {
  for (const bool newer : {false, true}) {
    const auto golden = open_reference("llava");
    const auto expected = look(golden);
    rename(golden, {{"vision_tower\\.", "vision_tower.vision_model."}});
    if (newer) rename(golden, kNewer);
    expect_same(expected, look(golden));
  }
}

// Tables that are computed, a copy of a tied output layer, and an index that says more than the names.
TEST(OtherLayouts, TensorsNobodyNeeds) {
  for (const std::string family : {"llava", "qwen2_5_vl"}) {
    const auto golden = open_reference(family);
    const auto expected = look(golden);
    const bool llava = family == "llava";
    auto tensors = read_tensors(golden.folder + "/model.safetensors");
    const std::string text = llava ? "language_model.model." : "model.";
    tensors[text + "layers.0.self_attn.rotary_emb.inv_freq"] = at::ones({4});
    if (llava) tensors["vision_tower.embeddings.position_ids"] = at::arange(17, at::kLong).view({1, 17});
    if (!llava) tensors["lm_head.weight"] = tensors.at("model.embed_tokens.weight").clone();
    std::filesystem::remove(golden.folder + "/model.safetensors");
    write_tensors(golden.folder + "/model-00001-of-00001.safetensors", tensors);
    json index = {{"metadata", {{"total_size", 12}, {"total_parameters", 3}}}, {"weight_map", json::object()}};
    for (const auto& [name, tensor] : tensors) index["weight_map"][name] = "model-00001-of-00001.safetensors";
    write_text(golden.folder + "/model.safetensors.index.json", index.dump());
    expect_same(expected, look(golden));
  }
}

// Qwen2.5-VL before text_config: the text model's keys at the top, rope_scaling, torch_dtype.
TEST(OtherLayouts, FlatConfiguration) {
  const auto golden = open_reference("qwen2_5_vl");
  const auto expected = look(golden);
  auto config = golden.config;
  const auto text = config["text_config"];
  config.erase("text_config");
  config.erase("dtype");
  for (const auto& [key, value] : text.items())
    if (key != "model_type" && key != "rope_parameters" && key != "dtype") config[key] = value;
  config["rope_theta"] = text["rope_parameters"]["rope_theta"];
  config["torch_dtype"] = "float32";
  config["rope_scaling"] = {{"type", "mrope"}, {"mrope_section", text["rope_parameters"]["mrope_section"]}};
  write_text(golden.folder + "/config.json", config.dump());
  expect_same(expected, look(golden));
}

// Today's processor_config.json holds the image processor; before, it held other things beside
// preprocessor_config.json.
TEST(OtherLayouts, ProcessorFiles) {
  for (const char* family : {"llava", "internvl", "qwen2_5_vl"}) {
    const auto golden = open_reference(family);
    const auto expected = look(golden);
    const auto own = golden.folder + "/preprocessor_config.json", whole = golden.folder + "/processor_config.json";
    write_text(whole, json({{"processor_class", "AnyProcessor"}, {"patch_size", 7}}).dump());
    expect_same(expected, look(golden));
    write_text(whole,
               json({{"processor_class", "AnyProcessor"}, {"image_processor", json::parse(read_text(own))}}).dump());
    std::filesystem::remove(own);
    expect_same(expected, look(golden));
  }
}

}  // namespace
}  // namespace asr
