#include "backbones/tiny.h"

#include "spectral/spectral_loss.h"
#include "tests/support/files.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

TinyConfig small() {
  TinyConfig c = tiny_config("S", 40);
  c.vision.image = 32, c.vision.layers = 1, c.text.layers = 3;
  return c;
}

// Two samples: questions of 4 and 3 tokens after a start token, then answers.
TinyBatch batch_of(const TinyConfig& config) {
  TinyBatch b;
  b.pixels = torch::rand({2, 3, config.vision.image, config.vision.image});
  b.ids = torch::tensor({{1, 11, 12, 13, 14, 21, 2}, {1, 15, 16, 17, 22, 2, 0}});
  b.mask = torch::tensor({{1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 0}}).to(at::kBool);
  b.labels = torch::tensor({{-1, -1, -1, -1, -1, 21, 2}, {-1, -1, -1, -1, 22, 2, -1}});
  b.question = torch::tensor({{0, 1, 1, 1, 1, 0, 0}, {0, 1, 1, 1, 0, 0, 0}}).to(at::kBool);
  return b;
}

TEST(Tiny, SizesStayWithinWhatShips) {
  for (const auto& [size, megabytes] : {std::pair<const char*, double>{"S", 4}, {"M", 16}}) {
    const auto model = TinyBackbone::random(tiny_config(size, 256), 1);
    int64_t parameters = 0;
    for (const auto& [name, weight] : model.named_weights()) parameters += weight.numel();
    EXPECT_LT(2.0 * static_cast<double>(parameters), megabytes * 1e6) << size;
  }
  EXPECT_CONTAINS(error_of([] { tiny_config("XL", 10); }), "use S, M or L");
}

TEST(Tiny, PaddingAndCompanyDoNotChangeASample) {
  torch::manual_seed(1);
  const auto model = TinyBackbone::random(small(), 1);
  const auto both = batch_of(model.config());
  auto one = both;
  for (auto* t : {&one.pixels, &one.ids, &one.mask, &one.labels, &one.question}) *t = t->narrow(0, 1, 1);
  for (auto* t : {&one.ids, &one.mask, &one.labels, &one.question}) *t = t->narrow(1, 0, 6);
  const auto together = model.forward(both, {}, 2), alone = model.forward(one, {}, 2);
  EXPECT_TRUE(at::allclose(together.attention.narrow(0, 1, 1).narrow(3, 0, 3), alone.attention, 1e-4, 1e-6));
  EXPECT_TRUE(at::allclose(together.text.narrow(0, 1, 1), alone.text, 1e-4, 1e-5));
}

TEST(Tiny, OnlyAnswerTokensAreLearnt) {
  torch::manual_seed(2);
  const auto model = TinyBackbone::random(small(), 1);
  auto batch = batch_of(model.config());
  const auto loss = model.forward(batch, {}, 0).loss.item<double>();
  batch.ids[1][6] = 9;  // padding
  EXPECT_NEAR(model.forward(batch, {}, 0).loss.item<double>(), loss, 1e-6);
  batch.labels[0][5] = 23;
  EXPECT_GT(std::abs(model.forward(batch, {}, 0).loss.item<double>() - loss), 1e-4);
}

TEST(Tiny, SpectralLossReachesTheAdaptersAndAnswersDoNotMatter) {
  torch::manual_seed(3);
  auto model = TinyBackbone::random(small(), 1);
  const auto experts = model.add_experts(4, 8, 2);
  {
    at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : experts)
      if (name.find("lora_B") != std::string::npos) tensor.normal_(0, 0.02);  // at zero, A has no gradient yet
  }
  Options options;
  auto batch = batch_of(model.config());
  const auto loss_of = [&](const TinyBatch& b) {
    const auto out = model.forward(b, {}, 3);
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
    const bool after = experts[i].first.rfind("layers.2.v", 0) == 0;
    EXPECT_EQ(grads[i].defined() && grads[i].abs().max().item<double>() > 0, !after) << experts[i].first;
  }
  batch.ids[0][5] = 30, batch.labels[0][5] = 30;  // another answer
  EXPECT_NEAR(loss_of(batch).item<double>(), loss.item<double>(), 1e-7);
}

TEST(Tiny, CachedGenerationEqualsTheSlowWay) {
  torch::manual_seed(4);
  const auto model = TinyBackbone::random(small(), 5);
  auto batch = batch_of(model.config());
  const auto fast = model.generate(batch, {}, 6, /*end=*/-5);
  // The slow way: one sample at a time, the whole sequence again for every token, the loss telling which token is best.
  for (int64_t b = 0; b < 2; ++b) {
    const int64_t length = b == 0 ? 5 : 4;
    TinyBatch one;
    one.pixels = batch.pixels.narrow(0, b, 1);
    auto ids = batch.ids.narrow(0, b, 1).narrow(1, 0, length);
    for (int step = 0; step < 6; ++step) {
      int64_t best = 0;
      double least = 1e300;
      for (int64_t token = 0; token < 40; ++token) {
        one.ids = at::cat({ids, torch::full({1, 1}, token, at::kLong)}, 1);
        one.mask = torch::ones_like(one.ids).to(at::kBool);
        one.labels = torch::full_like(one.ids, -1);
        one.labels[0][ids.size(1)] = token;
        one.question = torch::zeros_like(one.mask);
        const double loss = model.forward(one, {}, 0).loss.item<double>();
        if (loss < least) least = loss, best = token;
      }
      EXPECT_EQ(fast[b][step], best) << "sample " << b << " step " << step;
      ids = at::cat({ids, torch::full({1, 1}, best, at::kLong)}, 1);
    }
  }
}

TEST(Tiny, FileRoundTripAndBadFiles) {
  TemporaryFolder folder;
  const auto model = TinyBackbone::random(small(), 1);
  model.save(folder / "m");
  const auto back = TinyBackbone::load(folder / "m");
  const auto a = model.named_weights(), b = back.named_weights();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(at::equal(a[i].second.to(at::kBFloat16), b[i].second.to(at::kBFloat16))) << a[i].first;
  auto bytes = read_text(folder / "m");
  bytes[bytes.size() - 9] = static_cast<char>(bytes[bytes.size() - 9] ^ 4);
  write_text(folder / "bad", bytes);
  EXPECT_CONTAINS(error_of([&] { TinyBackbone::load(folder / "bad"); }), "checksum");
}

TEST(Tiny, ReferenceIsTheSameModelWithExpertsOff) {
  torch::manual_seed(6);
  auto model = TinyBackbone::random(small(), 1);
  const auto batch = batch_of(model.config());
  const auto base = model.forward(batch, {}, 0).image;
  const auto experts = model.add_experts(4, 8, 2);
  at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : experts) tensor.normal_(0, 0.1);
  EXPECT_TRUE(at::equal(model.forward(batch, Pass{false}, 0).image, base));
  EXPECT_FALSE(at::allclose(model.forward(batch, {}, 0).image, base));
}

}  // namespace
}  // namespace asr
