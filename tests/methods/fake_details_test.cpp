// What single fake methods must have seen, by numbers worked out here.
#include "tests/methods/fake_runs.h"
#include "tests/methods/method_case.h"
#include "train/trainer.h"

namespace asr {
namespace {

FakeCase fake_named(const std::string& name) {
  for (const auto& fake : fake_cases())
    if (fake.name == name) return fake;
  ADD_FAILURE() << name;
  return {};
}

class FakeDetails : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    register_fakes();
    shared_ = new TemporaryFolder;
    write_small_model(*shared_ / "model");
  }
  static void TearDownTestSuite() {
    delete shared_;
    shared_ = nullptr;
  }
  static std::string model() { return *shared_ / "model"; }
  static FakeDiary diary_of(const std::string& name, const Settings& settings = {}) {
    TemporaryFolder folder;
    auto fake = fake_named(name);
    fake.settings.insert(fake.settings.end(), settings.begin(), settings.end());
    return undisturbed(fake_run(model(), folder / "out", fake)).diary;
  }
  static TemporaryFolder* shared_;
};
TemporaryFolder* FakeDetails::shared_ = nullptr;

using Numbers = std::vector<double>;

TEST_F(FakeDetails, HooksComeInOrderAndSeeGradients) {
  const auto diary = diary_of("fake-hooks");
  EXPECT_EQ(diary.calls, (std::vector<std::string>{"begin_stage 1", "before_stage", "begin_phase", "after_stage 1",
                                                   "begin_stage 2", "before_stage", "begin_phase", "after_stage 2"}));
  EXPECT_EQ(diary.numbers.at("step"), (Numbers{0, 1, 0, 1}));
  // B is zero before the first step, so A has no gradient in it; the later ones were there and were taken away.
  const auto& gradients = diary.numbers.at("gradient");
  ASSERT_EQ(gradients.size(), 4u);
  EXPECT_GT(gradients[1], 0);
  EXPECT_GT(gradients[3], 0);
}

TEST_F(FakeDetails, PhasesTrainTheirGroupsOnTheirRowsUntilTold) {
  const auto diary = diary_of("fake-phases");
  EXPECT_EQ(diary.calls,
            (std::vector<std::string>{"begin_stage 1", "phase warm", "phase ", "phase fit", "after_stage 1",
                                      "begin_stage 2", "phase warm", "phase ", "phase fit", "after_stage 2"}));
  EXPECT_EQ(diary.numbers.at("warm"), (Numbers{4, 4, 4, 4}));
  EXPECT_EQ(diary.numbers.at("fit"), (Numbers{4, 4, 4, 4, 4, 4}));
  EXPECT_EQ(diary.numbers.at("fit_loss").size(), 6u);
}

TEST_F(FakeDetails, ReplayedSamplesAreMixedIn) {
  const auto diary = diary_of("fake-mixed-batches");
  EXPECT_EQ(diary.numbers.at("samples"), (Numbers{8, 8, 11, 11}));
  EXPECT_EQ(diary.numbers.at("first stage's"), (Numbers{8, 8, 3, 3}));
}

// Three steps of six samples and two of the first stage's, where there were two of eight: the epoch is the stage's own.
TEST_F(FakeDetails, AShareOfReplayTakesRoomInTheBatch) {
  const auto diary = diary_of("fake-replay-share");
  EXPECT_EQ(diary.numbers.at("samples"), (Numbers{8, 8, 8, 8, 8}));
  EXPECT_EQ(diary.numbers.at("first stage's"), (Numbers{8, 8, 2, 2, 2}));
}

TEST_F(FakeDetails, ReplayedBatchesComeBetweenSteps) {
  const auto diary = diary_of("fake-extra-batches");
  EXPECT_EQ(diary.numbers.at("samples"), (Numbers{8, 8, 8, 8, 4}));
  EXPECT_EQ(diary.numbers.at("first stage's"), (Numbers{8, 8, 0, 0, 4}));
}

TEST_F(FakeDetails, ATermOverTheStepSeesAllOfIt) {
  const auto diary = diary_of("fake-whole-step");
  EXPECT_EQ(diary.numbers.at("samples of a step"), Numbers(8, 8));
  for (const double far : diary.numbers.at("far from its row")) EXPECT_LT(far, 1e-5);
}

TEST_F(FakeDetails, VectorsAreInsertedAndSamplesWeighedInEveryTrainingPass) {
  const auto diary = diary_of("fake-inserted", {{"lora_dropout", "0"}});
  EXPECT_EQ(diary.numbers.at("inserted"), (Numbers{2, 2, 2, 2}));
  const auto &found = diary.numbers.at("loss"), &expected = diary.numbers.at("loss by hand");
  ASSERT_EQ(found.size(), 4u);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5 * expected[i]);
}

// With a key a sample, every sample is nearest to its own.
TEST_F(FakeDetails, KeysWeighEverySampleByItself) {
  MethodCase fixture("fake-keys", {{"fake-keys.sharpness", "20", "test"}}, model());
  fixture.lay_out(1);
  const auto set = fixture.data().subset({0, 5, 9});
  auto context = fixture.stage_context(1, *set);
  fixture.method->begin_stage(context);
  for (const bool answering : {false, true}) {
    const auto routed = fixture.pass(set->rows({2, 0, 1}), 1, answering);
    const auto weights = routed.given.at(fixture.bank->number(kTrainedSlot));
    ASSERT_EQ(weights.sizes(), (std::vector<int64_t>{3, 3}));
    EXPECT_TRUE(weights.argmax(1).equal(torch::tensor({2, 0, 1}, at::kLong))) << weights;
    EXPECT_TRUE(weights.sum(1).allclose(torch::ones({3})));
  }
}

TEST_F(FakeDetails, MethodsThatExcludeEachOtherAreRefused) {
  for (const char* composition : {"fake-mixed-batches+fake-extra-batches", "fake-slots+fake-frozen-parts"})
    EXPECT_NE(message_of([&] { method_parts(composition); }), "") << composition;
  EXPECT_EQ(message_of([] { method_parts("fake-slots+fake-extra-batches"); }), "");
}

// Two steps of eight are an epoch: every one of the eight that were chosen has been there twice.
TEST_F(FakeDetails, AStageTakesTheSamplesThatWereChosenAndLearnsTheMethodsObjective) {
  const auto diary = diary_of("fake-objective");
  ASSERT_EQ(diary.done.at(2).count("fake.rows"), 1u);
  EXPECT_FALSE(diary.done.at(2).at("fake.rows").equal(diary.begun.at(1).at("fake.rows")));
  std::map<std::string, int> seen;
  int stages = 0;
  for (const auto& call : diary.calls) {
    if (call.rfind("took ", 0) == 0) ++seen[call];
    if (call.rfind("after_stage ", 0) != 0) continue;
    ++stages;
    EXPECT_EQ(seen.size(), 8u);
    for (const auto& [name, times] : seen) EXPECT_EQ(times, 2) << name;
    seen.clear();
  }
  EXPECT_EQ(stages, 2);
}

// Adam's first steps are as long as its rate: 1 and, by the cosine, 1/2 of the peak.
TEST_F(FakeDetails, RatesAndDecaysAreTheGroupsOwn) {
  const auto longest = [](const FakeDiary& diary, const std::string& part) {
    double out = 0;
    for (const auto& [name, after] : diary.done.at(1))
      if (name.find(part) != std::string::npos)
        out = std::max(out, (after - diary.begun.at(1).at(name)).abs().max().item<double>());
    return out;
  };
  const auto full = diary_of("fake-full");
  EXPECT_NEAR(longest(full, ".full."), 1.5 * FakeFull::kRate, 0.1 * FakeFull::kRate);
  EXPECT_NEAR(longest(full, "lora_B"), 1.5 * 0.01, 0.1 * 0.01);
  const auto group = diary_of("fake-group");
  const auto moved = (group.done.at(1).at("fake.mix") - group.begun.at(1).at("fake.mix")).abs().max().item<double>();
  EXPECT_GT(moved, 0.3 * FakeGroup::kRate);
  EXPECT_LT(moved, 1.5 * FakeGroup::kRate * (1 + FakeGroup::kDecay));
}

// Slots by number, sites by their layout: rank and scale of each stage are its own.
TEST_F(FakeDetails, SlotsHaveTheirOwnShape) {
  MethodCase fixture("fake-slots", {}, model());
  fixture.lay_out(1);
  fixture.lay_out(2);
  const auto site = fixture.model->sites().front().name;
  for (int stage = 1; stage <= 2; ++stage) {
    const auto& expert = fixture.bank->at(fake_stage_slot(stage), site).experts.at(0);
    EXPECT_EQ(expert.a.size(0), 1 + stage);
    EXPECT_EQ(expert.scale, 2.0 / stage);
    EXPECT_NEAR(expert.a.std().item<double>(), 0.02 * stage, 0.01 * stage);
  }
}

// A run's model is the base again when the run is over.
TEST_F(FakeDetails, TheModelIsTheBaseAgainWhenTheRunIsOver) {
  for (const char* name : {"fake-merged", "fake-full", "fake-vision", "fake-fused"}) {
    TemporaryFolder folder;
    const auto config = resolve_run(fake_run(model(), folder / "out", fake_named(name)));
    const auto base = load_backbone(model());
    base->configure(config.run.backbone_options());
    std::map<std::string, torch::Tensor> before;
    for (const auto& site : base->all_sites()) before[site.name] = site.linear->weight.clone();
    const auto stream = make_stream(config.run.stream);
    const auto analyser = make_analyser(config.run.parser_path(), config.options.asr.skill);
    const Team alone;
    Data data(*stream, *base, *analyser, alone);
    Trainer(config, {name, name, 0, 0, folder / "out"}, *base, data, alone).run(false);
    for (const auto& site : base->all_sites()) {
      EXPECT_TRUE(site.linear->weight.equal(before.at(site.name))) << name << " " << site.name;
      EXPECT_TRUE(site.linear->slots.empty() && !site.linear->merged.defined()) << name << " " << site.name;
    }
  }
}

// A gate's weights belong to a sample: neither who shares its batch nor how far it is padded matters, and what was
// found at its prompt holds for the tokens that follow.
TEST_F(FakeDetails, AnswersDoNotDependOnTheBatch) {
  const auto cross = *shared_ / "cross";
  write_small_model(cross, "tiny_cross");
  auto cases = fake_gate_cases();
  cases.push_back(fake_named("fake-inserted"));
  for (const auto& path : {model(), cross})
    for (const auto& fake : cases) {
      MethodCase fixture(fake.name, {}, path);
      fixture.enter_second_stage();
      fixture.randomise(0.3);
      const auto set = fixture.data();
      at::NoGradGuard no_grad;
      const auto answers = [&](const std::vector<int64_t>& rows) {
        const auto batch = set.rows(rows);
        const auto routed = fixture.pass(batch, 2, true);
        return fixture.objective->answers(*fixture.model, routed.seen(batch).input, routed.pass(), 6);
      };
      const auto all = answers(range(0, set.size()));
      for (int64_t i = 0; i < set.size(); ++i)
        EXPECT_EQ(answers({i})[0], all[static_cast<size_t>(i)]) << fake.name << " " << i;
    }
}

// A router that reads the first token gives the same weights at the prompt and in a pass over prompt and answer: the
// generated tokens must be the likeliest of that pass, one by one.
TEST_F(FakeDetails, GenerationKeepsTheWeightsOfThePrompt) {
  const auto cross = *shared_ / "cross2";
  write_small_model(cross, "tiny_cross");
  int compared = 0;
  for (const auto& path : {model(), cross})
    for (const char* name :
         {"fake-router-first", "fake-router-token", "fake-given-by-sample", "fake-keys", "fake-inserted"}) {
      MethodCase fixture(name, {}, path);
      fixture.enter_second_stage();
      fixture.randomise(0.3);
      const auto set = fixture.data();
      at::NoGradGuard no_grad;
      for (int64_t i = 0; i < set.size(); ++i) {
        const auto batch = set.rows({i});
        const auto routed = fixture.pass(batch, 1, true);
        const auto tokens = fixture.model->generate(routed.seen(batch).input, routed.pass(), 4)[0];
        const auto answer = fixture.objective->answers(*fixture.model, routed.seen(batch).input, routed.pass(), 4)[0];
        if (answer.empty()) continue;
        ComposedRow row;
        row.picture = row.text = i;
        row.answer = answer;
        const auto whole = set.composed({row});
        const auto labels = whole.input.labels.masked_select(whole.input.labels.ge(0));
        const int64_t known = labels.size(0) - 1;  // the end may not have come within the limit
        // Special tokens have no place in a text.
        if (known > static_cast<int64_t>(tokens.size())) continue;
        const auto generated = torch::tensor(tokens, at::kLong).narrow(0, 0, known);
        if (!generated.equal(labels.narrow(0, 0, known))) continue;
        const auto likeliest =
            fixture.objective->logits_of(*fixture.model, routed.seen(whole), routed.pass()).argmax(1);
        EXPECT_TRUE(likeliest.narrow(0, 0, known).equal(generated)) << name << " " << i;
        ++compared;
      }
    }
  EXPECT_GT(compared, 0);
}

}  // namespace
}  // namespace asr
