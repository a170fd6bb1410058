// D-MoLE: the budget and its split, experts at the top linears, autoencoders and their thresholds, who answers.
#include <cmath>
#include <numeric>
#include <set>

#include "methods/terms/site_budget.h"
#include "tests/methods/d_mole_case.h"
#include "tests/methods/every_kind.h"
#include "tests/methods/listening_objective.h"

namespace asr {
namespace {

// Every site's score by the definition: the gradient's norm of its weight, of the mean loss of these rows on the base.
std::vector<double> gradient_norms(MethodCase& fixture, const std::vector<AdapterSite>& sites,
                                   const SampleBatch& batch) {
  std::vector<torch::Tensor> weights;
  for (const auto& site : sites) weights.push_back(site.linear->weight.requires_grad_(true));
  const auto loss = fixture.objective->loss_of(*fixture.model, batch, Pass{0, nullptr});
  loss.backward();
  std::vector<double> out;
  for (auto& weight : weights) {
    double sum = 0;
    const auto flat = weight.grad().flatten().to(at::kDouble).contiguous();
    for (int64_t i = 0; i < flat.numel(); ++i) sum += flat.data_ptr<double>()[i] * flat.data_ptr<double>()[i];
    out.push_back(std::sqrt(sum));
    weight.mutable_grad().reset();
    weight.requires_grad_(false);
  }
  return out;
}

// Attention of the language model and of the tower.
std::vector<AdapterSite> attention_sites(Backbone& model) {
  std::vector<AdapterSite> out;
  for (const auto& site : model.all_sites())
    if (site.part <= SitePart::o || (site.part >= SitePart::cross_q && site.part <= SitePart::vision))
      out.push_back(site);
  return out;
}

// Two fifths of these sites, of the tower at least that part and at least its part of the scores: the best of each.
std::set<std::string> two_fifths_by_hand(const std::vector<AdapterSite>& sites, const std::vector<double>& scores,
                                         double least) {
  double tower = 0, all = 0;
  std::vector<std::pair<double, std::string>> vision, text;
  for (size_t i = 0; i < sites.size(); ++i) {
    all += scores[i];
    if (sites[i].part == SitePart::vision) tower += scores[i];
    (sites[i].part == SitePart::vision ? vision : text).emplace_back(scores[i], sites[i].name);
  }
  EXPECT_GT(tower, 0) << "the probe does not reach the tower";
  const double total = std::round(0.4 * static_cast<double>(sites.size()));
  auto in_tower = static_cast<size_t>(std::llround(total * std::max(least, tower / all)));
  in_tower = std::min(in_tower, vision.size());
  std::sort(vision.rbegin(), vision.rend());
  std::sort(text.rbegin(), text.rend());
  std::set<std::string> out;
  for (size_t i = 0; i < in_tower; ++i) out.insert(vision[i].second);
  for (size_t i = 0; i < static_cast<size_t>(total) - in_tower; ++i) out.insert(text[i].second);
  return out;
}

std::set<std::string> sites_with_experts(MoleCase& test, const std::string& slot) {
  std::set<std::string> out;
  for (const auto& site : test->bank->layout(slot).sites) {
    out.insert(site.site);
    EXPECT_EQ(site.rank, 8);
    EXPECT_EQ(site.scale, 2);
  }
  return out;
}

const std::vector<int64_t> kProbedRows = {0, 1, 3, 4, 6, 7, 9, 10};  // a batch of 8 of 12 samples, evenly spaced

TEST(DMole, PutsExpertsWhereTheGradientsAreLargest) {
  for (const std::string kind : {"tiny", "tiny_cross"})
    for (const double least : {0.25, 0.75}) {
      MoleCase test(MethodOptions{{"budget", "0.4"}, {"vision_floor", std::to_string(least)}}, kind);
      const auto set = test->data();
      const auto sites = attention_sites(*test->model);
      const auto scores = gradient_norms(*test.fixture, sites, set.rows(kProbedRows));
      test.begin(1, set);
      EXPECT_EQ(sites_with_experts(test, "stage-1"), two_fifths_by_hand(sites, scores, least)) << kind << " " << least;
    }
}

// What earlier stages have learnt, and the stage's own experts whatever is in them, take no part in a probe.
TEST(DMole, ProbesThePretrainedModelAtALaterStageToo) {
  constexpr double kSame = 1e-5;  // losses of float32
  MoleCase test(MethodOptions{{"budget", "0.4"}});
  const auto& heard = listen_to(test->objective);
  const auto first = test->data(0), second = test->data(1);
  const auto batch = second.rows(kProbedRows);
  // While there is no adapter yet.
  const auto sites = attention_sites(*test->model);
  const auto scores = gradient_norms(*test.fixture, sites, batch);
  const double base = test->objective->loss_of(*test->model, batch, Pass{}).item<double>();
  test.begin(1, first);
  test->lay_out(2);
  test->randomise(0.3);
  heard.losses.clear();
  auto context = test->stage_context(2, second);
  test->method->begin_stage(context);
  ASSERT_FALSE(heard.losses.empty());
  EXPECT_NEAR(heard.losses[0], base, kSame);
  EXPECT_EQ(sites_with_experts(test, "stage-2"), two_fifths_by_hand(sites, scores, 0.25));
  // With them the loss is another one.
  const GivenWeights given = {{test->bank->number("stage-1"), torch::ones({1})}};
  Pass adapted;
  adapted.slots = test->bank->bit("stage-1") | test->bank->bit("stage-2");
  adapted.given = &given;
  EXPECT_GT(std::abs(test->objective->loss_of(*test->model, batch, adapted).item<double>() - base), 100 * kSame);
}

// A probe of three quarters of 12 samples is nine of them, evenly spaced, in batches of eight; a batch is the least.
TEST(DMole, ProbesItsShareOfAStage) {
  for (const auto& [share, wanted] :
       {std::pair<std::string, std::vector<int64_t>>{"0.75", {0, 1, 2, 4, 5, 6, 8, 9, 10}},
        {"0.01", {0, 1, 3, 4, 6, 7, 9, 10}}}) {
    MoleCase test(MethodOptions{{"probe", share}});
    const auto& heard = listen_to(test->objective);
    const auto set = test->data();
    test.begin(1, set);
    std::vector<std::string> expected, found;
    for (const int64_t row : wanted) expected.push_back(set.info(row).id);
    for (const auto& info : heard.learnt_from) found.push_back(info.id);
    EXPECT_EQ(found, expected) << share;
  }
}

// Ten linears, four of the tower, with scores of round numbers.
TEST(DMole, SharesTheBudgetByScoresWithAFloor) {
  std::vector<AdapterSite> sites;
  std::vector<double> scores;
  for (int i = 0; i < 10; ++i) {
    const bool tower = i < 4;
    sites.push_back({std::string(1, static_cast<char>('a' + i)), nullptr, tower ? SitePart::vision : SitePart::q});
    scores.push_back(tower ? 1 + 0.1 * i : 10 - i);  // tower: 1 .. 1.3, 4.6 in all; text: 6 .. 1, 21 in all
  }
  using Names = std::set<std::string>;
  // Of 5 the tower's share is 0.9: one, its best; with a floor of 0.6 three.
  EXPECT_EQ((SiteBudget{0.5, 0}.best(sites, scores)), (Names{"d", "e", "f", "g", "h"}));
  EXPECT_EQ((SiteBudget{0.5, 0.6}.best(sites, scores)), (Names{"b", "c", "d", "e", "f"}));
  // What a part has no room for is the other's: of 8 the tower has 4 at most, of 9 the text 6.
  EXPECT_EQ((SiteBudget{0.8, 0.9}.best(sites, scores)), (Names{"a", "b", "c", "d", "e", "f", "g", "h"}));
  EXPECT_EQ((SiteBudget{0.9, 0}.best(sites, scores)).size(), 9u);
  // One at least; without scores the floor decides.
  EXPECT_EQ((SiteBudget{0.01, 0}.best(sites, scores)), (Names{"e"}));
  EXPECT_EQ((SiteBudget{0.4, 0.25}.best(sites, std::vector<double>(10, 0.0))), (Names{"a", "e", "f", "g"}));
}

TEST(DMole, TakesTextAloneWhereTheTowerIsNoCandidate) {
  MoleCase test(MethodOptions{{"sites", "run"}, {"rank", "0"}});
  const auto set = test->data();
  test.begin(1, set);
  const auto& sites = test->bank->layout("stage-1").sites;
  EXPECT_EQ(sites.size(), static_cast<size_t>(std::llround(0.5 * static_cast<double>(test->model->sites().size()))));
  for (const auto& site : sites) EXPECT_EQ(site.rank, 4);
}

TEST(DMole, TakesAQuantileOfATasksOwnErrorsAsThreshold) {
  MoleCase test(MethodOptions{{"hidden", "5"}, {"quantile", "0.7"}, {"patience", "10"}});
  const auto set = test->data();
  test.begin(1, set);
  test.enter_phase(1, set, "autoencoder");
  const auto code = code_of(test);
  ASSERT_EQ(code.encode.size(0), 5);
  const auto features = features_by_hand(*test.fixture, set.rows(range(0, set.size())));
  ASSERT_EQ(code.encode.size(1), features.size(1));
  std::vector<double> errors;
  for (int64_t b = 0; b < features.size(0); ++b) errors.push_back(code.error(features[b]));
  // The loss that is fitted, and how it ends.
  Phase fit;
  fit.name = "autoencoder";
  const auto batch = set.rows({0});
  EXPECT_NEAR(test->losses(batch, fit).total().item<double>(),
              std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size()), 1e-6);
  EXPECT_TRUE(test->losses(batch).losses.empty());
  EXPECT_FALSE(test->method->phase_done(fit, 1, 2.0));
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(test->method->phase_done(fit, 2 + i, 2.0));
  EXPECT_TRUE(test->method->phase_done(fit, 11, 2.5));
  EXPECT_FALSE(test->method->phase_done(fit, 12, 1.0));
  EXPECT_FALSE(test->method->phase_done(Phase(), 13, 9.0));
  test.enter_phase(1, set, "");
  std::sort(errors.begin(), errors.end());
  // ceil(0.7 (12 + 1)) = 10
  EXPECT_NEAR(held_tensor(*test->method, "thresholds")[0].item<double>(), errors[9], 1e-6);
  EXPECT_FALSE(held_tensor(*test->method, "waiting").defined());
}

// 0.95 (12 + 1) is beyond the twelfth: no sample is known to lie there, and a task must not recognise everything.
TEST(DMole, WithFewSamplesTheLargestErrorIsTheThreshold) {
  MoleCase test(MethodOptions{{"hidden", "5"}, {"quantile", "0.95"}});
  const auto set = test->data();
  test.begin(1, set);
  test.enter_phase(1, set, "autoencoder");
  const auto code = code_of(test);
  const auto features = features_by_hand(*test.fixture, set.rows(range(0, set.size())));
  double largest = 0;
  for (int64_t b = 0; b < features.size(0); ++b) largest = std::max(largest, code.error(features[b]));
  test.enter_phase(1, set, "");
  EXPECT_NEAR(held_tensor(*test->method, "thresholds")[0].item<double>(), largest, 1e-6);
}

// An autoencoder and its threshold are of evenly spaced samples of the stage.
TEST(DMole, FitsToSpacedSamples) {
  MoleCase test(MethodOptions{{"hidden", "5"}, {"quantile", "0.5"}, {"samples", "4"}});
  const auto set = test->data();
  test.begin(1, set);
  const auto code = code_of(test);
  const auto features = features_by_hand(*test.fixture, set.rows({0, 3, 6, 9}));
  std::vector<double> errors;
  for (int64_t b = 0; b < 4; ++b) errors.push_back(code.error(features[b]));
  test.enter_phase(1, set, "");
  std::sort(errors.begin(), errors.end());
  // ceil(0.5 (4 + 1)) = 3, of numbers in float32
  EXPECT_GT(errors[2] - errors[1], 1e-6);
  EXPECT_NEAR(held_tensor(*test->method, "thresholds")[0].item<double>(), errors[2], 2e-7);
}

// The autoencoder is fitted before anything is trained, by its own terms and parameters; no other phase moves it.
TEST(DMole, PlansTheFitFirst) {
  const auto method = std::move(make_methods("d-mole", {{"d-mole.epochs", "70", "test"}})[0]);
  std::vector<Phase> phases(2);
  phases[1].trains = {"routers"};
  phases[1].of_method = "other";
  PhasePlan plan;
  plan.stages = 2;
  method->plan(plan, phases);
  ASSERT_EQ(phases.size(), 3u);
  EXPECT_EQ(phases[0].name, "autoencoder");
  EXPECT_EQ(phases[0].trains, std::vector<std::string>{"autoencoder"});
  EXPECT_EQ(phases[0].task_weight, 0);
  EXPECT_FALSE(phases[0].runs_model);
  EXPECT_EQ(phases[0].steps, 70);
  EXPECT_EQ(phases[0].learning_rate, 5e-3);
  EXPECT_EQ(phases[1].trains, (std::vector<std::string>{"adapters", "task"}));
  EXPECT_EQ(phases[2].trains, std::vector<std::string>{"routers"});
}

TEST(DMole, AnswersEverySampleWithTheTaskThatRecognisesIt) {
  MoleCase test(MethodOptions{{"hidden", "3"}, {"quantile", "0.3"}});
  const auto set = test->data();
  const ThreeTasks tasks(test, set);
  const auto batch = set.rows(range(0, set.size()));
  const auto features = features_by_hand(*test.fixture, batch);
  const auto routed = test->pass(batch, 3, true);
  std::set<int64_t> seen;
  for (int64_t b = 0; b < set.size(); ++b) {
    const auto winner = tasks.best(features[b], 3);
    const auto beside = winner > 0 ? tasks.best(features[b], static_cast<size_t>(winner)) : -1;
    seen.insert(winner);
    EXPECT_EQ(routed.choices[static_cast<size_t>(b)].slot, winner < 0 ? "" : "stage-" + std::to_string(winner + 1));
    for (int64_t k = 0; k < 3; ++k) {
      const auto number = test->bank->number("stage-" + std::to_string(k + 1));
      const bool takes_part = (routed.how.slots >> number & 1) != 0;
      const double weight = takes_part ? routed.given.at(number)[b][0].item<double>() : 0;
      EXPECT_EQ(weight, k == winner || k == beside ? 1 : 0) << b << " " << k;
    }
  }
  EXPECT_GT(seen.size(), 2u);
  EXPECT_EQ(seen.count(-1), 1u) << "no sample is left to the base";
  // In training the stage's own expert is always there, the earlier one where it recognises the sample.
  const auto training = test->pass(batch, 3, false);
  EXPECT_TRUE(training.how.slots & test->bank->bit("stage-3"));
  for (int64_t b = 0; b < set.size(); ++b)
    for (int64_t k = 0; k < 2; ++k) {
      const auto given = training.given.find(test->bank->number("stage-" + std::to_string(k + 1)));
      const double weight = given == training.given.end() ? 0 : given->second[b][0].item<double>();
      EXPECT_EQ(weight, tasks.best(features[b], 2) == k ? 1 : 0) << b << " " << k;
    }
  for (const auto& [name, tensor] : test->bank->trained()) EXPECT_EQ(name.rfind("stage-3:", 0), 0u) << name;
}

TEST(DMole, LetsTheSamplesOfABatchVote) {
  for (const double least : {0.05, 0.45}) {
    MoleCase test(
        MethodOptions{{"hidden", "3"}, {"quantile", "0.3"}, {"vote", "batch"}, {"least_share", std::to_string(least)}});
    const auto set = test->data();
    const ThreeTasks tasks(test, set);
    const auto batch = set.rows(range(0, set.size()));
    const auto features = features_by_hand(*test.fixture, batch);
    std::vector<int64_t> votes(3, 0);
    for (int64_t b = 0; b < set.size(); ++b) {
      const auto best = tasks.best(features[b], 3);
      if (best >= 0) ++votes[static_cast<size_t>(best)];
    }
    std::vector<size_t> order = {0, 1, 2};
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return votes[a] > votes[b]; });
    ASSERT_GT(votes[order[0]], 0);
    std::set<size_t> active = {order[0]};
    if (static_cast<double>(votes[order[1]]) / static_cast<double>(set.size()) >= least) active.insert(order[1]);
    const auto routed = test->pass(batch, 3, true);
    for (size_t k = 0; k < 3; ++k) {
      const auto number = test->bank->number("stage-" + std::to_string(k + 1));
      EXPECT_EQ((routed.how.slots >> number & 1) != 0, active.count(k) > 0) << k;
      const double sum = active.count(k) > 0 ? routed.given.at(number).sum().item<double>() : 12;
      EXPECT_EQ(sum, 12) << k;
    }
    for (const auto& choice : routed.choices) EXPECT_EQ(choice.slot, "stage-" + std::to_string(order[0] + 1));
  }
}

// In training the stage's own expert stands for the whole batch, beside it at most one earlier one, with its votes.
TEST(DMole, LetsTheSamplesOfATrainingBatchVoteForOneEarlierTask) {
  std::set<bool> reached;
  for (const double least : {0.05, 0.95}) {
    MoleCase test(
        MethodOptions{{"hidden", "3"}, {"quantile", "0.9"}, {"vote", "batch"}, {"least_share", std::to_string(least)}});
    const auto set = test->data();
    const ThreeTasks tasks(test, set);
    const auto batch = set.rows(range(0, set.size()));
    const auto features = features_by_hand(*test.fixture, batch);
    int64_t votes[2] = {0, 0};
    for (int64_t b = 0; b < set.size(); ++b) {
      const auto best = tasks.best(features[b], 2);
      if (best >= 0) ++votes[best];
    }
    ASSERT_GT(votes[0], 0);
    ASSERT_GT(votes[1], 0);
    ASSERT_NE(votes[0], votes[1]);
    const int64_t winner = votes[1] > votes[0] ? 1 : 0;
    const bool enough = static_cast<double>(votes[winner]) / 12 >= least;
    reached.insert(enough);
    const auto training = test->pass(batch, 3, false);
    EXPECT_TRUE(training.how.slots & test->bank->bit("stage-3"));
    EXPECT_EQ(training.given.count(test->bank->number("stage-3")), 0u) << "its own is never weighed";
    for (int64_t k = 0; k < 2; ++k) {
      const auto number = test->bank->number("stage-" + std::to_string(k + 1));
      ASSERT_TRUE(training.how.slots >> number & 1) << k;
      const double wanted = enough && k == winner ? 1 : 0;
      EXPECT_TRUE(training.given.at(number).eq(wanted).all().item<bool>()) << least << " " << k;
    }
  }
  EXPECT_EQ(reached.size(), 2u);
}

TEST(DMole, AddsActiveExpertsWithWeightOne) {
  MoleCase test(MethodOptions{{"hidden", "3"}});
  const auto set = test->data();
  const ThreeTasks tasks(test, set);
  at::NoGradGuard no_grad;
  const auto site = test->bank->layout("stage-2").sites.at(0).site;
  const auto sites = test->model->all_sites();
  const auto place = std::find_if(sites.begin(), sites.end(), [&](const auto& s) { return s.name == site; });
  const auto x = torch::randn({2, 3, place->linear->weight.size(1)});
  auto expected = at::linear(x, place->linear->weight);
  if (place->linear->bias.defined()) expected = expected + place->linear->bias;
  for (const std::string slot : {"stage-1", "stage-2"}) {
    const auto& here = test->bank->at(slot, site);
    if (here.empty()) continue;
    const auto added = at::linear(at::linear(x, here.experts[0].a), here.experts[0].b) * 2;
    if (slot == "stage-2")
      expected = expected + added * torch::tensor({1.0, 0.0}).view({2, 1, 1});
    else
      expected = expected + added;
  }
  Pass pass;
  pass.slots = test->bank->bit("stage-1") | test->bank->bit("stage-2");
  const GivenWeights given = {{0, torch::tensor({{1.0}, {1.0}})}, {1, torch::tensor({{1.0}, {0.0}})}};
  pass.given = &given;
  for (const bool answering : {true, false}) {  // earlier experts in training too
    pass.answering = answering;
    EXPECT_TRUE(at::allclose((*place->linear)(x, pass), expected, 1e-4, 1e-4)) << answering;
  }
}

TEST(DMole, RefusesWhatCannotBe) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto message = [&](const std::string& method, const std::string& key, const std::string& value) {
    auto list = small_run(folder / "model", folder / (method + value), method);
    list.push_back({key, value, "test"});
    return message_of([&] { run_small(list); });
  };
  EXPECT_CONTAINS(message("d-mole", "stream.tasks", "1"), "this stream has one task");
  EXPECT_CONTAINS(message("d-mole+o-lora", "lora_rank", "8"), "methods d-mole and o-lora both lay out the adapters");
  EXPECT_CONTAINS(message("d-mole", "d-mole.budget", "0"), "d-mole.budget");
}

TEST(DMole, RunsOnEveryKindOfModelWithBothHeads) {
  expect_runs_on_every_kind("d-mole", {{"d-mole.epochs", "3"}});
}

}  // namespace
}  // namespace asr
