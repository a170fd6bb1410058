// Route: which slot answers a sample, how slots begin, and what the key is made of. Expected scores are computed with
// plain loops (plain_stages.h).
#include <cmath>

#include "methods/terms/sample_keys.h"
#include "tensor/torch_compat.h"
#include "tests/data/thread_team.h"
#include "tests/methods/method_case.h"
#include "tests/methods/plain_stages.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

constexpr double kKeyNumbers = 96;  // of the key that route takes by default, with the small model

// That key, computed from a whole pass of the model.
torch::Tensor early_keys(const MethodCase& fixture, const SampleBatch& batch) {
  at::NoGradGuard no_grad;
  Want want;
  want.early_layer = 1;
  want.early = true;
  const auto out = fixture.model->forward(batch.input, Pass{0, nullptr}, want);
  return at::cat({out.early_image, out.early_text, out.text_input}, 1);
}

struct RouteCase : MethodCase {
  std::unique_ptr<TemporaryFolder> folder;
  std::vector<EncodedSamples> sets;

  explicit RouteCase(const std::vector<Assignment>& options = {}) : RouteCase(options, made_folder()) {}

  // Stages of these tasks of the stream, begun and finished; adapters get numbers in between.
  void train(const std::vector<size_t>& tasks, bool learns = false) {
    for (const size_t task_number : tasks) {
      const int stage = static_cast<int>(sets.size()) + 1;
      lay_out(stage);
      sets.push_back(data(task_number));
      auto context = stage_context(stage, sets.back());
      method->begin_stage(context);
      trained = bank->trained();
      if (learns)
        learn(bank->trained(), batch_of(sets.size() - 1));
      else
        fill(static_cast<uint64_t>(stage));
      method->after_stage(context);
    }
  }
  void fill(uint64_t seed) {  // what is trained now
    auto generator = at::detail::createCPUGenerator(seed);
    at::NoGradGuard no_grad;
    for (const auto& [tensor_name, tensor] : bank->trained()) {
      auto value = tensor;
      value.copy_(at::randn(tensor.sizes(), generator, at::CPU(at::kFloat)) * 0.1);
    }
  }
  // Answers of a random model hardly differ, whatever its states are; louder words let it learn some.
  void make_words_loud() {
    at::NoGradGuard no_grad;
    model->token_embedding().mul_(20);
  }
  // Learns the answers of a batch by heart, as far as it goes.
  void learn(const NamedParameters& slot, const SampleBatch& batch) {
    Pass pass;
    pass.slots = bank->bit(slot[0].first.substr(0, slot[0].first.find(':')));
    std::vector<torch::Tensor> values;
    for (const auto& [tensor_name, tensor] : slot) values.push_back(tensor);
    for (auto& value : values) value.requires_grad_(true);
    for (int step = 0; step < 60; ++step) {
      const auto grads = gradients(objective->loss_of(*model, batch, pass), values);
      at::NoGradGuard no_grad;
      for (size_t i = 0; i < values.size(); ++i) values[i].sub_(grads[i].sign(), 0.05 * (60 - step) / 60);
    }
  }
  SampleBatch batch_of(size_t stage, int64_t rows = 12) { return sets[stage].rows(range(0, rows)); }

 private:
  static std::unique_ptr<TemporaryFolder> made_folder() {
    auto out = std::make_unique<TemporaryFolder>();
    write_small_model(*out / "model");
    return out;
  }
  RouteCase(const std::vector<Assignment>& options, std::unique_ptr<TemporaryFolder> place)
      : MethodCase("route", options, *place / "model"), folder(std::move(place)) {}
};

Assignment option(const std::string& key, const std::string& value) {
  return {"route." + key, value, "test"};
}

TEST(Route, AnswersWithTheSlotOfTheStageThatFits) {
  RouteCase fixture;
  fixture.train({0, 3, 6});
  std::vector<torch::Tensor> keys;
  for (size_t t = 0; t < 3; ++t) keys.push_back(early_keys(fixture, fixture.batch_of(t)));
  const PlainStages plain(keys, std::min(1.0, 1e-3 * 10 * kKeyNumbers / 36));
  for (size_t t = 0; t < 3; ++t) {
    const auto batch = fixture.batch_of(t);
    const auto routed = fixture.pass(batch, 3, true);
    for (int64_t b = 0; b < batch.size(); ++b) {
      const auto best = plain.best(keys[t][b]);
      EXPECT_EQ(best, t);  // tasks ask different questions
      for (size_t k = 0; k < 3; ++k) {
        const auto weight = routed.given.count(k) ? routed.given.at(k)[b][0].item<double>() : 0.0;
        EXPECT_EQ(weight, k == best ? 1 : 0) << t << " " << b << " " << k;
      }
    }
    // Slots that no row needs are not computed.
    EXPECT_EQ(routed.how.slots & 7, uint64_t(1) << t);
  }
}

TEST(Route, TrainsTheNewestSlotAlone) {
  RouteCase fixture;
  fixture.train({0, 3});
  EXPECT_EQ(fixture.bank->training() & 3, fixture.bank->bit("stage-2"));
  for (const auto& [name, tensor] : fixture.bank->trained()) EXPECT_EQ(name.rfind("stage-2:", 0), 0u) << name;
  EXPECT_TRUE(fixture.bank->is_frozen("stage-1"));
  // Before a stage has moments, its own slot answers.
  fixture.lay_out(3);
  fixture.sets.push_back(fixture.data(6));
  auto context = fixture.stage_context(3, fixture.sets.back());
  fixture.method->begin_stage(context);
  const auto routed = fixture.pass(fixture.batch_of(0), 3, true);
  EXPECT_EQ(routed.how.slots & 7, fixture.bank->bit("stage-3"));
  // The pass that trains is left alone.
  EXPECT_TRUE(fixture.pass(fixture.batch_of(0), 3, false).given.empty());
}

TEST(Route, KeysIgnoreTheAnswerAndTheAdapters) {
  RouteCase fixture;
  fixture.train({0});
  const auto batch = fixture.batch_of(0);
  const SampleKeys keys{KeyChoice(), SpectralOptions()};
  const auto before = keys.of(*fixture.model, batch);
  EXPECT_TRUE(at::allclose(before, early_keys(fixture, batch), 1e-5, 1e-6));
  fixture.fill(99);
  auto other = batch;
  other.input.ids = at::where(batch.input.labels.ge(0), at::full_like(batch.input.ids, 9), batch.input.ids);
  EXPECT_TRUE(keys.of(*fixture.model, other).equal(before));
}

// All tensors of a slot in one row.
torch::Tensor slot_numbers(const RouteCase& fixture, const std::string& slot) {
  std::vector<torch::Tensor> parts;
  for (const auto& [name, tensor] : fixture.bank->tensors_of(slot)) parts.push_back(tensor.detach().flatten());
  return at::cat(parts);
}

// Two stages done; the third begun on `task`.
std::unique_ptr<RouteCase> third_stage(const std::vector<Assignment>& options, size_t task) {
  auto out = std::make_unique<RouteCase>(options);
  out->train({0, 3});
  out->lay_out(3);
  out->sets.push_back(out->data(task));
  auto context = out->stage_context(3, out->sets.back());
  out->method->begin_stage(context);
  return out;
}

double loss_with(RouteCase& fixture, uint64_t slots) {
  at::NoGradGuard no_grad;
  Pass pass;
  pass.slots = slots;
  return fixture.objective->loss_of(*fixture.model, fixture.batch_of(2), pass).item<double>();
}

TEST(Route, SlotsStartAsAsked) {
  const auto zero = third_stage({option("start", "zero")}, 6);
  for (const auto& [name, tensor] : zero->bank->tensors_of("stage-3"))
    EXPECT_EQ(tensor.abs().max().item<double>() == 0, name.find("lora_B") != std::string::npos) << name;
  const auto last = third_stage({option("start", "last")}, 6);
  EXPECT_TRUE(slot_numbers(*last, "stage-3").equal(slot_numbers(*last, "stage-2")));
  EXPECT_FALSE(last->bank->is_frozen("stage-3"));
  const auto nearest = third_stage({option("start", "nearest")}, 6);
  const double one = loss_with(*nearest, nearest->bank->bit("stage-1"));
  const double two = loss_with(*nearest, nearest->bank->bit("stage-2"));
  const auto best = one <= two ? "stage-1" : "stage-2";
  EXPECT_TRUE(slot_numbers(*nearest, "stage-3").equal(slot_numbers(*nearest, best))) << one << " " << two;
}

// Two stages learnt by heart, the third begun on `task`.
std::unique_ptr<RouteCase> third_after_two_learnt(size_t task) {
  auto out = std::make_unique<RouteCase>(std::vector<Assignment>{option("start", "auto")});
  out->make_words_loud();
  out->train({0, 3}, /*learns=*/true);
  out->lay_out(3);
  out->sets.push_back(out->data(task));
  auto context = out->stage_context(3, out->sets.back());
  out->method->begin_stage(context);
  return out;
}

TEST(Route, AutoCopiesASlotThatIsAtHome) {
  // Adapters of random numbers make nothing better than the base.
  const auto worse = third_stage({option("start", "auto")}, 6);
  const auto copies = [](const RouteCase& fixture, const char* slot) {
    return slot_numbers(fixture, "stage-3").equal(slot_numbers(fixture, slot));
  };
  for (const char* slot : {"stage-1", "stage-2"}) {
    ASSERT_GT(loss_with(*worse, worse->bank->bit(slot)), loss_with(*worse, 0));
    EXPECT_FALSE(copies(*worse, slot));
  }
  // One that has learnt the same is at home.
  const auto again = third_after_two_learnt(3);
  EXPECT_TRUE(copies(*again, "stage-2"));
  // One that helps, but less than it does at home, is not.
  const auto half = third_after_two_learnt(4);
  double least = loss_with(*half, 0);
  const double base = least, home = loss_with(*again, again->bank->bit("stage-2"));
  for (const char* slot : {"stage-1", "stage-2"}) {
    least = std::min(least, loss_with(*half, half->bank->bit(slot)));
    EXPECT_FALSE(copies(*half, slot));
  }
  ASSERT_LT(least, base);
  ASSERT_GT(least, 2 * home);
}

TEST(Route, AStageThatRepeatsAnotherGoesOnInItsSlot) {
  RouteCase fixture({option("share", "0.2")});
  fixture.make_words_loud();
  fixture.train({0, 3, 0}, /*learns=*/true);
  EXPECT_EQ(fixture.bank->slots(), (std::vector<std::string>{"stage-1", "stage-2"}));
  EXPECT_FALSE(fixture.bank->is_frozen("stage-1"));
  EXPECT_TRUE(fixture.bank->is_frozen("stage-2"));
  EXPECT_EQ(fixture.bank->training() & 3, fixture.bank->bit("stage-1"));
  for (const size_t stage : {0, 1, 2}) {
    const auto routed = fixture.pass(fixture.batch_of(stage), 3, true);
    EXPECT_EQ(routed.how.slots & 3, uint64_t(1) << (stage == 1 ? 1 : 0)) << stage;
  }
}

TEST(Route, TopWeighsTheBestStagesByProbability) {
  RouteCase fixture({option("top", "2"), option("temperature", "40")});
  fixture.train({0, 3, 6});
  std::vector<torch::Tensor> keys;
  for (size_t t = 0; t < 3; ++t) keys.push_back(early_keys(fixture, fixture.batch_of(t)));
  const PlainStages plain(keys, std::min(1.0, 1e-3 * 10 * kKeyNumbers / 36));
  const auto routed = fixture.pass(fixture.batch_of(1, 4), 3, true);
  for (int64_t b = 0; b < 4; ++b) {
    std::vector<double> p;
    for (size_t t = 0; t < 3; ++t) p.push_back(std::exp(plain.score(keys[1][b], t) / 2 / 40));
    const auto least = static_cast<size_t>(std::min_element(p.begin(), p.end()) - p.begin());
    p[least] = 0;
    for (size_t t = 0; t < 3; ++t) {
      const auto found = routed.given.count(t) ? routed.given.at(t)[b][0].item<double>() : 0.0;
      EXPECT_NEAR(found, p[t] / (p[0] + p[1] + p[2]), 2e-3) << b << " " << t;
    }
  }
}

TEST(Route, AStrangeSampleGoesToTheBase) {
  RouteCase fixture({option("fallback", "0.5"), option("keys", "[tokens]")});
  fixture.train({0, 3});
  auto known = fixture.batch_of(0, 2), strange = known;
  const auto asked = known.input.question.logical_and(at::arange(known.input.ids.size(1)).gt(0));
  strange.input.ids = at::where(asked, at::full_like(known.input.ids, 4), known.input.ids);
  EXPECT_NE(fixture.pass(known, 2, true).how.slots & 3, 0u);
  const auto routed = fixture.pass(strange, 2, true);
  EXPECT_EQ(routed.how.slots & 3, 0u);
  EXPECT_TRUE(routed.given.empty());
  // Too few samples are held out to know what is beyond 99 % of them.
  RouteCase few({option("fallback", "0.99"), option("keys", "[tokens]")});
  few.train({0, 3});
  EXPECT_NE(few.pass(strange, 2, true).how.slots & 3, 0u);
}

TEST(Route, ControlsChooseWithoutKeys) {
  RouteCase given({option("choose", "true")});
  given.train({0, 3});
  auto batch = given.batch_of(0, 3);
  EXPECT_CONTAINS(message_of([&] { given.pass(batch, 2, true); }), "stage is known");
  for (int64_t b = 0; b < 3; ++b) batch.info[static_cast<size_t>(b)].stage = b == 1 ? 1 : 2;
  const auto routed = given.pass(batch, 2, true);
  for (int64_t b = 0; b < 3; ++b) EXPECT_EQ(routed.given.at(0)[b][0].item<double>(), b == 1 ? 1 : 0);
  RouteCase random({option("choose", "random")});
  random.train({0, 3});
  double first = 0;
  for (const size_t stage : {0, 1}) {
    const auto chosen = random.pass(random.batch_of(stage), 2, true);
    first += chosen.given.count(0) ? chosen.given.at(0).sum().item<double>() : 0.0;
    const auto again = random.pass(random.batch_of(stage, 5), 2, true);  // by the sample, not by its place
    const bool same = !again.given.count(0) || again.given.at(0).equal(chosen.given.at(0).narrow(0, 0, 5));
    EXPECT_TRUE(same) << stage;
  }
  EXPECT_GT(first, 4);
  EXPECT_LT(first, 20);
}

TEST(Route, EveryPartOfTheKeyIsThere) {
  RouteCase fixture;
  const auto batch = fixture.data(0).rows(range(0, 3));
  const int64_t width = fixture.model->width();
  const auto numbers = [&](std::vector<std::string> parts, KeySides sides, int64_t dimension) {
    KeyChoice choice;
    choice.parts = std::move(parts);
    choice.sides = sides;
    choice.dimension = dimension;
    choice.tap_layers = 2;
    const SampleKeys keys{choice, SpectralOptions(), 2};
    const auto found = keys.of(*fixture.model, batch);
    EXPECT_TRUE(keys.of(*fixture.model, batch).equal(found));
    EXPECT_GT(found.std(0).max().item<double>(), 0);
    EXPECT_LE(found.size(1), choice.most_numbers(width, SpectralOptions().dim()));
    return found.size(1);
  };
  EXPECT_EQ(numbers({"states"}, KeySides::both, 1024), 2 * width);
  EXPECT_EQ(numbers({"states"}, KeySides::text, 1024), width);
  EXPECT_EQ(numbers({"states", "late"}, KeySides::both, 1024), 4 * width);
  EXPECT_EQ(numbers({"states", "tokens"}, KeySides::picture, 1024), width);
  EXPECT_EQ(numbers({"states", "tokens", "spectra"}, KeySides::both, 1024), 3 * width + 54);
  EXPECT_EQ(numbers({"states", "spectra"}, KeySides::both, 10), 30);
  const int64_t words = fixture.model->token_embedding().size(0);
  EXPECT_EQ(numbers({"thumbnail"}, KeySides::both, 4096), 192 + std::min<int64_t>(words, 1024));
  EXPECT_EQ(numbers({"thumbnail"}, KeySides::picture, 4096), 192);
  EXPECT_CONTAINS(message_of([&] { numbers({}, KeySides::both, 8); }), "route.keys: is empty");
  EXPECT_CONTAINS(message_of([&] { numbers({"stats"}, KeySides::both, 8); }), "did you mean 'states'");
  EXPECT_CONTAINS(message_of([&] { numbers({"tokens"}, KeySides::picture, 8); }), "nothing is left");
  const auto refused = [&](const std::string& further, const char* said) {
    KeyChoice choice;
    choice.further = {further, "late"};
    EXPECT_CONTAINS(message_of([&] { choice.check_parts(); }), said);
  };
  refused("tokens", "route.further: names tokens, which route.keys has");
  refused("late", "route.further: names late twice");
  refused("spectre", "route.further: 'spectre' is unknown; did you mean 'spectra'");
  KeyChoice apart;
  apart.parts = {"states", "spectra"};
  apart.further = {"late"};
  apart.heads = Heads::kept;
  EXPECT_CONTAINS(message_of([&] { apart.check_parts(); }), "leaves no place for route.further");
}

TEST(Route, LateStatesAreThoseAfterTheLastLayer) {
  RouteCase fixture;
  const auto batch = fixture.data(0).rows(range(0, 3));
  const auto key = [&](const char* part, int64_t layer) {
    KeyChoice choice;
    choice.parts = {part};
    choice.layer = layer;
    return SampleKeys(choice, SpectralOptions(), 2).of(*fixture.model, batch);
  };
  EXPECT_TRUE(key("late", 1).equal(key("states", 2)));
  EXPECT_FALSE(key("late", 1).equal(key("states", 1)));
}

// What further parts would be made of is spoilt once they were measured: nobody looks at them where early ones tell
// stages apart.
TEST(Route, FurtherPartsAreNotComputedWhereTheyAreNotNeeded) {
  RouteCase fixture({option("further", "[late]")});
  fixture.train({0, 3});
  at::NoGradGuard no_grad;
  for (const auto& site : fixture.model->all_sites())
    if (site.layer == 1) site.linear->weight.fill_(std::nan(""));
  for (size_t t = 0; t < 2; ++t) EXPECT_EQ(fixture.pass(fixture.batch_of(t), 2, true).how.slots & 3, uint64_t(1) << t);
}

// Every head's own descriptor, behind all other parts and wider than any bound; a group each.
TEST(Route, HeadsMayBeKeptApart) {
  RouteCase fixture;
  const auto batch = fixture.data(0).rows(range(0, 3));
  KeyChoice choice;
  choice.parts = {"spectra", "tokens"};
  choice.heads = Heads::kept;
  choice.dimension = 10;
  choice.tap_layers = 2;
  const SpectralOptions spectral;
  const SampleKeys keys(choice, spectral, 2);
  const auto found = keys.of(*fixture.model, batch);
  const int64_t heads = 2 * 2, each = 27;  // layers x heads of the small model
  ASSERT_EQ(found.size(1), 10 + heads * each);
  EXPECT_LE(found.size(1), choice.most_numbers(fixture.model->width(), spectral.dim()));
  const auto groups = keys.groups(found.size(1));
  for (int64_t i = 0; i < found.size(1); ++i)
    EXPECT_EQ(groups[static_cast<size_t>(i)], i < 10 ? 0 : 1 + (i - 10) / each) << i;
  // A process that has made no key knows the groups all the same: two rows are one block, of the first of three.
  const auto set = fixture.data(0);
  as_team(3, [&](const Team& team) {
    const SampleKeys own(choice, spectral);
    const auto of_all = own.of(*fixture.model, set, range(0, 2), team);
    EXPECT_EQ(own.groups(of_all.size(1)), groups) << team.rank();
  });
  const auto kept_apart = keys.description(*fixture.model);
  // The averaged key is the mean over heads, and their deviation.
  choice.parts = {"spectra"};
  choice.heads = Heads::average;
  choice.dimension = 54;
  const auto averaged = SampleKeys(choice, spectral).of(*fixture.model, batch);
  choice.parts = {"spectra", "tokens"};
  choice.dimension = 10;
  EXPECT_NE(SampleKeys(choice, spectral).description(*fixture.model), kept_apart);
  const auto single = found.narrow(1, 10, heads * each).view({3, heads, each});
  EXPECT_LT((single.mean(1) - averaged.narrow(1, 0, each)).abs().max().item<double>(), 1e-5);
  choice.parts = {"states"};
  choice.heads = Heads::kept;
  EXPECT_CONTAINS(message_of([&] { SampleKeys(choice, spectral); }), "route.heads: kept is for spectra");
}

// A random projection keeps squared lengths on average.
TEST(Route, ProjectionKeepsLengths) {
  RouteCase fixture;
  const auto batch = fixture.data(0).rows(range(0, 12));
  KeyChoice whole, small;
  whole.sides = small.sides = KeySides::text;
  small.dimension = 24;
  const auto a = SampleKeys{whole, SpectralOptions()}.of(*fixture.model, batch);
  const auto b = SampleKeys{small, SpectralOptions()}.of(*fixture.model, batch);
  const double ratio = (b.square().sum() / a.square().sum()).item<double>();
  EXPECT_GT(ratio, 0.4);
  EXPECT_LT(ratio, 2.0);
}

TEST(Route, RefusesALayerThatIsNotThere) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  EXPECT_CONTAINS(message_of([&] { MethodCase("route", {option("layer", "3")}, folder / "model"); }),
                  "route.layer: 3 is no layer of the language model of");
}

}  // namespace
}  // namespace asr
