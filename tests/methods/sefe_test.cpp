// SEFE: which positions are marked, what writing there costs, merged weights, and samples in another style, each
// against numbers made here.
#include "base/interrupt.h"
#include "methods/terms/answer_styles.h"
#include "methods/terms/marked_positions.h"
#include "tensor/torch_compat.h"
#include "tests/methods/method_case.h"
#include "tests/support/process_runs.h"
#include "train/audit.h"

namespace asr {
namespace {

using Positions = std::set<std::pair<int64_t, int64_t>>;

// B A in double, entry by entry.
std::vector<std::vector<double>> product_by_hand(const torch::Tensor& b, const torch::Tensor& a) {
  const auto left = b.detach().to(at::kDouble).contiguous(), right = a.detach().to(at::kDouble).contiguous();
  const auto l = left.accessor<double, 2>(), r = right.accessor<double, 2>();
  std::vector<std::vector<double>> out(static_cast<size_t>(b.size(0)),
                                       std::vector<double>(static_cast<size_t>(a.size(1))));
  for (int64_t i = 0; i < b.size(0); ++i)
    for (int64_t j = 0; j < a.size(1); ++j)
      for (int64_t k = 0; k < a.size(0); ++k) out[size_t(i)][size_t(j)] += l[i][k] * r[k][j];
  return out;
}

Positions largest_by_hand(const std::vector<std::vector<double>>& product, size_t count) {
  std::vector<std::tuple<double, int64_t, int64_t>> all;
  for (size_t i = 0; i < product.size(); ++i)
    for (size_t j = 0; j < product[i].size(); ++j) all.emplace_back(-std::abs(product[i][j]), int64_t(i), int64_t(j));
  std::sort(all.begin(), all.end());
  Positions out;
  for (size_t i = 0; i < count; ++i) out.emplace(std::get<1>(all[i]), std::get<2>(all[i]));
  return out;
}

double mean_by_hand(const std::vector<std::vector<double>>& product, const std::vector<Positions>& marked) {
  double sum = 0, count = 0;
  for (const auto& stage : marked)
    for (const auto& [i, j] : stage) {
      sum += std::abs(product[size_t(i)][size_t(j)]);
      ++count;
    }
  return sum / count;
}

Positions united(const Positions& a, const Positions& b) {
  Positions out = a;
  out.insert(b.begin(), b.end());
  return out;
}

TEST(MarkedPositions, AreTheLargestOfTheProduct) {
  torch::manual_seed(3);
  const auto b = torch::randn({5, 3}), a = torch::randn({3, 11});
  const auto wanted = largest_by_hand(product_by_hand(b, a), 7);
  const auto found = largest_positions(b, a, 7);
  ASSERT_EQ(found.numel(), 7);
  for (int64_t i = 0; i < 7; ++i) {
    const int64_t flat = found[i].item<int64_t>();
    EXPECT_TRUE(wanted.count({flat / 11, flat % 11})) << flat;
  }
  const auto bits = packed_bits(found, 5, 11);
  EXPECT_EQ(bits.sizes().vec(), (std::vector<int64_t>{5, 2}));
  EXPECT_EQ(count_bits(bits), 7);
  const auto mask = unpacked_bits(bits, 11);
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t j = 0; j < 11; ++j) EXPECT_EQ(mask[i][j].item<bool>(), wanted.count({i, j}) == 1) << i << " " << j;
  EXPECT_NE(message_of([&] { largest_positions(b, a, 56); }), "");
}

TEST(MarkedPositions, TheirMeanAndItsGradientAreThoseOfTheWholeProduct) {
  torch::manual_seed(4);
  const auto b = torch::randn({6, 2}).requires_grad_(), a = torch::randn({2, 9}).requires_grad_();
  const auto counts = torch::randint(0, 3, {6, 9}, at::kByte);
  PositionCounts marked;
  marked.counts = counts;
  marked.total = counts.to(at::kDouble).sum().item<double>();
  const auto mean = marked_mean(b, a, marked);
  const auto wide_b = b.detach().to(at::kDouble).requires_grad_(), wide_a = a.detach().to(at::kDouble).requires_grad_();
  const auto direct = (wide_b.mm(wide_a).abs() * counts.to(at::kDouble)).sum() / marked.total;
  EXPECT_NEAR(mean.item<double>(), direct.item<double>(), 1e-6 * direct.item<double>());
  const auto found = gradients(mean, {b, a}), wanted = gradients(direct, {wide_b, wide_a});
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(at::allclose(found[i].to(at::kDouble), wanted[i], 1e-5, 1e-6));
}

// Two finished stages and a third that is being trained; numbers in all factors.
class SefeStages : public testing::Test {
 protected:
  void begin(const std::vector<Assignment>& options) {
    write_small_model(folder / "model");
    fixture.emplace("sefe", options, folder / "model");
    for (int stage = 1; stage <= 3; ++stage) fixture->lay_out(stage);
    fixture->randomise();
    set.emplace(fixture->data());
    auto first = fixture->stage_context(1, *set);
    fixture->method->after_stage(first);
    auto second = fixture->stage_context(2, *set);
    fixture->method->after_stage(second);
    auto third = fixture->stage_context(3, *set);
    fixture->method->before_stage(third);
  }
  const Expert& expert(int stage, const std::string& site) {
    return fixture->bank->at(cat("stage-", stage), site).experts[0];
  }
  // The positions that a finished stage marks in a linear.
  Positions marked(int stage, const std::string& site, double part) {
    const auto& e = expert(stage, site);
    const auto count = std::llround(part * static_cast<double>(e.b.size(0) * e.a.size(1)));
    return largest_by_hand(product_by_hand(e.b, e.a), static_cast<size_t>(count));
  }
  // The term of the third stage, and that of positions that count once for every stage that marked them.
  std::pair<double, double> terms(double part) {
    double once = 0, each = 0, linears = 0;
    for (const auto& site : fixture->bank->layout("stage-3").sites) {
      const auto product = product_by_hand(expert(3, site.site).b, expert(3, site.site).a);
      const auto first = marked(1, site.site, part), second = marked(2, site.site, part);
      once += mean_by_hand(product, {united(first, second)});
      each += mean_by_hand(product, {first, second});
      overlaps += first.size() + second.size() - united(first, second).size();
      ++linears;
    }
    return {once / linears, each / linears};
  }

  TemporaryFolder folder;
  std::optional<MethodCase> fixture;
  std::optional<EncodedSamples> set;
  size_t overlaps = 0;
};

TEST_F(SefeStages, WritingAtMarkedPositionsCostsTheirMeanSize) {
  begin({{"sefe.marked", "0.2", "test"}});
  const auto [once, each] = terms(0.2);
  ASSERT_GT(overlaps, 0u);
  ASSERT_GT(std::abs(once - each), 1e-3 * once);
  const auto added = fixture->losses(set->rows(range(0, 4)));
  EXPECT_NEAR(added.total().item<double>(), 2500 * once, 1e-4 * 2500 * once);
  EXPECT_NEAR(added.log.at("marked_loss").item<double>(), 2500 * once, 1e-4 * 2500 * once);
  // The gradient reaches the new adapter alone, whose factors it shrinks.
  for (const auto& [name, tensor] : fixture->bank->trained()) EXPECT_EQ(name.rfind("stage-3:", 0), 0u) << name;
}

TEST_F(SefeStages, AListCountsPositionsOnceAStage) {
  begin({{"sefe.marked", "0.2", "test"}, {"sefe.repeats", "list", "test"}, {"sefe.weight", "3", "test"}});
  const auto each = terms(0.2).second;
  EXPECT_NEAR(fixture->losses(set->rows(range(0, 4))).total().item<double>(), 3 * each, 1e-4 * 3 * each);
}

TEST_F(SefeStages, TwoPercentAreMarkedByDefault) {
  begin({});
  const double once = terms(0.02).first;
  EXPECT_NEAR(fixture->losses(set->rows(range(0, 4))).total().item<double>(), 2500 * once, 1e-4 * 2500 * once);
}

TEST(Sefe, AFirstStagePaysNothingAndALaterOneBeginsAtZero) {
  OwnModelCase test("sefe", {});
  const auto set = test->data();
  test.begin(1, set);
  test->randomise();
  EXPECT_TRUE(test->losses(set.rows(range(0, 4))).losses.empty());
  auto first = test->stage_context(1, set);
  test->method->after_stage(first);
  test.begin(2, set);
  ASSERT_EQ(test->bank->layout("stage-2").sites.size(), test->bank->layout("stage-1").sites.size());
  for (const auto& site : test->bank->layout("stage-2").sites) {
    const auto& fresh = test->bank->at("stage-2", site.site).experts[0];
    EXPECT_EQ(fresh.b.abs().max().item<double>(), 0) << site.site;
    EXPECT_GT(fresh.a.abs().max().item<double>(), 0) << site.site;
    EXPECT_FALSE(fresh.a.equal(test->bank->at("stage-1", site.site).experts[0].a)) << site.site;
  }
  // Nothing is written anywhere yet, but it would cost something.
  const auto added = test->losses(set.rows(range(0, 4)));
  ASSERT_EQ(added.losses.size(), 1u);
  EXPECT_EQ(added.total().item<double>(), 0);
}

TEST_F(SefeStages, FinishedStagesAreInTheWeights) {
  begin({});
  const auto site = fixture->model->sites().front();
  at::NoGradGuard no_grad;
  const auto x = torch::randn({3, site.linear->weight.size(1)});
  auto wanted = at::linear(x, site.linear->weight);
  for (int stage = 1; stage <= 3; ++stage)
    wanted = wanted + x.mm(expert(stage, site.name).a.t()).mm(expert(stage, site.name).b.t()) * 2;
  EXPECT_TRUE(at::allclose((*site.linear)(x, Pass{fixture->bank->training(), nullptr}), wanted, 1e-4, 1e-4));
  EXPECT_TRUE(at::allclose((*site.linear)(x, Pass{fixture->bank->answering(), nullptr}), wanted, 1e-4, 1e-4));
  EXPECT_TRUE(fixture->bank->is_merged("stage-1") && fixture->bank->is_merged("stage-2"));
}

TEST(AnswerStyles, AskForWhatIsRight) {
  const auto list = answer_list({"red", "blue", "green", "red", "two"});
  EXPECT_EQ(list, (std::vector<std::string>{"blue", "green", "red", "two"}));
  int yes = 0, no = 0, letters = 0, sentences = 0;
  for (uint64_t key = 0; key < 300; ++key) {
    const auto made = restyled({"what color", "red"}, list, key);
    EXPECT_EQ(made.question.rfind("what color ", 0), 0u);
    EXPECT_EQ(restyled({"what color", "red"}, list, key).question, made.question);
    if (made.answer == "yes") {
      EXPECT_CONTAINS(made.question, "is the answer red ?");
      ++yes;
    } else if (made.answer == "no") {
      EXPECT_EQ(made.question.find("answer red"), std::string::npos) << made.question;
      ++no;
    } else if (made.answer.size() == 1) {
      EXPECT_CONTAINS(made.question, made.answer + ". red");
      for (const auto& option : list) EXPECT_CONTAINS(made.question, ". " + option);
      ++letters;
    } else {
      EXPECT_EQ(made.answer, "the answer is red");
      ++sentences;
    }
  }
  // A third each, yes and no alike: more than five deviations from it would be a fault.
  EXPECT_NEAR(letters, 100, 41);
  EXPECT_NEAR(sentences, 100, 41);
  EXPECT_NEAR(yes, 50, 33);
  EXPECT_NEAR(no, 50, 33);
  for (uint64_t key = 0; key < 20; ++key) {
    EXPECT_EQ(restyled({"is it", "yes"}, answer_list({"yes", "no"}), key).answer, "the answer is yes");
    EXPECT_EQ(restyled({"what", "cat"}, answer_list({"cat"}), key).answer, "the answer is cat");
  }
}

TEST(Sefe, AsksItsShareOfAStageInAnotherStyle) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  MethodCase fixture("sefe", {{"sefe.styles", "0.25", "test"}}, folder / "model");
  fixture.lay_out(1);
  const auto set = fixture.data(1);
  const auto rewritten = [&](uint64_t seed) {
    auto stage = fixture.stage_context(1, set);
    stage.seed = seed;
    fixture.method->before_stage(stage);
    std::map<int64_t, std::pair<std::string, std::string>> out;
    for (int64_t first = 0; first < set.size(); first += 4) {
      auto batch = set.rows(range(first, first + 4));
      Share share{fixture.alone};
      fixture.method->mix_batch(batch, share, *fixture.model, 0);
      for (int64_t i = 0; i < 4; ++i) {
        const auto& before = set.info(first + i);
        const auto& after = batch.info[static_cast<size_t>(i)];
        EXPECT_EQ(after.id, before.id);
        if (after.question == before.question) continue;
        out[first + i] = {after.question, after.answer};
        EXPECT_NE(after.answer, before.answer);  // no style answers as the original does
        EXPECT_EQ(after.references, std::vector<std::string>{after.answer});
        // What the model reads and learns is the rewritten text.
        const auto tokens = batch.input.ids[i].masked_select(batch.input.mask[i]);
        std::vector<int64_t> ids(tokens.data_ptr<int64_t>(), tokens.data_ptr<int64_t>() + tokens.numel());
        EXPECT_CONTAINS(fixture.model->tokenizer().decode(ids), after.answer);
      }
    }
    return out;
  };
  const auto first = rewritten(1);
  EXPECT_EQ(first.size(), 3u);  // a quarter of twelve
  EXPECT_EQ(rewritten(1), first);
  EXPECT_NE(rewritten(2), first);
}

TEST(Sefe, RunsWithStylesEndInTheSameBitsWhenResumed) {
  TemporaryFolder folder;
  write_small_model(folder / "model", "tiny_cross");
  const auto options = [&](const std::string& out) {
    auto list = small_run(folder / "model", folder / out, "sefe");
    for (const auto& [key, value] : Settings{{"stream.tasks", "2"},
                                             {"stream.train", "16"},
                                             {"stream.val", "4"},
                                             {"save_steps", "1"},
                                             {"sefe.styles", "0.5"},
                                             {"sefe.repeats", "list"}})
      list.push_back({key, value, "test"});
    return list;
  };
  const auto straight = run_small(options("straight"))[0];
  for (int stop = 0; stop < 3; ++stop) {
    plan_stop(SIGINT, StopPlace::step);
    EXPECT_NE(message_of([&] { run_small(options("stopped"), stop > 0); }), "");
    forget_stop();
  }
  const auto stopped = run_small(options("stopped"), true)[0];
  expect_same_files(straight, stopped);
  const auto audit = audit_run(straight);
  EXPECT_TRUE(audit.passed()) << audit.to_json().dump(1);
  EXPECT_TRUE(audit.replay_free);
  // A merged adapter was trained all the same: rank 16 at every site of the run.
  double wanted = 0;
  const auto model = load_backbone(folder / "model");
  for (const auto& site : model->sites())
    wanted += 16 * static_cast<double>(site.linear->weight.size(0) + site.linear->weight.size(1));
  const auto metrics = nlohmann::json::parse(read_text(straight + "/metrics.json"));
  EXPECT_EQ(metrics["cost"]["adapter_parameters"].get<double>(), wanted);
}

TEST(Sefe, RefusesWhatStylesCannotServe) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto refused = [&](const std::string& method, const Settings& more) {
    auto list = small_run(folder / "model", folder / "out", method);
    list.push_back({"sefe.styles", "0.5", "test"});
    for (const auto& [key, value] : more) list.push_back({key, value, "test"});
    const auto message = message_of([&] { run_small(list); });
    std::filesystem::remove_all(folder / "out");
    return message;
  };
  EXPECT_CONTAINS(refused("sefe", {{"head", "answers"}}), "set head=generate or sefe.styles=0");
  EXPECT_EQ(refused("er+sefe", {}), "");
}

}  // namespace
}  // namespace asr
