// InternVL in its authors' layout gives the numbers of the same weights in the layout of transformers, bit by bit.
#include "backbones/internvl_layout.h"

#include <gtest/gtest.h>

#include <functional>

#include "backbones/adapter_file.h"
#include "backbones/pretrained.h"
#include "tensor/torch_compat.h"
#include "tests/backbones/reference_checks.h"
#include "tests/support/internvl_folders.h"
#include "tests/support/reference_models.h"
#include "tests/support/rounding.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

using nlohmann::json;

std::unique_ptr<PretrainedBackbone> load(const std::string& folder) {
  return load_pretrained(folder);
}

Image8 picture(int64_t height, int64_t width) {
  Image8 out{height, width, std::vector<uint8_t>(static_cast<size_t>(height * width) * 3)};
  for (size_t i = 0; i < out.rgb.size(); ++i) out.rgb[i] = static_cast<uint8_t>(i * 7919 >> 3);
  return out;
}

class InternVlLayouts : public ::testing::Test {
 protected:
  void SetUp() override {
    golden = open_reference("internvl");
    batch.ids = golden.index("in.input_ids");
    batch.mask = golden.index("in.attention_mask").ne(0);
    batch.labels = golden.index("in.labels").clamp_min(-1);
    batch.pixels = golden.real("in.pixel_values");
  }
  std::string hf() const { return golden.folder; }
  std::string chat() const { return *golden.place / "chat"; }
  void write_chat() const { write_chat_folder(hf(), chat()); }
  void edit_config(const std::string& folder, const std::function<void(json&)>& edit) const {
    auto config = read_config(folder);
    edit(config);
    write_text(folder + "/config.json", config.dump());
  }
  PretrainedBackbone::Inspection inspect(const PretrainedBackbone& model) const {
    const auto rows = batch.mask.logical_and(batch.ids.ne(model.image_token()));
    return model.inspect(batch, Pass{}, {0, 1}, rows);
  }
  void expect_same() const {
    at::NoGradGuard no_grad;
    const auto a = load(hf()), b = load(chat());
    EXPECT_EQ(a->image_token(), b->image_token());
    const auto one = inspect(*a), other = inspect(*b);
    EXPECT_TRUE(one.features.equal(other.features));
    EXPECT_TRUE(one.hidden.equal(other.hidden));
    EXPECT_TRUE(a->language().logits(one.hidden).equal(b->language().logits(other.hidden)));
    ASSERT_EQ(one.taps.layers.size(), 2u);
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(one.taps.layers[i].equal(other.taps.layers[i]));
    const auto continued = [&](const PretrainedBackbone& m) {
      return m.continue_greedily(batch, batch.mask, Pass{}, 8, /*fill=*/true);
    };
    EXPECT_EQ(continued(*a), continued(*b));
  }
  // What loading the chat folder says after an edit of its configuration.
  std::string refusal(const std::function<void(json&)>& edit) const {
    const auto before = read_text(chat() + "/config.json");
    edit_config(chat(), edit);
    const auto out = error_of([&] { load_backbone(chat()); });
    write_text(chat() + "/config.json", before);
    return out;
  }
  Golden golden;
  Batch batch;
};

TEST_F(InternVlLayouts, Qwen2IsTheSame) {
  write_chat();
  expect_same();
  at::NoGradGuard no_grad;
  const auto model = load(chat());
  const auto expected = golden.real("out.logits");
  const auto found = model->language().logits(inspect(*model).hidden);
  EXPECT_LE((found - expected).index({batch.mask}).abs().max().item<double>(), 2e-4);
}

TEST_F(InternVlLayouts, InternLm2IsLlamaWithThePackedWeights) {
  for (const bool bias : {false, true}) {
    give_llama_decoder(hf(), bias);
    write_chat();
    expect_same();
  }
}

TEST_F(InternVlLayouts, LlamaAndALargeTowerAndAnotherLayer) {
  give_large_tower(hf());
  edit_config(hf(), [](json& c) { c["vision_feature_layer"] = -2; });
  write_chat();
  expect_same();
  // A LLaMA decoder under its own names.
  give_llama_decoder(hf());
  const auto config = read_config(hf());
  write_tensors(chat() + "/model.safetensors",
                chat_tensors(read_tensors(hf() + "/model.safetensors"), config, /*internlm2=*/false));
  edit_config(chat(), [&](json& c) {
    c["llm_config"] = config["text_config"];
    c["llm_config"]["architectures"] = {"LlamaForCausalLM"};
  });
  expect_same();
}

// Stored as bfloat16 and in shards, as real files are.
TEST_F(InternVlLayouts, ShardsAndFewBits) {
  give_llama_decoder(hf());
  auto tensors = read_tensors(hf() + "/model.safetensors");
  for (auto& [name, tensor] : tensors) tensor = tensor.to(at::kBFloat16);
  write_tensors(hf() + "/model.safetensors", tensors);
  write_chat();
  TensorsByName parts[2];
  json index = {{"metadata", json::object()}, {"weight_map", json::object()}};
  for (const auto& [name, tensor] : read_tensors(chat() + "/model.safetensors")) {
    const int part = name.find("layers.1") != std::string::npos;
    parts[part][name] = tensor;
    index["weight_map"][name] = "part-" + std::to_string(part) + ".safetensors";
  }
  std::filesystem::remove(chat() + "/model.safetensors");
  for (int i : {0, 1}) write_tensors(chat() + "/part-" + std::to_string(i) + ".safetensors", parts[i]);
  write_text(chat() + "/model.safetensors.index.json", index.dump());
  expect_same();
}

TEST_F(InternVlLayouts, OneGroupIsTakenApartWithoutACopy) {
  write_chat();
  Weights weights(chat());
  auto part = weights.below("vision_model.encoder.layers.0.attn.");
  part.unpack("qkv.weight", 1, {{"q", 24}, {"k", 24}, {"v", 24}});
  const auto q = part.take("q", {24, 24}), k = part.take("k", {24, 24}), v = part.take("v", {24, 24});
  EXPECT_EQ(q.data_ptr<float>() + 24 * 24, k.data_ptr<float>());
  EXPECT_EQ(q.data_ptr<float>() + 2 * 24 * 24, v.data_ptr<float>());
  EXPECT_TRUE(k.is_contiguous());
  EXPECT_CONTAINS(error_of([&] { part.unpack("qkv.bias", 5, {{"q", 24}}); }), "asks for 120 rows");
  EXPECT_CONTAINS(error_of([&] { part.unpack("q", 1, {{"a", 24}}); }), "asks for 24 rows");  // not a second time
}

TEST_F(InternVlLayouts, PicturesAndPromptsArePackedAlike) {
  write_chat();
  const auto a = load(hf()), b = load(chat());
  const auto wide = picture(28, 70), square = picture(40, 40);
  PackItem item;
  item.id = "one";
  item.question = "what is the thing?";
  item.answer = "the red";
  item.images = {&wide, &square};
  const auto one = a->pack({item}), other = b->pack({item});
  EXPECT_TRUE(one.pixels.equal(other.pixels));
  EXPECT_TRUE(one.tile_grid.equal(other.tile_grid));
  // The authors' template puts a system message before the rest.
  const int64_t more = other.ids.size(1) - one.ids.size(1);
  ASSERT_GT(more, 0);
  EXPECT_TRUE(one.ids.equal(other.ids.narrow(1, more, one.ids.size(1))));
  EXPECT_TRUE(one.labels.equal(other.labels.narrow(1, more, one.ids.size(1))));
  std::vector<int64_t> system(other.ids.data_ptr<int64_t>(), other.ids.data_ptr<int64_t>() + more);
  const auto text = b->tokenizer().decode(system);
  EXPECT_EQ(text.rfind("<|im_start|>system\n", 0), 0u) << text;
  EXPECT_CONTAINS(text, "InternVL");
  EXPECT_EQ(text.substr(text.size() - 11), "<|im_end|>\n");
  Want want;
  want.tap_layers = 2;
  EXPECT_EQ(b->forward(other, Pass{}, want).attention.dim(), 6);
  // The end of the template ends an answer though no file names it.
  EXPECT_EQ(b->tokenizer().id_of("<|im_end|>"), 266);
}

TEST_F(InternVlLayouts, OtherTiles) {
  write_chat();
  const auto wide = picture(28, 60), tie = picture(28, 70);
  PackItem item;
  item.id = "one";
  item.question = "what?";
  item.images = {&wide};
  Want want;
  want.tap_layers = 1;
  const auto tokens = [&](const std::function<void(json&)>& edit) {
    write_chat();
    edit_config(chat(), edit);
    const auto model = load(chat());
    const auto packed = model->pack({item});
    auto answered = item;
    answered.answer = "red";
    EXPECT_TRUE(model->forward(model->pack({answered}), Pass{}, want).attention.isfinite().all().item<bool>());
    return packed.ids.eq(model->image_token()).sum().item<int64_t>();
  };
  EXPECT_EQ(tokens([](json&) {}), 3 * 4);  // two tiles and the whole
  EXPECT_EQ(tokens([](json& c) { c["use_thumbnail"] = false; }), 2 * 4);
  EXPECT_EQ(tokens([](json& c) { c["dynamic_image_size"] = false; }), 4);
  EXPECT_EQ(tokens([](json& c) { c["max_dynamic_patch"] = 1; }), 4);
  EXPECT_EQ(tokens([](json& c) { c["force_image_size"] = 56; }), 3 * 16);
  EXPECT_EQ(tokens([](json& c) { c.erase("ps_version"); }), 3 * 4);
  // As near to two tiles as to three: the picture fills more than half of three of 28 pixels, not of 56.
  item.images = {&tie};
  EXPECT_EQ(tokens([](json&) {}), 4 * 4);
  EXPECT_EQ(tokens([](json& c) { c["force_image_size"] = 56; }), 3 * 16);
}

// Version 1 of the pixel shuffle leaves rows and columns exchanged.
TEST_F(InternVlLayouts, TheFirstPixelShuffleIsTransposed) {
  write_chat();
  at::NoGradGuard no_grad;
  const auto features = [&] { return inspect(*open_model(chat(), at::kDouble)).features.view({-1, 2, 2, 32}); };
  const auto straight = features();
  edit_config(chat(), [](json& c) { c["ps_version"] = "v1"; });
  const auto turned = features();
  // The projector gets the same rows in another order: a norm and two products over at most 4 * 24 and 32 numbers. A
  // matrix product may round a row by where it stands; the condition is below a thousand.
  const double rounding = 1000 * rounding_bound(2 * 4 * 24 + 32, at::kDouble);
  EXPECT_LE(relative_error(turned, straight.transpose(1, 2)), rounding);
  EXPECT_GT(relative_error(turned, straight), 1e6 * rounding) << "the check would not see rows and columns exchanged";
  // On the grid, rows are rows again.
  const auto model = load(chat());
  BackboneOptions options;
  options.grid = 2;
  model->configure(options);
  const auto image = picture(28, 28);
  PackItem item;
  item.id = "one";
  item.question = "what?";
  item.images = {&image};
  const auto packed = model->pack({item});
  Want want;
  want.loss = false;
  want.tap_layers = 1;
  const auto grid = model->forward(packed, Pass{}, want).attention;                       // [1, 1, heads, rows, 2, 2]
  const auto taps = model->inspect(packed, Pass{}, {1}, packed.question).taps.layers[0];  // [1, heads, rows, 4]
  EXPECT_TRUE(grid[0][0].equal(taps[0].reshape({taps.size(1), -1, 2, 2}).transpose(2, 3)));
}

TEST_F(InternVlLayouts, TheOutputLayerIsTheFilesOwnWhereItHasOne) {
  give_llama_decoder(hf());
  write_chat();
  edit_config(chat(), [](json& c) { c["tie_word_embeddings"] = true; });  // the outer default, which means nothing
  expect_same();
  auto tensors = read_tensors(chat() + "/model.safetensors");
  tensors.erase("language_model.output.weight");
  write_tensors(chat() + "/model.safetensors", tensors);
  const auto model = load(chat());
  EXPECT_TRUE(model->language().head.weight.is_same(model->language().embedding));
  edit_config(chat(), [](json& c) { c["tie_word_embeddings"] = false; });
  EXPECT_CONTAINS(error_of([&] { load_backbone(chat()); }),
                  "'lm_head.weight' is missing (in older files 'language_model");
}

TEST_F(InternVlLayouts, AdaptersFitBothLayouts) {
  write_chat();
  const auto hidden = [&](const std::string& folder, const std::string& adapter) {
    const auto model = load(folder);
    load_adapter(*model, adapter);
    at::NoGradGuard no_grad;
    return inspect(*model).hidden;
  };
  const auto expected = hidden(hf(), hf() + "/adapter");
  EXPECT_TRUE(expected.equal(hidden(chat(), hf() + "/adapter")));
  // PEFT on the authors' model names its modules otherwise.
  const auto renamed_adapter = *golden.place / "renamed";
  std::filesystem::copy(hf() + "/adapter", renamed_adapter, std::filesystem::copy_options::recursive);
  TensorsByName renamed_tensors;
  for (const auto& [name, tensor] : read_tensors(renamed_adapter + "/adapter_model.safetensors")) {
    auto other =
        std::regex_replace(name, std::regex(R"(model\.model\.language_model\.)"), "model.language_model.model.");
    other = std::regex_replace(other, std::regex(R"(model\.model\.multi_modal_projector\.linear_1)"), "model.mlp1.1");
    other = std::regex_replace(other, std::regex(R"(model\.model\.multi_modal_projector\.linear_2)"), "model.mlp1.3");
    EXPECT_NE(other, name);
    renamed_tensors[other] = tensor;
  }
  write_tensors(renamed_adapter + "/adapter_model.safetensors", renamed_tensors);
  EXPECT_TRUE(expected.equal(hidden(chat(), renamed_adapter)));
}

// LoRA on InternLM2's packed attention is LoRA on q, k and v with one A.
TEST_F(InternVlLayouts, AdaptersOfPackedAttention) {
  give_llama_decoder(hf());
  write_chat();
  const auto folder = *golden.place / "packed";
  std::filesystem::copy(hf() + "/adapter", folder, std::filesystem::copy_options::recursive);
  const std::string module = "base_model.model.language_model.model.layers.1.attention.wqkv";
  // Of the size of the weights they are added to: large ones would blow up the rounding of both ways alike.
  torch::manual_seed(7);
  const auto a = at::randn({4, 32}) * 0.1;
  const auto b = at::randn({64, 4}) * 0.1;
  write_tensors(folder + "/adapter_model.safetensors",
                {{module + ".lora_A.weight", a}, {module + ".lora_B.weight", b}});
  at::NoGradGuard no_grad;
  const auto model = load(chat());
  EXPECT_EQ(load_adapter(*model, folder).size(), 6u);
  const auto found = inspect(*model).hidden;
  const auto plain = inspect(*load(chat())).hidden;
  // The same added into the weights.
  auto tensors = read_tensors(chat() + "/model.safetensors");
  auto& weight = tensors.at("language_model.model.layers.1.attention.wqkv.weight");
  weight = weight + b.mm(a) * 2;
  write_tensors(chat() + "/model.safetensors", tensors);
  const auto expected = inspect(*load(chat())).hidden;
  const auto largest_gap = [&](const torch::Tensor& other) {
    return (other - expected).index({batch.mask}).abs().max().item<double>();
  };
  EXPECT_LE(largest_gap(found), 2e-4);
  EXPECT_GT(largest_gap(plain), 1e-2);  // the adapter does something
  const auto error = [&](const TensorsByName& list) {
    write_tensors(folder + "/adapter_model.safetensors", list);
    return error_of([&] { load_adapter(*load(chat()), folder); });
  };
  EXPECT_CONTAINS(error({{module + ".lora_A.weight", a}}), "only one of lora_A and lora_B");
  EXPECT_CONTAINS(error({{module + ".lora_A.weight", a}, {module + ".lora_B.weight", at::randn({63, 4})}}),
                  "has shape [63, 4] where the model has 64 rows");
  const std::string tower = "base_model.model.vision_model.encoder.layers.0.mlp.fc1";
  EXPECT_CONTAINS(error({{tower + ".lora_A.weight", a}}), "'vision_model.encoder.layers.0.mlp.fc1' is no linear of");
  EXPECT_CONTAINS(error({{"base_model.model.language_model.model.layers.9.attention.wqkv.lora_A.weight", a},
                         {"base_model.model.language_model.model.layers.9.attention.wqkv.lora_B.weight", b}}),
                  "layers.9.attention.wqkv' is no linear of");
}

TEST_F(InternVlLayouts, AdaptersOfThePackedTower) {
  write_chat();
  const auto folder = *golden.place / "packed-tower";
  std::filesystem::copy(hf() + "/adapter", folder, std::filesystem::copy_options::recursive);
  auto tensors = read_tensors(chat() + "/model.safetensors");
  const std::string module = "vision_model.encoder.layers.0.attn.qkv";
  auto& weight = tensors.at(module + ".weight");
  torch::manual_seed(8);
  const auto a = at::randn({4, weight.size(1)}) * 0.1;
  const auto b = at::randn({weight.size(0), 4}) * 0.1;
  write_tensors(folder + "/adapter_model.safetensors", {{"base_model.model." + module + ".lora_A.weight", a},
                                                        {"base_model.model." + module + ".lora_B.weight", b}});
  at::NoGradGuard no_grad;
  const auto model = load(chat());
  const auto plain = inspect(*model).features;
  EXPECT_EQ(load_adapter(*model, folder).size(), 6u);
  const auto found = inspect(*model).features;
  weight = weight + b.mm(a) * 2;
  write_tensors(chat() + "/model.safetensors", tensors);
  const auto expected = inspect(*load(chat())).features;
  EXPECT_LE((found - expected).abs().max().item<double>(), 2e-4);
  EXPECT_GT((plain - expected).abs().max().item<double>(), 1e-2);
}

TEST_F(InternVlLayouts, GradientsOfDefaultSitesAreTheSame) {
  for (const bool llama : {false, true}) {
    if (llama) give_llama_decoder(hf());
    write_chat();
    std::vector<std::vector<torch::Tensor>> all;
    for (const auto& folder : {hf(), chat()}) {
      const auto model = load(folder);
      const auto parameters = add_experts(model->sites(), 2, 4, 3);
      EXPECT_EQ(parameters.size(), 2u * (2 * 2 + 2));
      Want want;
      want.logits = want.loss = true;
      std::vector<torch::Tensor> list;
      for (const auto& [name, tensor] : parameters) list.push_back(tensor);
      all.push_back(gradients(model->forward(batch, Pass{}, want).loss, list));
    }
    for (size_t i = 0; i < all[0].size(); ++i) EXPECT_TRUE(all[0][i].equal(all[1][i])) << i;
  }
}

TEST_F(InternVlLayouts, BadFoldersAreNamed) {
  write_chat();
  EXPECT_CONTAINS(refusal([](json& c) { c["llm_config"]["architectures"] = {"Phi3ForCausalLM"}; }),
                  "config.json: 'llm_config.architectures' names the language model 'Phi3ForCausalLM', which is not "
                  "supported; known: InternLM2ForCausalLM, LlamaForCausalLM, Qwen2ForCausalLM");
  EXPECT_CONTAINS(refusal([](json& c) {
                    c["llm_config"].erase("architectures");
                    c["llm_config"]["model_type"] = "qwen3";
                  }),
                  "'llm_config.architectures'");
  EXPECT_CONTAINS(refusal([](json& c) { c.erase("llm_config"); }), "'llm_config' is missing");
  EXPECT_CONTAINS(refusal([](json& c) { c["vision_config"] = 3; }), "'vision_config' is missing or no object");
  EXPECT_CONTAINS(refusal([](json& c) { c["vision_config"]["model_type"] = "siglip"; }), "must be intern_vit_6b");
  EXPECT_CONTAINS(refusal([](json& c) { c["template"] = "phi3-chat"; }),
                  "known: internvl2_5, internlm2-chat, Hermes-2");
  EXPECT_CONTAINS(refusal([](json& c) { c.erase("template"); }), "'template' is ''");
  EXPECT_CONTAINS(refusal([](json& c) { c["use_llm_lora"] = 16; }), "'use_llm_lora' is not 0");
  EXPECT_CONTAINS(refusal([](json& c) { c["pad2square"] = true; }), "'pad2square'");
  EXPECT_CONTAINS(refusal([](json& c) { c["ps_version"] = "v3"; }), "'ps_version' is 'v3'; known: v1, v2");
  EXPECT_CONTAINS(refusal([](json& c) { c["force_image_size"] = 30; }), "'force_image_size' is 30");
  EXPECT_CONTAINS(refusal([](json& c) { c["select_layer"] = -9; }), "names layer -9");
  EXPECT_CONTAINS(refusal([](json& c) { c["downsample_ratio"] = 0.3; }), "downsample_ratio");
  EXPECT_CONTAINS(refusal([](json& c) { c["vision_config"]["num_hidden_layers"] = 16777216; }),
                  "'model.vision_tower.encoder.layer.2.attention.qkv.weight' is missing (in older files "
                  "'vision_model.encoder.layers.2.attn.qkv.weight')");
  EXPECT_CONTAINS(refusal([](json& c) { c["vision_config"]["hidden_size"] = 48; }),
                  "where config.json asks for 144 rows");
  EXPECT_CONTAINS(refusal([](json& c) { c["vision_config"]["num_hidden_layers"] = 1; }),
                  "tensors that the model does not have, such as 'vision_model.encoder.layers.1.");
  EXPECT_CONTAINS(refusal([](json& c) {
                    c["vision_config"]["layer_norm_eps"] = 1e-5;
                    c["vision_config"]["qk_normalization"] = true;
                  }),
                  "layer_norm_eps");
  EXPECT_CONTAINS(refusal([](json& c) { c["vision_config"].erase("hidden_size"); }), "asks for 9600 rows");
}

TEST_F(InternVlLayouts, BadInternLm2FoldersAreNamed) {
  give_llama_decoder(hf());
  write_chat();
  EXPECT_CONTAINS(refusal([](json& c) { c["llm_config"]["num_key_value_heads"] = 4; }), "rows");
  EXPECT_CONTAINS(refusal([](json& c) { c["llm_config"]["num_key_value_heads"] = 3; }), "rows");
  EXPECT_CONTAINS(refusal([](json& c) { c["llm_config"]["bias"] = true; }),
                  "(in older files 'language_model.model.layers.0.attention.wqkv.bias')");
  EXPECT_CONTAINS(refusal([](json& c) { c["llm_config"]["rope_pos_id_version"] = "v2pe"; }), "'v2pe', which is not");
  EXPECT_CONTAINS(refusal([](json& c) { c["llm_config"]["num_hidden_layers"] = 1; }),
                  "such as 'language_model.model.layers.1.");
  EXPECT_CONTAINS(refusal([](json& c) { c["llm_config"]["hidden_act"] = "gelu"; }), "hidden_act");
  // No configuration makes it fall over: every value of another kind is one line.
  const auto good = read_config(chat());
  const json others[] = {nullptr, -1, 0, 1e300, "x", json::array(), json::object(), true, json::array({"a"})};
  const auto attempt = [&](const json& config) {
    write_text(chat() + "/config.json", config.dump());
    try {
      load_backbone(chat());
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  };
  for (const auto& other : others) {
    for (const auto& [key, value] : good.items()) {
      auto config = good;
      config[key] = other;
      attempt(config);
    }
    for (const char* part : {"llm_config", "vision_config"})
      for (const auto& [key, value] : good[part].items()) {
        auto config = good;
        config[part][key] = other;
        attempt(config);
      }
  }
}

}  // namespace
}  // namespace asr
