// O-LoRA: the sum of absolute overlaps with all earlier A, the norms of the new factors, and who learns.
#include "tensor/torch_compat.h"
#include "tests/methods/method_case.h"

namespace asr {
namespace {

double overlap_by_hand(MethodCase& fixture, const std::string& fresh, const std::vector<std::string>& earlier) {
  double sum = 0;
  for (const auto& site : fixture.bank->layout(fresh).sites) {
    const auto a = fixture.bank->at(fresh, site.site).experts[0].a.detach().to(at::kDouble);
    for (const auto& old : earlier) {
      const auto b = fixture.bank->at(old, site.site).experts[0].a.detach().to(at::kDouble);
      for (int64_t i = 0; i < b.size(0); ++i)
        for (int64_t j = 0; j < a.size(0); ++j) sum += std::abs((b[i] * a[j]).sum().item<double>());
    }
  }
  return sum;
}

TEST(OLora, AddsTheOverlapsAndNorms) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  MethodCase fixture("o-lora", {{"o-lora.orthogonality", "0.25", "test"}, {"o-lora.norm", "0.1", "test"}},
                     folder / "model");
  for (int stage = 1; stage <= 3; ++stage) fixture.lay_out(stage);
  fixture.randomise();
  const auto set = fixture.data();
  auto context = fixture.stage_context(3, set);
  fixture.method->begin_stage(context);
  fixture.method->before_stage(context);
  const auto added = fixture.losses(set.rows(range(0, 4)));
  double norms = 0;
  for (const auto& site : fixture.bank->layout("stage-3").sites) {
    const auto& expert = fixture.bank->at("stage-3", site.site).experts[0];
    norms += expert.a.norm().item<double>() + expert.b.norm().item<double>();
  }
  const double overlap = overlap_by_hand(fixture, "stage-3", {"stage-1", "stage-2"});
  EXPECT_NEAR(added.total().item<double>(), 0.25 * overlap + 0.1 * norms, 1e-4 * overlap);
  EXPECT_NEAR(added.log.at("orthogonality_loss").item<double>(), 0.25 * overlap, 1e-4 * overlap);
  // The gradient shrinks the overlap, and reaches the newest adapter alone.
  std::vector<torch::Tensor> all;
  for (const auto& [name, tensor] : fixture.bank->trained()) {
    EXPECT_EQ(name.rfind("stage-3:", 0), 0u) << name;
    all.push_back(tensor);
  }
  ASSERT_FALSE(all.empty());
  const auto found = gradients(added.losses.at(0).first, all);
  {
    at::NoGradGuard no_grad;
    for (size_t i = 0; i < all.size(); ++i)
      if (found[i].defined()) all[i].sub_(found[i], 1e-4);
  }
  EXPECT_LT(overlap_by_hand(fixture, "stage-3", {"stage-1", "stage-2"}), overlap);
}

TEST(OLora, SumsAllStagesAndTrainsThemTogetherOrAlone) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  for (const std::string with : {"all", "current"}) {
    MethodCase fixture("o-lora", {{"o-lora.trains_with", with, "test"}}, folder / "model");
    fixture.enter_second_stage();
    const auto site = fixture.model->sites().back();
    at::NoGradGuard no_grad;
    const auto x = torch::randn({3, site.linear->weight.size(1)});
    auto one = at::linear(x, site.linear->weight), both = one;
    for (const char* slot : {"stage-2", "stage-1"}) {
      const auto& expert = fixture.bank->at(slot, site.name).experts[0];
      const auto delta = x.mm(expert.a.t()).mm(expert.b.t()) * 2;
      both = both + delta;
      if (std::string(slot) == "stage-2") one = one + delta;
    }
    const auto training = (*site.linear)(x, Pass{fixture.bank->training(), nullptr});
    EXPECT_TRUE(at::allclose((*site.linear)(x, Pass{fixture.bank->answering(), nullptr}), both, 1e-4, 1e-4));
    EXPECT_TRUE(at::allclose(training, with == "all" ? both : one, 1e-4, 1e-4)) << with;
  }
}

}  // namespace
}  // namespace asr
