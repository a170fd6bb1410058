// QUAD: which questions are kept and asked, its two terms against a model computed by hand in double, with whole
// attention matrices, and their weights.
#include "methods/terms/kept_questions.h"
#include "tests/methods/every_kind.h"
#include "tests/methods/held_state.h"
#include "tests/methods/quad_case.h"

namespace asr {
namespace {

// One question is kept, so that all pictures are asked it.
TEST(Quad, TermsAreThoseOfAModelComputedByHand) {
  struct Case {
    std::string kind, layers;
    size_t held;
  };
  for (const auto& c : {Case{"tiny", "4", 2}, Case{"tiny", "1", 1}, Case{"tiny_cross", "4", 2}}) {
    QuadCase fixture({{"quad.questions", "1", "test"},
                      {"quad.layers", c.layers, "test"},
                      {"quad.lambda", "0.3", "test"},
                      {"quad.answer_tokens", "3", "test"}},
                     c.kind);
    const auto first = fixture.data(0), second = fixture.data(1);
    fixture.enter_second_stage(first, second);
    fixture.move_on();
    const std::vector<int64_t> rows = {1, 4, 6};
    const auto found = fixture.step(second, rows);
    const auto kept = nlohmann::json::parse(held_text(*fixture.method, "questions"));
    ASSERT_EQ(kept.size(), 1u);
    std::vector<ComposedRow> pairs;
    for (size_t i = 0; i < rows.size(); ++i) {
      pairs.push_back({rows[i], rows[i], kept[0][0].get<std::string>()});
      const auto& said = fixture.listening->said[i];
      if (!said.empty()) pairs[i].answer = said;
    }
    const auto batch = second.composed(pairs).input;
    at::NoGradGuard no_grad;
    const auto& model = dynamic_cast<const TinyBackbone&>(*fixture.model);
    const auto teacher = fixture.plain("quad.teacher"), student = fixture.plain(kTrainedSlot);
    const auto old = states_of(teacher, model, batch), now = states_of(student, model, batch);
    const auto attention = attention_by_hand(old, now, batch, c.held, true);
    MeanOfRows answers;
    const int64_t shift = old.hidden.size(1) - batch.ids.size(1);
    for (int64_t b = 0; b < batch.size(); ++b)
      for (int64_t t = 1; t < batch.ids.size(1); ++t) {
        if (batch.labels[b][t].item<int64_t>() < 0) continue;
        const auto p = teacher.logits(old.hidden[b][shift + t - 1]).softmax(0);
        answers.add(p, student.logits(now.hidden[b][shift + t - 1]).softmax(0), p.numel());
      }
    SCOPED_TRACE(c.kind + c.layers);
    ASSERT_EQ(found.losses.size(), 3u);
    EXPECT_DOUBLE_EQ(found.losses[0].second, 0.7);
    EXPECT_DOUBLE_EQ(found.losses[1].second, 0.3);
    EXPECT_DOUBLE_EQ(found.losses[2].second, 0.3);
    // float32 against double, through two layers.
    EXPECT_NEAR(found.losses[1].first.item<double>(), answers.mean().loss, 2e-4 * answers.mean().loss);
    EXPECT_NEAR(found.losses[2].first.item<double>(), attention.loss, 2e-4 * attention.loss);
    EXPECT_NEAR(found.log.at("question_divergence").item<double>(), answers.mean().divergence, 1e-3);
    EXPECT_NEAR(found.log.at("attention_divergence").item<double>(), attention.divergence, 1e-3);
    EXPECT_GT(answers.mean().divergence, 0.01);
    EXPECT_GT(attention.divergence, 1e-3);
  }
}

// The ablation of METHODS: questions alone, attention alone, and both in other parts than one to one.
TEST(Quad, EitherTermMayBeLeftOutOrWeighed) {
  struct Case {
    std::string question, attention;
  };
  MethodCase::Added both;
  for (const auto& c : {Case{"", ""}, Case{"1", "0"}, Case{"0", "1"}, Case{"3", "0.5"}, Case{"0", "0"}}) {
    SCOPED_TRACE(c.question + " " + c.attention);
    std::vector<Assignment> options = {{"quad.lambda", "0.25", "test"}};
    if (!c.question.empty()) options.push_back({"quad.question_weight", c.question, "test"});
    if (!c.attention.empty()) options.push_back({"quad.attention_weight", c.attention, "test"});
    QuadCase fixture(options);
    const auto first = fixture.data(0), second = fixture.data(1);
    fixture.enter_second_stage(first, second);
    fixture.move_on();
    const auto found = fixture.step(second, {1, 4, 6});
    if (c.question.empty()) both = found;
    std::vector<std::pair<torch::Tensor, double>> expected = {{both.losses[0].first, 0.75}};
    if (c.question != "0") expected.emplace_back(both.losses[1].first, c.question == "3" ? 0.75 : 0.25);
    if (c.attention != "0") expected.emplace_back(both.losses[2].first, c.attention == "0.5" ? 0.125 : 0.25);
    if (expected.size() == 1) expected[0].second = 1;  // the method is off
    ASSERT_EQ(found.losses.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_DOUBLE_EQ(found.losses[i].second, expected[i].second) << i;
      const double wanted = expected[i].first.item<double>();
      EXPECT_NEAR(found.losses[i].first.item<double>(), wanted, 1e-5 * wanted) << i;
    }
    EXPECT_EQ(found.log.count("question_loss"), c.question == "0" ? 0u : 1u);
    EXPECT_EQ(found.log.count("attention_loss"), c.attention == "0" ? 0u : 1u);
  }
}

TEST(Quad, AClosedHeadIsHeldToItsEarlierSelf) {
  QuadCase fixture({{"quad.questions", "1", "test"}});
  const auto first = fixture.data(0), second = fixture.data(1);
  fixture.listen(closed_objective(*fixture.model, answers_of({&first, &second})));
  fixture.enter_second_stage(first, second);
  const auto head = fixture.objective->parameters()[0].second.detach().clone().to(at::kDouble);
  fixture.move_on();
  const auto moved = fixture.objective->parameters()[0].second.detach().to(at::kDouble);
  const auto found = fixture.step(second, {0, 3});
  EXPECT_TRUE(fixture.listening->said.empty());  // nothing is written
  const auto kept = nlohmann::json::parse(held_text(*fixture.method, "questions"));
  const auto question = kept[0][0].get<std::string>();
  const auto batch = second.composed({{0, 0, question}, {3, 3, question}}).input;
  at::NoGradGuard no_grad;
  const auto& model = dynamic_cast<const TinyBackbone&>(*fixture.model);
  const auto old = states_of(fixture.plain("quad.teacher"), model, batch);
  const auto now = states_of(fixture.plain(kTrainedSlot), model, batch);
  MeanOfRows answers;
  for (int64_t b = 0; b < 2; ++b) {
    int64_t place = old.hidden.size(1) - batch.ids.size(1) - 1;
    for (int64_t t = 0; t < batch.ids.size(1); ++t)
      place += batch.mask[b][t].item<bool>() && batch.labels[b][t].item<int64_t>() < 0 ? 1 : 0;
    const auto p = head.mv(old.hidden[b][place]).softmax(0);
    answers.add(p, moved.mv(now.hidden[b][place]).softmax(0), p.numel());
  }
  const auto attention = attention_by_hand(old, now, batch, 2, false);
  ASSERT_EQ(found.losses.size(), 3u);
  EXPECT_NEAR(found.losses[1].first.item<double>(), answers.mean().loss, 2e-4 * answers.mean().loss);
  EXPECT_NEAR(found.losses[2].first.item<double>(), attention.loss, 2e-4 * attention.loss);
}

// Ten tokens, unless the option says otherwise.
TEST(Quad, LetsTheTeacherAnswerInSoManyTokens) {
  for (const int64_t longest : {10, 3}) {
    std::vector<Assignment> options;
    if (longest != 10) options.push_back({"quad.answer_tokens", std::to_string(longest), "test"});
    QuadCase fixture(options);
    const auto first = fixture.data(0), second = fixture.data(1);
    fixture.enter_second_stage(first, second);
    fixture.step(second, {0, 1});
    EXPECT_EQ(fixture.listening->limits, std::vector<int64_t>{longest});
  }
}

TEST(Quad, NothingIsAskedInTheFirstStageNorPulledBeforeTheFirstStep) {
  QuadCase fixture({});
  const auto first = fixture.data(0), second = fixture.data(1);
  fixture.lay_out(1);
  fixture.randomise(0.3);
  const auto plain = fixture.step(first, {0, 1});
  ASSERT_EQ(plain.losses.size(), 1u);
  EXPECT_EQ(plain.losses[0].second, 1);
  fixture.enter_second_stage(first, second);
  const auto found = fixture.step(second, {0, 1, 2});
  EXPECT_NEAR(found.log.at("question_divergence").item<double>(), 0, 1e-5);
  EXPECT_NEAR(found.log.at("attention_divergence").item<double>(), 0, 1e-5);
  (found.losses[1].first + found.losses[2].first).backward();
  const auto resting = [&] {
    double most = 0;
    for (auto& [name, tensor] : fixture.trained)
      if (tensor.grad().defined()) most = std::max(most, tensor.grad().abs().max().item<double>());
    return most;
  };
  const double still = resting();
  for (auto& [name, tensor] : fixture.trained) tensor.mutable_grad().reset();
  fixture.move_on();
  const auto later = fixture.step(second, {0, 1, 2});
  (later.losses[1].first + later.losses[2].first).backward();
  EXPECT_LT(still, 1e-3 * resting());
}

// The same samples under other tags: the group serves where there is no category.
std::shared_ptr<SampleSet> tagged(const SampleSet& set, const std::function<std::string(int64_t)>& tag) {
  auto infos = set.infos();
  for (size_t i = 0; i < infos.size(); ++i) {
    const auto here = tag(static_cast<int64_t>(i));
    infos[i].category = i % 2 == 0 ? here : "";
    infos[i].group = i % 2 == 0 ? "any" : here;
  }
  return set.made_of(infos, [&set](int64_t i) { return set.picture(i); });
}

// A picture is asked a question about its own category where one is kept, with its own pixels.
TEST(Quad, AsksAboutThePicturesCategory) {
  for (const bool by_category : {true, false}) {
    QuadCase fixture({{"quad.pairing", by_category ? "category" : "random", "test"}});
    const auto earlier = fixture.data(3), current = fixture.data(1);
    const auto held = tagged(earlier, [](int64_t i) { return i < 6 ? "animals" : "tools"; });
    const auto shown = tagged(current, [](int64_t i) { return i < 4 ? "animals" : i < 8 ? "tools" : "plants"; });
    const SampleSet &first = *held, &second = *shown;
    fixture.enter_second_stage(first, second);
    const auto rows = range(0, 12);
    std::map<std::string, std::set<std::string>> of;  // tags of a question
    for (const auto& info : first.infos()) of[info.question].insert(picture_tag(info));
    std::vector<std::vector<std::string>> rounds;
    int elsewhere = 0, alone = 0;
    const Phase phase;
    for (int64_t number = 0; number < 4; ++number) {
      fixture.step(second, rows);
      const auto& batch = fixture.listening->asked.back();
      EXPECT_TRUE(batch.pixels.equal(second.rows(rows).input.pixels));
      rounds.emplace_back();
      for (int64_t i = 0; i < 12; ++i) {
        std::string asked;
        for (const auto& info : first.infos()) {
          std::vector<int64_t> ids;
          for (const auto& token : fixture.model->tokenizer().encode(info.question)) ids.push_back(token.id);
          if (batch.ids[i].masked_select(batch.question[i]).equal(torch::tensor(ids, at::kLong))) asked = info.question;
        }
        ASSERT_FALSE(asked.empty());
        rounds.back().push_back(asked);
        const auto tag = picture_tag(second.info(i));
        if (tag == "plants") continue;
        alone += of[asked].size() == 1 ? 1 : 0;
        elsewhere += of[asked].count(tag) == 0 ? 1 : 0;
      }
      GradientContext context{2, number, phase, *fixture.bank, fixture.trained};
      fixture.method->after_step(context);
    }
    EXPECT_NE(rounds[0], rounds[1]);  // drawn anew in every step
    EXPECT_GT(alone, 0);
    if (by_category) {
      EXPECT_EQ(elsewhere, 0);
    } else {
      EXPECT_GT(elsewhere, 0);
    }
  }
}

TEST(Quad, KeepsQuestionsAloneInEqualShares) {
  QuadCase fixture({});
  KeptQuestions kept;
  const auto first = fixture.data(0), second = fixture.data(1), third = fixture.data(2);
  kept.share_out(first, 10, 1, 7);
  EXPECT_EQ(kept.all().size(), 10u);
  const auto before = kept.all();
  kept.share_out(second, 10, 2, 7);
  kept.share_out(third, 10, 3, 7);
  std::map<int, int> stages;
  for (const auto& question : kept.all()) {
    ++stages[question.stage];
    const auto& set = question.stage == 1 ? first : question.stage == 2 ? second : third;
    const auto same = [&](const SampleInfo& info) { return info.question == question.text; };
    EXPECT_TRUE(std::any_of(set.infos().begin(), set.infos().end(), same)) << question.text;
  }
  EXPECT_EQ(stages, (std::map<int, int>{{1, 3}, {2, 3}, {3, 3}}));
  KeptQuestions other;
  other.share_out(first, 10, 1, 8);
  const auto texts = [](const std::vector<KeptQuestion>& list) {
    std::vector<std::string> out;
    for (const auto& question : list) out.push_back(question.text);
    return out;
  };
  EXPECT_NE(texts(other.all()), texts(before));  // drawn, not the first

  // Of what the method visits, texts are questions, and there are no tensors of samples.
  fixture.enter_second_stage(first, second);
  struct Lister final : StateVisitor {
    std::map<std::string, StateKind> seen;
    void tensor(const std::string& name, StateKind kind, torch::Tensor&) override { seen[name] = kind; }
    void text(const std::string& name, StateKind kind, std::string&) override { seen[name] = kind; }
  } lister;
  fixture.method->state(lister);
  EXPECT_EQ(lister.seen, (std::map<std::string, StateKind>{{"count", StateKind::statistics},
                                                           {"questions", StateKind::question},
                                                           {"steps", StateKind::statistics}}));
  for (const auto& entry : nlohmann::json::parse(held_text(*fixture.method, "questions"))) EXPECT_EQ(entry.size(), 3u);
}

TEST(Quad, RefusesWhatCannotBe) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  EXPECT_CONTAINS(message_of([&] { run_small(small_run(folder / "model", folder / "out", "quad+o-lora")); }),
                  "quad holds on to adapters that are trained through all stages, and o-lora trains others");
  QuadCase fixture({});
  const auto set = fixture.data();
  fixture.lay_out(1);
  auto context = fixture.stage_context(2, set);
  EXPECT_CONTAINS(message_of([&] { fixture.method->before_stage(context); }),
                  "quad: there is no question of an earlier stage to ask in stage 2");
  for (const std::string damaged : {"{}", "[[\"what?\", \"\"]]", "[[\"\", \"\", 1]]", "[[\"what?\", 3, 1]]"})
    EXPECT_CONTAINS(message_of([&] { put_text(*fixture.method, "questions", damaged); }),
                    "the stored questions are damaged");
}

TEST(Quad, RunsOnEveryKindOfModelWithBothHeads) {
  expect_runs_on_every_kind("quad");
}

}  // namespace
}  // namespace asr
