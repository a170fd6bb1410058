// MoELoRA: y = W x + s sum_i softmax(W_r x)_i B_i A_i x with all experts, lora_rank shared out among them.
#include <cmath>

#include "tensor/torch_compat.h"
#include "tests/methods/method_case.h"

namespace asr {
namespace {

TEST(MoeLora, IsTheDenseMixtureOfItsExperts) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  MethodCase fixture("moelora", {{"moelora.experts", "2", "test"}}, folder / "model");
  fixture.lay_out(1);
  fixture.randomise(0.3);
  const auto site = fixture.model->sites().back();
  const auto& slot = site.linear->slots.at(0);
  ASSERT_EQ(slot.experts.size(), 2u);
  EXPECT_EQ(slot.experts[0].a.size(0), 2);  // lora_rank 4 over two experts
  EXPECT_EQ(slot.experts[0].scale, 2);      // lora_alpha 8 over the whole rank
  at::NoGradGuard no_grad;
  const auto x = torch::randn({2, 3, site.linear->weight.size(1)});
  auto expected = torch::zeros({2, 3, site.linear->weight.size(0)});
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t t = 0; t < 3; ++t) {
      const auto token = x[b][t];
      const auto scores = slot.training.router.mv(token);
      const auto weights = (scores - scores.max()).exp() / (scores - scores.max()).exp().sum();
      auto y = site.linear->weight.mv(token);
      for (int64_t e = 0; e < 2; ++e) {
        const auto& expert = slot.experts[static_cast<size_t>(e)];
        y = y + expert.b.mv(expert.a.mv(token)) * (2 * weights[e]);
      }
      expected[b][t].copy_(y);
    }
  Pass pass;
  pass.slots = fixture.bank->training();
  EXPECT_TRUE(at::allclose((*site.linear)(x, pass), expected, 1e-4, 1e-4));
  pass.answering = true;
  EXPECT_TRUE(at::allclose((*site.linear)(x, pass), expected, 1e-4, 1e-4));
}

class RoutedExperts : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Methods, RoutedExperts, ::testing::Values("moelora", "cl-moe"),
                         [](const auto& chosen) { return chosen.param == "moelora" ? "MoeLora" : "ClMoe"; });

// A is drawn from N(0, 0.01^2), B is zero.
TEST_P(RoutedExperts, BeginAsPublished) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  MethodCase fixture(GetParam(), {{GetParam() + ".experts", "4", "test"}}, folder / "model");
  fixture.lay_out(1);
  std::vector<torch::Tensor> drawn;
  for (const auto& site : fixture.model->sites()) {
    const auto& experts = site.linear->slots.at(0).experts;
    if (experts.size() == 1) continue;  // cl-moe's projector
    for (const auto& expert : experts) {
      drawn.push_back(expert.a.detach().flatten().to(at::kDouble));
      EXPECT_EQ(expert.b.detach().abs().max().item<float>(), 0);
    }
  }
  const auto all = at::cat(drawn);
  const auto n = static_cast<double>(all.numel());
  ASSERT_GT(n, 500);
  // Five standard errors of a mean and of a deviation.
  EXPECT_NEAR(all.mean().item<double>(), 0, 5 * 0.01 / std::sqrt(n));
  EXPECT_NEAR(all.square().mean().sqrt().item<double>(), 0.01, 5 * 0.01 / std::sqrt(2 * n));
}

// METHODS: experts 2.499M x r and routers 1.139M x n on LLaVA's linears; here by the same count.
TEST(MoeLora, CountsAsTheFormulaDoes) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  MethodCase fixture("moelora", {{"moelora.experts", "4", "test"}, {"moelora.sites", "all", "test"}}, folder / "model");
  fixture.lay_out(1);
  int64_t expected = 0;
  for (const auto& site : fixture.model->all_sites()) {
    if (site.part == SitePart::vision) continue;
    const int64_t in = site.linear->weight.size(1), out = site.linear->weight.size(0);
    expected += 4 * (in + out) + 4 * in;
  }
  int64_t numbers = 0;
  for (const auto& [name, tensor] : fixture.bank->tensors()) numbers += tensor.numel();
  EXPECT_EQ(numbers, expected);
  EXPECT_EQ(fixture.bank->trained().size(), fixture.bank->tensors().size());
  fixture.lay_out(2);
  EXPECT_EQ(fixture.bank->slots(), std::vector<std::string>{kTrainedSlot});
}

// Nothing is frozen when a stage is over: every expert and every router learns from the next one's data.
TEST(MoeLora, AllOfItLearnsInALaterStageToo) {
  OwnModelCase test("moelora", MethodOptions{{"experts", "2"}});
  const auto first = test->data(0), second = test->data(1);
  test.begin(1, first);
  test->randomise(0.3);
  auto over = test->stage_context(1, first);
  test->method->after_stage(over);
  test.begin(2, second);
  const auto trained = test->bank->trained();
  EXPECT_EQ(trained.size(), 5 * test->model->sites().size());  // two A, two B and a router each
  std::vector<torch::Tensor> all;
  for (const auto& [name, tensor] : trained) all.push_back(tensor);
  const Pass training{test->bank->training(), nullptr};
  const auto found = gradients(test->objective->loss_of(*test->model, second.rows(range(0, 6)), training), all);
  for (size_t i = 0; i < all.size(); ++i)
    EXPECT_TRUE(found[i].defined() && found[i].abs().max().item<double>() > 0) << trained[i].first;
}

TEST(MoeLora, RefusesARankThatCannotBeShared) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  auto list = small_run(folder / "model", folder / "out", "moelora");
  list.push_back({"moelora.experts", "3", "test"});
  list.push_back({"lora_rank", "4", "test"});
  EXPECT_CONTAINS(message_of([&] { run_small(list); }), "moelora.experts=3 does not divide lora_rank=4");
}

}  // namespace
}  // namespace asr
