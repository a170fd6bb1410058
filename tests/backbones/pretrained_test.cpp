// Models from Hugging Face folders against what transformers and PEFT compute with the same weights.
#include "backbones/pretrained.h"

#include <gtest/gtest.h>

#include <fstream>

#include "spectral/descriptor.h"
#include "spectral/spectral_loss.h"
#include "tests/backbones/reference_checks.h"
#include "tests/support/rounding.h"
#include "tests/support/small_tokenizer.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

namespace fs = std::filesystem;

class ReferenceModel : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { golden = open_reference(GetParam()); }
  Golden golden;
};
INSTANTIATE_TEST_SUITE_P(All, ReferenceModel, ::testing::ValuesIn(reference_models()),
                         [](const auto& entry) { return test_name(entry.param); });

// The references are float32: InstructBLIP's golden is itself 1.6e-4 away from a computation in double.
const Setting kDoubleOnCpu{at::kCPU, at::kDouble, 2e-4, 1e-4, 1e-3, 2e-5};

TEST_P(ReferenceModel, GivesTheSameNumbers) {
  if (!IsSkipped()) check_numbers(golden, kDoubleOnCpu);
}

TEST_P(ReferenceModel, GeneratesTheSameTokens) {
  if (IsSkipped()) return;
  check_tokens(golden, at::kCPU, at::kDouble);
  check_tokens(golden, at::kCPU, at::kFloat);
}

TEST_P(ReferenceModel, AdaptersGiveTheSameGradients) {
  if (!IsSkipped()) check_adapter(golden, kDoubleOnCpu);
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
  for (const auto& site : model->adaptable())
    if (site.linear->has_experts(1)) site.linear->merged = merged_weight(*site.linear, 1);
  // The merged weight has the base's type; in bfloat16 that rounds it.
  const double tolerance = model->token_embedding().element_size() < 4 ? 0.1 : 1e-4;
  const uint64_t no_slot = uint64_t(1) << 63;
  EXPECT_LE(apart(hidden(Pass{no_slot, nullptr}).index({batch.mask}), adapted.index({batch.mask})), tolerance);
  EXPECT_TRUE(hidden(Pass{0, nullptr}).equal(base));
}

// The spectral loss of a sample against some prototypes, as a training step has it: functional words of the question
// are the rows, or the queries of a Q-Former.
torch::Tensor spectral_loss_of(const Batch& batch, const Output& out) {
  torch::manual_seed(11);
  Options options;
  const SpectralEncoder encoder(out.attention.size(4), out.attention.size(5), options.spectral);
  const auto prototypes = random_prototypes(3, options.spectral);
  const auto weights = out.row_weights.defined()
                           ? out.row_weights
                           : token_weights(batch.functional.gather(1, out.rows.clamp_min(0)), out.rows.ge(0));
  const SpectralLoss loss(prototypes, options, out.attention.options());
  const auto posterior = torch::rand({batch.size(), 3}, at::kDouble).softmax(-1).to(out.attention.scalar_type());
  return loss(encoder.descriptor(out.attention, weights), posterior).loss;
}

double size_of(const torch::Tensor& gradient) {
  return gradient.defined() ? gradient.abs().sum().item<double>() : 0;
}

// Where the spectral loss of a family must reach: queries of the tapped attention and what makes the visual tokens.
bool must_learn(const std::string& site, const PretrainedBackbone& model) {
  if (model.folder().type == "instructblip") return site.find("crossattention.attention.query") != std::string::npos;
  const auto last = cat("layers.", model.layers() - 1, ".self_attn.q_proj");
  return site.find("projector") != std::string::npos || site.find("merger") != std::string::npos ||
         (site.size() > last.size() && site.compare(site.size() - last.size(), last.size(), last) == 0);
}

// Runs on text and pictures, with a tokenizer where the model has none.
class TrainedModel : public ReferenceModel {
 protected:
  void SetUp() override {
    ReferenceModel::SetUp();
    if (IsSkipped()) return;
    if (!golden.io.find("in.pixel_values")) GTEST_SKIP() << "a model of text alone has no attention to pictures";
    if (!fs::exists(golden.folder + "/tokenizer.json")) write_small_tokenizer(golden.folder, golden.config);
    image = {40, 60, std::vector<uint8_t>(40 * 60 * 3)};
    for (size_t i = 0; i < image.rgb.size(); ++i) image.rgb[i] = static_cast<uint8_t>(i * 7919 >> 3);
    open(at::kFloat);
  }
  void open(at::ScalarType type) {
    parameters.clear();
    names.clear();
    model = open_model(golden.folder, type);
    torch::manual_seed(5);
    add_experts(model->sites(), 4, 8, 1);
    for (const auto& site : model->sites()) {
      auto& expert = site.linear->slots.back().experts.back();
      expert.b.detach().normal_(0, 0.02);
      parameters.push_back(expert.a);
      parameters.push_back(expert.b);
      names.push_back(site.name + " A");
      names.push_back(site.name + " B");
    }
    want.tap_layers = std::min<int64_t>(2, model->layers());
    want.pooled = true;
  }
  Batch batch_with(const std::string& answer) const {
    PackItem item;
    item.id = "one";
    item.question = "what is the color?";
    item.answer = answer;
    item.images = {&image};
    item.functional = [](const std::vector<Token>& tokens) {  // not all, so that the choice counts
      std::vector<bool> out(tokens.size(), true);
      out[0] = false;
      return out;
    };
    return model->pack({item});
  }
  std::unique_ptr<PretrainedBackbone> model;
  std::vector<torch::Tensor> parameters;
  std::vector<std::string> names;
  Image8 image;
  Want want;
};
INSTANTIATE_TEST_SUITE_P(All, TrainedModel, ::testing::ValuesIn(reference_models()),
                         [](const auto& entry) { return test_name(entry.param); });

TEST_P(TrainedModel, TheSpectralLossReachesAdapters) {
  if (IsSkipped()) return;
  const auto batch = batch_with("red");
  const auto out = model->forward(batch, Pass{}, want);
  ASSERT_EQ(out.attention.dim(), 6);
  const auto loss = spectral_loss_of(batch, out);
  EXPECT_GT(loss.item<double>(), 0);
  const auto grads = gradients(loss, parameters);
  int reached = 0;
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!must_learn(names[i].substr(0, names[i].size() - 2), *model)) continue;
    EXPECT_GT(size_of(grads[i]), 0) << names[i];
    ++reached;
  }
  EXPECT_GE(reached, 2);
}

// Answers come after the rows and are none of them: another one changes neither the maps nor loss nor gradients. But
// the sequence has another length then, so that matrix products may round otherwise. In double, because gradients
// divide by the spread of nearly equal heads: in float32 they keep two or three digits, on some CPUs.
TEST_P(TrainedModel, NothingComesFromAnswers) {
  if (IsSkipped()) return;
  open(at::kDouble);
  const auto batch = batch_with("red"), other = batch_with("a green thing");
  EXPECT_FALSE(batch.question.logical_and(batch.labels.ge(0)).any().item<bool>());
  EXPECT_FALSE(batch.functional.logical_and(batch.labels.ge(0)).any().item<bool>());
  const auto out = model->forward(batch, Pass{}, want), changed = model->forward(other, Pass{}, want);
  // No sum in these models is longer than 1000 terms, and fewer than 100 follow each other.
  const double rounding = rounding_bound(1000 * 100, at::kDouble);
  EXPECT_LE(relative_error(changed.attention, out.attention), rounding);
  // A spread of 1e-3 of its heads costs three digits of the loss, and three more of its slope.
  const auto loss = spectral_loss_of(batch, out), changed_loss = spectral_loss_of(other, changed);
  EXPECT_NEAR(changed_loss.item<double>(), loss.item<double>(), 1e3 * rounding * loss.item<double>());
  const auto grads = gradients(loss, parameters), again = gradients(changed_loss, parameters);
  double largest = 0;
  for (const auto& grad : grads)
    if (grad.defined()) largest = std::max(largest, grad.abs().max().item<double>());
  for (size_t i = 0; i < grads.size(); ++i) {
    ASSERT_EQ(grads[i].defined(), again[i].defined()) << names[i];
    if (grads[i].defined()) {
      EXPECT_LE(apart(grads[i], again[i]), 1e6 * rounding * largest) << names[i];
    }
  }
  // Functional marks on the answer's tokens alone choose no row; the rows stay those of the question.
  auto marked = batch;
  marked.functional = batch.labels.ge(0);
  auto unmarked = batch;
  unmarked.functional = batch.question;
  EXPECT_EQ(spectral_loss_of(marked, out).item<double>(), spectral_loss_of(unmarked, out).item<double>());
}

TEST_P(TrainedModel, LayersThatRunAgainGiveTheSameGradients) {
  if (IsSkipped()) return;
  const auto batch = batch_with("red");
  const auto plain = gradients(model->forward(batch, Pass{}, want).loss, parameters);
  BackboneOptions options;
  options.recompute = true;
  model->configure(options);
  const auto out = model->forward(batch, Pass{}, want);
  EXPECT_TRUE(out.loss.isfinite().item<bool>());
  const auto recomputed = gradients(out.loss, parameters);
  for (size_t i = 0; i < plain.size(); ++i)
    EXPECT_LE(apart(plain[i], recomputed[i]), 1e-5 * (1 + plain[i].abs().max().item<double>())) << names[i];
}

// The last layer may go on with the positions that predict answers, unless somebody looks at the others.
TEST_P(TrainedModel, EndingAtTheAnswersGivesTheSameGradients) {
  if (IsSkipped()) return;
  const auto batch = batch_with("red");
  BackboneOptions options;
  options.ends_at_answers = true;
  for (const bool pooled : {false, true}) {
    want.pooled = pooled;
    model->configure({});
    const auto plain = model->forward(batch, Pass{}, want);
    const auto expected = gradients(plain.loss + plain.attention.square().sum(), parameters);
    model->configure(options);
    const auto out = model->forward(batch, Pass{}, want);
    EXPECT_NEAR(out.loss.item<double>(), plain.loss.item<double>(), 1e-5);
    const auto found = gradients(out.loss + out.attention.square().sum(), parameters);
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_LE(apart(found[i], expected[i]), 1e-5 * (1 + expected[i].abs().max().item<double>())) << names[i];
  }
}

TEST(StoriesModel, ContinuesAsItDid) {
  const std::string source = shared_data() + "/data/stories260K";
  if (!fs::exists(source)) GTEST_SKIP() << "no reference data at " << source;
  TemporaryFolder folder;
  const auto command = "python3 " + std::string(ASR_SOURCE_DIR) + "/tools/convert_stories.py " + source + " -o " +
                       (folder / "stories") + " > /dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const auto model = open_model(folder / "stories");
  std::ifstream file(std::string(ASR_SOURCE_DIR) + "/tests/fixtures/stories260k_greedy.txt");
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

}  // namespace
}  // namespace asr
