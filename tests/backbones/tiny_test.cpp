#include "backbones/tiny.h"

#include "spectral/spectral_loss.h"
#include "tensor/tensor_io.h"
#include "tests/support/files.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

WordTokenizer tokenizer() {
  return WordTokenizer::from_texts({"what color is the circle?", "red green blue"});
}

TinyConfig small(const std::string& kind) {
  TinyConfig c = tiny_config(kind, "S");
  c.vision.image = 32;
  c.vision.layers = 1;
  c.text.layers = 3;
  c.size = "custom";
  return c;
}

// Two samples: questions of 4 and 3 tokens, the marker of the answer, then answers.
Batch batch_of(const TinyConfig& config) {
  Batch b;
  b.pixels = torch::rand({2, 3, config.vision.image, config.vision.image});
  b.ids = torch::tensor({{11, 12, 13, 14, 2, 21, 1}, {15, 16, 17, 2, 22, 1, 0}});
  b.mask = torch::tensor({{1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 0}}).to(at::kBool);
  b.labels = torch::tensor({{-1, -1, -1, -1, -1, 21, 1}, {-1, -1, -1, -1, 22, 1, -1}});
  b.question = torch::tensor({{1, 1, 1, 1, 0, 0, 0}, {1, 1, 1, 0, 0, 0, 0}}).to(at::kBool);
  return b;
}

Want all_of(int64_t layers) {
  Want want;
  want.tap_layers = layers;
  want.pooled = true;
  want.logits = true;
  want.state = true;
  return want;
}

class TinyKinds : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<TinyBackbone> model(uint64_t seed = 1) const {
    return TinyBackbone::random(small(GetParam()), tokenizer(), seed);
  }
};
INSTANTIATE_TEST_SUITE_P(Both, TinyKinds, ::testing::Values("tiny", "tiny_cross"));

TEST(Tiny, SizesStayWithinWhatShips) {
  for (const char* kind : {"tiny", "tiny_cross"})
    for (const auto& [size, megabytes] : {std::pair<const char*, double>{"S", 4}, {"M", 16}}) {
      const auto model = TinyBackbone::random(tiny_config(kind, size), tokenizer(), 1);
      int64_t parameters = 0;
      for (const auto& [name, weight] : model->named_weights()) parameters += weight.numel();
      EXPECT_LT(2.0 * static_cast<double>(parameters), megabytes * 1e6) << kind << size;
    }
  EXPECT_CONTAINS(error_of([] { tiny_config("tiny", "XL"); }), "use S, M or L");
  EXPECT_CONTAINS(error_of([] { tiny_config("tinny", "S"); }), "use tiny or tiny_cross");
}

TEST_P(TinyKinds, PaddingAndCompanyDoNotChangeASample) {
  torch::manual_seed(1);
  const auto m = model();
  const auto both = batch_of(m->config());
  auto one = both;
  for (auto* t : {&one.pixels, &one.ids, &one.mask, &one.labels, &one.question}) *t = t->narrow(0, 1, 1);
  for (auto* t : {&one.ids, &one.mask, &one.labels, &one.question}) *t = t->narrow(1, 0, 6);
  const auto together = m->forward(both, {}, all_of(2)), alone = m->forward(one, {}, all_of(2));
  EXPECT_TRUE(at::allclose(together.attention.narrow(0, 1, 1).narrow(3, 0, 3), alone.attention, 1e-4, 1e-6));
  EXPECT_TRUE(at::allclose(together.text.narrow(0, 1, 1), alone.text, 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(together.state.narrow(0, 1, 1), alone.state, 1e-4, 1e-5));
}

TEST_P(TinyKinds, FeaturesOfTheFrozenPathGiveTheSameOutput) {
  torch::manual_seed(1);
  const auto m = model();
  auto batch = batch_of(m->config());
  const auto from_pixels = m->forward(batch, {}, all_of(1)).loss;
  batch.features = m->encode_images(batch.pixels);
  batch.pixels = torch::Tensor();
  EXPECT_TRUE(at::allclose(m->forward(batch, {}, all_of(1)).loss, from_pixels, 1e-6, 1e-7));
}

TEST_P(TinyKinds, OnlyAnswerTokensAreLearnt) {
  torch::manual_seed(2);
  const auto m = model();
  auto batch = batch_of(m->config());
  const auto loss = m->forward(batch, {}, {}).loss.item<double>();
  batch.ids[1][6] = 9;  // padding
  EXPECT_NEAR(m->forward(batch, {}, {}).loss.item<double>(), loss, 1e-6);
  batch.labels[0][5] = 23;
  EXPECT_GT(std::abs(m->forward(batch, {}, {}).loss.item<double>() - loss), 1e-4);
}

TEST_P(TinyKinds, SpectralLossReachesTheAdaptersAndAnswersDoNotMatter) {
  torch::manual_seed(3);
  auto m = model();
  const auto experts = add_experts(m->sites(), 4, 8, 2);
  {
    at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : experts)
      if (name.find("lora_B") != std::string::npos) tensor.normal_(0, 0.02);  // at zero, A has no gradient yet
  }
  Options options;
  auto batch = batch_of(m->config());
  const auto loss_of = [&](const Batch& b) {
    const auto out = m->forward(b, {}, all_of(3));
    const auto valid = out.rows.ge(0);
    const SpectralEncoder encoder(4, 4, options.spectral);
    const auto descriptor = encoder.descriptor(out.attention.contiguous(), token_weights(valid, valid));
    torch::manual_seed(9);
    return SpectralLoss(random_prototypes(3, options.spectral), options, at::TensorOptions().dtype(at::kFloat))(
               descriptor, torch::full({2, 3}, 1.0 / 3))
        .loss;
  };
  const auto loss = loss_of(batch);
  std::vector<torch::Tensor> parameters;
  for (const auto& [name, tensor] : experts) parameters.push_back(tensor);
  const auto grads = gradients(loss, parameters);
  for (size_t i = 0; i < grads.size(); ++i) {
    // The last layer's values come after every tapped row: the one place that attention cannot feel.
    const auto& name = experts[i].first;
    const bool cross = m->config().text.cross;
    const bool after = name.rfind(cross ? "layers.2.cross.v" : "layers.2.v", 0) == 0;
    EXPECT_EQ(grads[i].defined() && grads[i].abs().max().item<double>() > 0, !after) << name;
  }
  batch.ids[0][5] = 30;
  batch.labels[0][5] = 30;  // another answer
  EXPECT_NEAR(loss_of(batch).item<double>(), loss.item<double>(), 1e-7);
}

TEST_P(TinyKinds, CachedGenerationEqualsTheSlowWay) {
  torch::manual_seed(4);
  const auto m = model(5);
  auto batch = batch_of(m->config());
  const auto fast = m->generate(batch, {}, 5);
  // The slow way: one sample at a time, the whole sequence again for every token.
  for (int64_t b = 0; b < 2; ++b) {
    Batch one;
    one.pixels = batch.pixels.narrow(0, b, 1);
    auto ids = batch.ids.narrow(0, b, 1).narrow(1, 0, b == 0 ? 5 : 4);
    for (size_t step = 0; step < 5; ++step) {
      one.ids = at::cat({ids, torch::zeros({1, 1}, at::kLong)}, 1);
      one.mask = torch::ones_like(one.ids).to(at::kBool);
      one.labels = torch::full_like(one.ids, -1);
      one.labels[0][ids.size(1)] = 0;
      one.question = torch::zeros_like(one.mask);
      Want want;
      want.logits = true;
      want.loss = false;
      const int64_t best = m->forward(one, {}, want).logits.argmax(-1).item<int64_t>();
      if (best == WordTokenizer::kEnd) {
        EXPECT_EQ(fast[b].size(), step);
        break;
      }
      ASSERT_GT(fast[b].size(), step);
      EXPECT_EQ(fast[b][step], best) << "sample " << b << " step " << step;
      ids = at::cat({ids, torch::full({1, 1}, best, at::kLong)}, 1);
    }
  }
}

TEST_P(TinyKinds, FileRoundTripAndBadFiles) {
  TemporaryFolder folder;
  const auto m = model();
  m->save(folder / "m");
  const auto back = TinyBackbone::load(folder / "m");
  const auto a = m->named_weights(), b = back->named_weights();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(at::equal(a[i].second.to(at::kBFloat16), b[i].second.to(at::kBFloat16))) << a[i].first;
  EXPECT_EQ(back->tokenizer().pieces(), m->tokenizer().pieces());
  EXPECT_EQ(back->config().text.cross, m->config().text.cross);
  auto bytes = read_text(folder / "m");
  bytes[bytes.size() - 9] = static_cast<char>(bytes[bytes.size() - 9] ^ 4);
  write_text(folder / "bad", bytes);
  EXPECT_CONTAINS(error_of([&] { TinyBackbone::load(folder / "bad"); }), "checksum");
  save_tensors(folder / "other", {{"x", torch::zeros({2})}}, {});
  EXPECT_CONTAINS(error_of([&] { TinyBackbone::load(folder / "other"); }), "is no tiny backbone");
}

TEST_P(TinyKinds, ReferenceIsTheSameModelWithExpertsOff) {
  torch::manual_seed(6);
  auto m = model();
  const auto batch = batch_of(m->config());
  const auto base = m->forward(batch, {}, all_of(0)).text;
  const auto experts = add_experts(m->sites(), 4, 8, 2);
  at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : experts) tensor.normal_(0, 0.1);
  EXPECT_TRUE(at::equal(m->forward(batch, Pass{0, nullptr}, all_of(0)).text, base));
  EXPECT_FALSE(at::allclose(m->forward(batch, {}, all_of(0)).text, base));
}

TEST_P(TinyKinds, DropoutIsKeyedAndOnlyTouchesExperts) {
  torch::manual_seed(6);
  auto m = model();
  const auto batch = batch_of(m->config());
  const auto experts = add_experts(m->sites(), 4, 8, 2);
  const auto loss_with = [&](uint64_t key) {
    AdapterDropout dropout{0.3, key};
    return m->forward(batch, Pass{1, &dropout}, {}).loss.item<double>();
  };
  EXPECT_NEAR(loss_with(1), m->forward(batch, {}, {}).loss.item<double>(), 1e-6);  // B is zero: experts say nothing
  at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : experts) tensor.normal_(0, 0.1);
  EXPECT_EQ(loss_with(1), loss_with(1));
  EXPECT_NE(loss_with(1), loss_with(2));
}

}  // namespace
}  // namespace asr
