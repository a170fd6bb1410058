// Models from Hugging Face folders against what transformers and PEFT compute with the same weights.
#include "backbones/pretrained.h"

#include <gtest/gtest.h>

#include <fstream>

#include "backbones/adapter_file.h"
#include "nn/adamw.h"
#include "spectral/descriptor.h"
#include "spectral/options.h"
#include "tensor/torch_compat.h"
#include "tests/support/reference_models.h"
#include "tests/support/small_tokenizer.h"

namespace asr {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<PretrainedBackbone> open_model(const std::string& folder, bool float64 = true) {
  auto model = load_backbone(folder);
  BackboneOptions options;
  options.float64 = float64;
  model->configure(options);
  return std::unique_ptr<PretrainedBackbone>(dynamic_cast<PretrainedBackbone*>(model.release()));
}

Batch batch_of(const Golden& golden) {
  Batch batch;
  batch.ids = golden.index("in.input_ids");
  batch.mask = golden.io.find("in.attention_mask") ? golden.index("in.attention_mask").ne(0)
                                                   : at::ones_like(batch.ids, at::kBool);
  batch.labels = golden.index("in.labels");
  batch.labels = at::where(batch.labels.lt(0), at::full_like(batch.labels, -1), batch.labels);
  if (golden.io.find("in.pixel_values")) batch.pixels = golden.real("in.pixel_values");
  if (golden.io.find("in.image_grid_thw")) batch.image_grid = golden.index("in.image_grid_thw").contiguous();
  if (golden.io.find("in.qformer_input_ids")) {
    batch.instruction = golden.index("in.qformer_input_ids");
    batch.instruction_mask = golden.index("in.qformer_attention_mask").ne(0);
  }
  return batch;
}

double apart(const torch::Tensor& a, const torch::Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

torch::Tensor shifted_loss(const torch::Tensor& logits, const torch::Tensor& labels) {
  const auto wanted = labels.narrow(1, 1, labels.size(1) - 1).flatten();
  const auto rows = wanted.ge(0).nonzero().flatten();
  return at::cross_entropy_loss(logits.narrow(1, 0, logits.size(1) - 1).flatten(0, 1).index_select(0, rows),
                                wanted.index_select(0, rows));
}

class ReferenceModel : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { golden = open_reference(GetParam()); }
  std::vector<int64_t> all_layers(const PretrainedBackbone& model) const {
    std::vector<int64_t> out;
    for (int64_t i = 0; i < model.layers() && golden.io.find("in.pixel_values"); ++i) out.push_back(i);
    return out;
  }
  Golden golden;
};
INSTANTIATE_TEST_SUITE_P(All, ReferenceModel, ::testing::ValuesIn(reference_models()),
                         [](const auto& entry) { return test_name(entry.param); });

// The references are float32: InstructBLIP's golden is itself 1.6e-4 away from a computation in double.
constexpr double kLogits = 2e-4, kAttention = 1e-4, kGradient = 1e-3;

TEST_P(ReferenceModel, GivesTheSameNumbers) {
  if (IsSkipped()) return;
  const auto model = open_model(golden.folder);
  const auto batch = batch_of(golden);
  at::NoGradGuard no_grad;
  const auto rows = batch.mask.logical_and(batch.ids.ne(model->image_token()));
  const auto seen = model->inspect(batch, Pass{}, all_layers(*model), rows);
  const auto logits = model->language().logits(seen.hidden);
  EXPECT_LE(apart(logits.index({batch.mask}), golden.real("out.logits").index({batch.mask})), kLogits);
  EXPECT_NEAR(shifted_loss(logits, batch.labels).item<double>(), golden.real("out.loss").item<double>(), 1e-4);
  if (seen.features.defined()) {
    EXPECT_LE(apart(seen.features.flatten(), golden.real("out.image_features").flatten()), 1e-4);
  }
  const bool qformer = batch.instruction.defined();
  for (size_t i = 0; i < seen.taps.layers.size(); ++i) {
    const auto expected = golden.real(cat("out.attn.", i));
    for (int64_t b = 0; b < batch.size(); ++b) {
      const auto r = seen.rows[b].index({seen.rows[b].ge(0)}), c = seen.columns[b].index({seen.columns[b].ge(0)});
      const auto found = seen.taps.layers[i][b].narrow(1, 0, r.numel()).narrow(2, 0, c.numel());
      EXPECT_LE(apart(found, expected[b].index_select(1, r).index_select(2, c + (qformer ? 1 : 0))), kAttention);
    }
  }
}

TEST_P(ReferenceModel, GeneratesTheSameTokens) {
  if (IsSkipped()) return;
  for (const bool float64 : {true, false}) {
    const auto model = open_model(golden.folder, float64);
    const auto batch = batch_of(golden);
    const auto expected = golden.index("out.generated");
    const int64_t prompt = batch.ids.size(1), fresh = expected.size(1) - prompt;
    const auto rows = model->continue_greedily(batch, batch.mask, Pass{}, fresh, /*fill=*/true);
    for (int64_t b = 0; b < batch.size(); ++b)
      EXPECT_TRUE(torch::tensor(rows[static_cast<size_t>(b)], at::kLong).equal(expected[b].narrow(0, prompt, fresh)));
  }
}

TEST_P(ReferenceModel, AdaptersGiveTheSameGradients) {
  if (IsSkipped()) return;
  const auto model = open_model(golden.folder);
  const auto adapter = load_adapter(*model, golden.folder + "/adapter");
  const auto batch = batch_of(golden);
  const auto seen = model->inspect(batch, Pass{}, {}, batch.mask);
  const auto logits = model->language().logits(seen.hidden);
  EXPECT_LE(apart(logits.index({batch.mask}), golden.real("lora.logits").index({batch.mask})), kLogits);
  const auto loss = shifted_loss(logits, batch.labels);
  EXPECT_NEAR(loss.item<double>(), golden.real("lora.loss").item<double>(), 1e-4);
  std::vector<torch::Tensor> parameters;
  for (const auto& [name, tensor] : adapter) parameters.push_back(tensor);
  const auto grads = gradients(loss, parameters);
  for (size_t i = 0; i < grads.size(); ++i) {
    const auto expected = golden.real("lora.grad.base_model.model." + adapter[i].first);
    EXPECT_LE(apart(grads[i], expected), kGradient * expected.abs().max().item<double>()) << adapter[i].first;
  }
  if (!golden.io.find("lora.step.base_model.model." + adapter[0].first)) return;
  AdamWOptions options;
  options.weight_decay = 0.01;
  AdamW optimizer(parameters, options);
  optimizer.zero_grad();
  for (size_t i = 0; i < grads.size(); ++i) parameters[i].mutable_grad().copy_(grads[i]);
  optimizer.step(1e-3);
  for (const auto& [name, tensor] : adapter)
    // One step of Adam is the sign of the gradient, so that an entry near zero may go either way.
    EXPECT_LE((tensor - golden.real("lora.step.base_model.model." + name)).abs().mean().item<double>(), 2e-5) << name;
}

TEST_P(ReferenceModel, AdaptersGoThroughFilesUnchangedAndMergeAndUnmerge) {
  if (IsSkipped()) return;
  const auto model = open_model(golden.folder);
  const auto adapter = load_adapter(*model, golden.folder + "/adapter");
  TemporaryFolder folder;
  save_adapter(folder / "copy", adapter, {4, 8, 0, model->name()});
  const auto again = open_model(golden.folder);
  const auto reloaded = load_adapter(*again, folder / "copy");
  ASSERT_EQ(adapter.size(), reloaded.size());
  for (size_t i = 0; i < adapter.size(); ++i) {
    EXPECT_EQ(adapter[i].first, reloaded[i].first);
    EXPECT_TRUE(adapter[i].second.equal(reloaded[i].second));
  }
  at::NoGradGuard no_grad;
  const auto batch = batch_of(golden);
  const auto hidden = [&](const Pass& pass) { return model->inspect(batch, pass, {}, batch.mask).hidden; };
  const auto adapted = hidden(Pass{}), base = hidden(Pass{0, nullptr});
  {
    MergedExperts merged(model->adaptable());
    // The merged weight has the base's type; in bfloat16 that rounds it.
    const double tolerance = model->token_embedding().element_size() < 4 ? 0.1 : 1e-4;
    EXPECT_LE(apart(hidden(Pass{0, nullptr}).index({batch.mask}), adapted.index({batch.mask})), tolerance);
  }
  EXPECT_TRUE(hidden(Pass{0, nullptr}).equal(base));
}

// Runs on text and pictures, with a tokenizer where the model has none.
TEST_P(ReferenceModel, TheSpectralGradientReachesAdaptersAndNothingComesFromAnswers) {
  if (IsSkipped()) return;
  if (!golden.io.find("in.pixel_values")) GTEST_SKIP() << "a model of text alone has no attention to pictures";
  if (!fs::exists(golden.folder + "/tokenizer.json")) write_small_tokenizer(golden.folder, golden.config);
  const auto model = open_model(golden.folder, false);
  add_experts(model->sites(), 4, 8, 1);
  std::vector<torch::Tensor> parameters;
  std::vector<std::string> names;
  for (const auto& site : model->sites()) {
    auto& expert = site.linear->experts.back();
    expert.b.detach().normal_(0, 0.02);
    parameters.push_back(expert.a), parameters.push_back(expert.b);
    names.push_back(site.name + " A"), names.push_back(site.name + " B");
  }
  Image8 image{40, 60, std::vector<uint8_t>(40 * 60 * 3)};
  for (size_t i = 0; i < image.rgb.size(); ++i) image.rgb[i] = static_cast<uint8_t>(i * 7919 >> 3);
  PackItem item;
  item.id = "one", item.question = "what is the color?", item.answer = "red", item.images = {&image};
  auto other = item;
  other.answer = "a green thing";
  const auto batch = model->pack({item});
  Want want;
  want.tap_layers = std::min<int64_t>(2, model->layers()), want.pooled = true;
  const auto out = model->forward(batch, Pass{}, want);
  ASSERT_EQ(out.attention.dim(), 6);
  const auto weighted = out.attention * torch::rand_like(out.attention);
  const auto grads = gradients(weighted.sum(), parameters);
  double total = 0;
  for (const auto& grad : grads)
    if (grad.defined()) total += grad.abs().sum().item<double>();
  EXPECT_GT(total, 0);
  // The answer's tokens come after the rows: they change nothing there.
  const auto changed = model->forward(model->pack({other}), Pass{}, want);
  EXPECT_LE(apart(out.attention, changed.attention), 1e-6);
  EXPECT_TRUE(out.loss.isfinite().item<bool>());
  EXPECT_FALSE(batch.question.logical_and(batch.labels.ge(0)).any().item<bool>());

  // Layers that run again in the backward pass give the same gradients.
  BackboneOptions options;
  options.recompute = true;
  const auto plain = gradients(model->forward(batch, Pass{}, want).loss, parameters);
  model->configure(options);
  const auto recomputed = gradients(model->forward(batch, Pass{}, want).loss, parameters);
  for (size_t i = 0; i < plain.size(); ++i)
    EXPECT_LE(apart(plain[i], recomputed[i]), 1e-5 * (1 + plain[i].abs().max().item<double>())) << names[i];
}

TEST(StoriesModel, ContinuesAsItDid) {
  const std::string source = shared_data() + "/data/stories260K";
  if (!fs::exists(source)) GTEST_SKIP() << "no reference data at " << source;
  TemporaryFolder folder;
  const auto command = "python3 " + std::string(ASR_SOURCE_DIR) + "/tools/convert_stories.py " + source + " -o " +
                       (folder / "stories") + " > /dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const auto model = open_model(folder / "stories");
  std::ifstream file(std::string(ASR_SOURCE_DIR) + "/tests/data/stories260k_greedy.txt");
  std::vector<int64_t> expected;
  std::string line;
  std::getline(file, line);
  std::istringstream ids(line);
  for (int64_t id; ids >> id;) expected.push_back(id);
  ASSERT_EQ(expected.size(), 201u);
  const auto found =
      model->continue_greedily(model->pack_ids({1}, {}, {}), torch::ones({1, 1}, at::kBool), Pass{}, 200, false)[0];
  EXPECT_EQ(found, std::vector<int64_t>(expected.begin() + 1, expected.end()));
}

// ---- bad input: one line that says what ----------------------------------------------------------------------------

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
  EXPECT_NE(error().find("is no JSON object"), std::string::npos) << error();
  fs::remove(golden.folder + "/config.json");
  EXPECT_NE(error().find("holds no config.json"), std::string::npos) << error();
}

TEST_F(BadModel, ImageTokensMustMatch) {
  const auto model = open_model(golden.folder);
  auto batch = batch_of(golden);
  batch.ids = at::where(batch.ids.eq(model->image_token()), at::full_like(batch.ids, 5), batch.ids);
  EXPECT_THROW(model->forward(batch, Pass{}, Want{}), Error);
  batch = batch_of(golden);
  batch.ids[0][0] = 100000;
  EXPECT_THROW(model->forward(batch, Pass{}, Want{}), Error);
}

}  // namespace
}  // namespace asr
