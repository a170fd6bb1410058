// PCLR: compression, and what the pool that is left learns from the one before.
#include <cmath>
#include <set>

#include "tests/methods/pclr_case.h"

namespace asr {
namespace {

// P(stage) grows with the root of what was last seen to diverge: 8.9999 and 0.9999 are three to one.
TEST(Pclr, DrawsStagesByTheRootOfTheirDivergence) {
  PclrCase one;
  const auto first = one.made->data(0), second = one.made->data(5);
  one.begin(1, first);
  one.end(1, first);
  one.begin(2, second);
  one.integrate(2, second);
  Phase phase;
  phase.name = "integrate";
  GradientContext after{2, 0, phase, *one.made->bank, one.made->trained};
  int drawn_first = 0;
  for (int64_t i = 0; i < 400; ++i) {
    put_tensor(*one.made->method, "last_divergence", torch::tensor({8.9999, 0.9999}, at::kDouble));
    put_tensor(*one.made->method, "integrated", torch::tensor({i}, at::kLong));
    one.made->method->after_step(after);  // which notes a divergence of 0 for the stage that was drawn
    drawn_first += one.stored("last_divergence")[0].item<double>() == 0;
  }
  EXPECT_GT(drawn_first, 270);  // of 400, 300 wanted with a deviation of 9; without the root it would be 360
  EXPECT_LT(drawn_first, 330);
}

TEST(Pclr, CompressionDropsEveryMthRankAndMovesKeys) {
  PclrCase one;
  const auto first = one.made->data(0), second = one.made->data(5);
  one.begin(1, first);
  one.end(1, first);
  one.begin(2, second);
  std::map<std::string, torch::Tensor> before;
  for (const auto& [name, tensor] : one.made->bank->tensors()) before[name] = tensor.clone();
  const auto keys = one.stored("past_keys").clone(), queries = one.stored("queries").to(at::kDouble);
  one.integrate(2, second);
  EXPECT_EQ(one.number("past_count"), 2);  // every second of 4
  EXPECT_EQ(one.number("fresh_count"), 2);
  for (const char* slot : {"past", "fresh"})
    for (const auto& [name, tensor] : one.made->bank->tensors_of(slot)) {
      const int64_t along = name.find("lora_A") != std::string::npos ? 0 : 1;
      for (int64_t i = 0; i < 2; ++i) EXPECT_TRUE(tensor.select(along, i).equal(before[name].select(along, 2 * i)));
      EXPECT_EQ(tensor.narrow(along, 2, tensor.size(along) - 2).abs().max().item<double>(), 0) << name;
    }
  // Both old ranks are chosen by the first stage's query, and by the second's to fill up: their keys move to both.
  for (int64_t i = 0; i < 2; ++i) {
    const auto sum = keys[2 * i].to(at::kDouble) + queries[0] + queries[1];
    const auto text = sum.narrow(0, 0, 32);
    EXPECT_LT(
        (one.stored("past_keys")[i].narrow(0, 0, 32).to(at::kDouble) - text / text.norm()).abs().max().item<double>(),
        1e-5);
  }
  // All three slots learn now; what they were is there until the stage ends.
  EXPECT_EQ(one.made->bank->trained().size(), one.made->bank->tensors().size());
  EXPECT_EQ(one.number("copies"), static_cast<int64_t>(one.made->bank->tensors().size()));
  one.end(2, second);
  EXPECT_EQ(one.number("copies"), 0);
  EXPECT_FALSE(one.stored("old_gates").defined());
  // The next stage's ranks begin as copies of old ones, and the shared ones take part.
  auto context = one.made->stage_context(3, first);
  one.made->method->begin_stage(context);
  EXPECT_EQ(one.number("past_count"), 4);
  const auto fresh = one.made->bank->tensors_of("fresh"), past = one.made->bank->tensors_of("past");
  for (int64_t i = 0; i < 4; ++i) {
    bool found = false;
    for (int64_t j = 0; j < 4; ++j) found = found || fresh[0].second[i].equal(past[0].second[j]);
    EXPECT_TRUE(found) << i;
  }
  EXPECT_NE(one.made->bank->training() & one.made->bank->bit("shared"), 0u);
}

// Steps of an integration on one batch, outside a trainer, and its loss by hand.
struct IntegrationSteps {
  PclrCase& one;
  SampleBatch batch;
  Phase phase = {};
  std::map<std::string, torch::Tensor> log = {};
  std::vector<std::pair<torch::Tensor, double>> losses = {};
  std::vector<int64_t> rows = {};
  Output nothing = {};
  Share share = {one.made->alone};

  torch::Tensor loss() {
    phase.name = "integrate";
    losses.clear();
    StepContext step{one.made->trained,
                     *one.made->model,
                     *one.made->bank,
                     *one.made->objective,
                     phase,
                     batch,
                     rows,
                     share,
                     nothing,
                     {},
                     log,
                     losses,
                     -1,
                     1};
    one.made->method->add_losses(step);
    EXPECT_EQ(losses.size(), 1u);
    return losses.at(0).first;
  }
  void end_step(int stage) {
    GradientContext after{stage, 0, phase, *one.made->bank, one.made->trained};
    one.made->method->after_step(after);
  }
  // The next step is under the query of this stage of several.
  void let_draw(int64_t wanted, int64_t stages) {
    auto divergence = torch::zeros({stages}, at::kDouble);
    divergence[wanted] = 1e4;
    put_tensor(*one.made->method, "last_divergence", divergence);
  }

  torch::Tensor logits(const std::vector<double>& fresh, const std::vector<double>& past, bool shared) const {
    Want want;
    want.loss = false;
    want.all_logits = true;
    Pass pass;
    pass.slots = one.made->bank->bit("fresh") | one.made->bank->bit("past");
    if (shared) pass.slots |= one.made->bank->bit("shared");
    const GivenWeights given = {{one.made->bank->number("fresh"), torch::tensor(fresh, at::kFloat)},
                                {one.made->bank->number("past"), torch::tensor(past, at::kFloat)}};
    pass.given = &given;
    return one.made->model->forward(batch.input, pass, want).all_logits.to(at::kDouble).detach();
  }
  double apart(const torch::Tensor& teacher, const torch::Tensor& student) const {
    double out = 0;
    for (int64_t b = 0; b < batch.size(); ++b) {
      double sum = 0, count = 0;
      for (int64_t t = 0; t < teacher.size(1); ++t) {
        if (!batch.input.mask[b][t].item<bool>()) continue;
        const auto places =
            std::get<1>(teacher[b][t].sort(0, true)).narrow(0, 0, std::min<int64_t>(100, teacher.size(2)));
        const auto p = (teacher[b][t].index_select(0, places) / 2).softmax(0);
        const auto q = (student[b][t].index_select(0, places) / 2).softmax(0);
        sum += (p * (p.log() - q.log())).sum().item<double>();
        ++count;
      }
      out += sum / count / static_cast<double>(batch.size());
    }
    return out;
  }
};

TEST(Pclr, IntegrationIsTheDivergenceFromTheFullPool) {
  PclrCase one;
  const auto first = one.made->data(0), second = one.made->data(5);
  one.begin(1, first);
  one.end(1, first);
  one.begin(2, second);
  // The shared ranks say something already; they are the student's, not the teacher's, who has dropped none yet.
  one.learn("shared", 0.15);
  IntegrationSteps steps{one, second.rows(range(0, 4))};
  ASSERT_EQ(one.made->bank->layout("past").sites[0].rank, 6);
  const auto old_first = steps.logits({0, 0, 0, 0}, {1, 1, 1, 1, 0, 0}, false),
             old_last = steps.logits({1, 1, 1, 1}, {0, 0, 0, 0, 0, 0}, false);
  one.integrate(2, second);
  // Compressed, the first stage has two old ranks, the last its two and both old ones.
  const double of_first = steps.apart(old_first, steps.logits({0, 0, 0, 0}, {1, 1, 0, 0, 0, 0}, true)),
               of_last = steps.apart(old_last, steps.logits({1, 1, 0, 0}, {1, 1, 0, 0, 0, 0}, true));
  EXPECT_GT(std::abs(of_first - of_last), 1e-4) << of_first << " " << of_last;
  std::set<int64_t> drawn;
  for (int i = 0; i < 12; ++i) {
    const auto last = one.stored("last_divergence").clone();
    const double found = steps.loss().item<double>();
    const int64_t stage = std::abs(found - of_first) < std::abs(found - of_last) ? 0 : 1;
    EXPECT_NEAR(found, stage == 0 ? of_first : of_last, 2e-5) << i;
    steps.end_step(2);
    const auto now = one.stored("last_divergence");
    EXPECT_NEAR(now[stage].item<double>(), found, 1e-9);
    EXPECT_EQ(now[1 - stage].item<double>(), last[1 - stage].item<double>());
    drawn.insert(stage);
  }
  EXPECT_EQ(drawn.size(), 2u);
  // A stage is drawn by the root of how far apart the pools were there last: a hundredth against a hundred.
  for (int i = 0; i < 8; ++i) {
    steps.let_draw(i % 2, 2);
    EXPECT_NEAR(steps.loss().item<double>(), i % 2 == 0 ? of_first : of_last, 2e-5) << i;
    steps.end_step(2);
  }
  steps.losses[0].first.backward();  // the copies are out of the way again: it reaches the ranks in place
  for (const char* slot : {"past", "shared"})
    EXPECT_TRUE(one.made->bank->tensors_of(slot)[0].second.grad().defined()) << slot;
}

// From the first compression on old and shared ranks serve and stay as they are, and the shared ones are the teacher's
// too.
TEST(Pclr, ALaterStageLearnsBesideSharedRanksAndTheirTeacherHasThem) {
  PclrCase one;
  const auto first = one.made->data(0), second = one.made->data(5), third = one.made->data(2);
  one.begin(1, first);
  one.end(1, first);
  one.begin(2, second);
  one.integrate(2, second);
  one.learn("shared", 0.6);
  one.end(2, second);
  one.begin(3, third);
  one.learn("fresh", 0.8);
  const auto& bank = *one.made->bank;
  std::set<std::string> trained, fresh;
  for (const auto& [name, tensor] : bank.trained()) trained.insert(name);
  for (const auto& [name, tensor] : bank.tensors_of("fresh")) fresh.insert(name);
  EXPECT_EQ(trained, fresh);
  for (const char* slot : {"past", "shared"})
    for (const auto& [name, tensor] : bank.tensors_of(slot)) EXPECT_FALSE(tensor.requires_grad()) << name;
  EXPECT_NE(bank.training() & bank.bit("shared"), 0u);
  EXPECT_NE(bank.answering() & bank.bit("shared"), 0u);

  IntegrationSteps steps{one, third.rows(range(0, 4))};
  const std::vector<double> none = {0, 0, 0, 0}, all = {1, 1, 1, 1}, no_past = {0, 0, 0, 0, 0, 0};
  const auto old_earlier = steps.logits(none, {1, 1, 1, 1, 0, 0}, true), old_last = steps.logits(all, no_past, true),
             alone = steps.logits(all, no_past, false);
  one.integrate(3, third);
  EXPECT_EQ(bank.trained().size(), bank.tensors().size());
  const auto new_earlier = steps.logits(none, {1, 1, 0, 0, 0, 0}, true),
             new_last = steps.logits({1, 1, 0, 0}, {1, 1, 0, 0, 0, 0}, true);
  const double of_earlier = steps.apart(old_earlier, new_earlier), of_last = steps.apart(old_last, new_last);
  EXPECT_GT(std::abs(of_earlier - of_last), 1e-4);
  EXPECT_GT(std::abs(steps.apart(alone, new_last) - of_last), 1e-4) << "the shared ranks say nothing";
  for (const int64_t stage : {0, 1, 2}) {
    steps.let_draw(stage, 3);
    EXPECT_NEAR(steps.loss().item<double>(), stage == 2 ? of_last : of_earlier, 2e-5) << stage;
    steps.end_step(3);
  }
}

}  // namespace
}  // namespace asr
