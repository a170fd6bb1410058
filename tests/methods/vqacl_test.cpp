// VQACL: prototypes move with the classes of a batch, the nearest are inserted, losses count by the worth of answers,
// and the memory is shared out by stage and object group; each against numbers made here by hand.
#include "methods/terms/class_prototypes.h"
#include "methods/terms/group_replay.h"
#include "tests/methods/recomputation.h"
#include "tests/methods/vqacl_case.h"

namespace asr {
namespace {

class VqaclMethod : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Kinds, VqaclMethod, ::testing::Values("tiny", "tiny_cross"));

TEST_P(VqaclMethod, MovesTheClassesThatABatchHas) {
  TemporaryFolder folder;
  write_small_model(folder / "model", GetParam());
  VqaclCase fixture(folder / "model");
  auto first = fixture.data(0), second = fixture.data(3);
  first.set_stage(1);
  second.set_stage(2);
  fixture.begin(1, first);
  const auto one = first.rows(range(0, 4)), two = first.rows(range(4, 12)), three = second.rows(range(0, 5));
  fixture.learn(one);
  fixture.learn(two);
  fixture.begin(2, second);
  fixture.learn(three);

  // Question types: that of the stage is the mean of its last batch; the other stays, since the batch has none of it.
  const auto types = kept_tensor(*fixture.method, "types.rows");
  ASSERT_EQ(types.size(0), 2);
  EXPECT_TRUE(at::allclose(types[0], questions_by_hand(*fixture.model, two).mean(0), kFloatNear, kFloatNear));
  EXPECT_TRUE(at::allclose(types[1], questions_by_hand(*fixture.model, three).mean(0), kFloatNear, kFloatNear));

  // Object classes: 0.3 of the old and 0.7 of the batch, and untouched where the batch lacks them, at a new stage too.
  std::map<std::string, torch::Tensor> expected;
  for (const auto& batch : {one, two, three})
    for (const auto& [name, mean] : means_by_category(batch, pictures_by_model(*fixture.model, batch)))
      expected[name] = expected.count(name) ? expected[name] * 0.3 + mean * 0.7 : mean;
  const auto objects = kept_tensor(*fixture.method, "objects.rows");
  ClassPrototypes order("order");
  for (const auto* set : {&first, &second})
    for (const auto& info : set->infos()) order.add(info.category);
  ASSERT_EQ(objects.size(0), order.size());
  for (const auto& [name, mean] : expected)
    EXPECT_TRUE(at::allclose(objects[order.row_of(name)], mean, kFloatNear, kFloatNear)) << name;
  const auto last = means_by_category(three, pictures_by_model(*fixture.model, three));
  EXPECT_GT(expected.size(), last.size()) << "some class must be missing in the last batch";
}

TEST(Vqacl, TypesOfEarlierStagesKeepAPart) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  VqaclCase fixture(folder / "model", {{"vqacl.alpha", "0.25"}});
  auto first = fixture.data(0), second = fixture.data(3);
  first.set_stage(1);
  second.set_stage(2);
  fixture.begin(1, first);
  const auto old = first.rows(range(0, 4)), replayed = first.rows(range(4, 9)), now = second.rows(range(0, 3));
  fixture.learn(old);
  fixture.begin(2, second);
  fixture.learn(now);
  fixture.learn(replayed);
  const auto types = kept_tensor(*fixture.method, "types.rows");
  const auto expected = questions_by_hand(*fixture.model, old).mean(0) * 0.25 +
                        questions_by_hand(*fixture.model, replayed).mean(0) * 0.75;
  EXPECT_TRUE(at::allclose(types[0], expected, kFloatNear, kFloatNear));
  EXPECT_TRUE(at::allclose(types[1], questions_by_hand(*fixture.model, now).mean(0), kFloatNear, kFloatNear))
      << "a batch of the memory leaves the stage's own type alone";
}

// The step on the buffer is a training batch, too: its classes move, and its vectors are found among them.
TEST(Vqacl, ABatchOfTheBufferMovesItsClasses) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  VqaclCase fixture(folder / "model", {{"vqacl.buffer", "5"}});
  auto first = fixture.data(0), second = fixture.data(3);
  first.set_stage(1);
  second.set_stage(2);
  fixture.begin(1, first);
  fixture.learn(first.rows(range(0, 12)));
  auto over = fixture.stage_context(1, first);
  fixture.method->after_stage(over);
  fixture.begin(2, second);
  fixture.learn(second.rows(range(0, 8)));
  const auto types = kept_tensor(*fixture.method, "types.rows"), objects = kept_tensor(*fixture.method, "objects.rows");
  OwnBatch own{{}, {fixture.alone}};
  ASSERT_TRUE(fixture.method->extra_batch(own, *fixture.model, 5));
  ASSERT_EQ(own.batch.size(), 5);
  fixture.end_step({});
  const auto questions = questions_by_hand(*fixture.model, own.batch);
  const auto now = kept_tensor(*fixture.method, "types.rows");
  EXPECT_TRUE(at::allclose(now[0], types[0] * 0.5 + questions.mean(0) * 0.5, kFloatNear, kFloatNear));
  EXPECT_TRUE(now[1].equal(types[1]));
  ClassPrototypes order("order");
  for (const auto* set : {&first, &second})
    for (const auto& info : set->infos()) order.add(info.category);
  const auto moved = kept_tensor(*fixture.method, "objects.rows");
  const auto pictures = pictures_by_model(*fixture.model, own.batch);
  for (const auto& [name, mean] : means_by_category(own.batch, pictures)) {
    const auto row = order.row_of(name);
    EXPECT_TRUE(at::allclose(moved[row], objects[row] * 0.3 + mean * 0.7, kFloatNear, kFloatNear)) << name;
  }
  for (int64_t b = 0; b < 5; ++b) {
    const auto inserted = own.batch.input.inserted[b].to(at::kDouble);
    EXPECT_TRUE(at::allclose(inserted[0], now[nearest_by_hand(now, questions[b])], kFloatNear, kFloatNear)) << b;
    EXPECT_TRUE(at::allclose(inserted[1], moved[nearest_by_hand(moved, pictures[b])], kFloatNear, kFloatNear)) << b;
  }
}

// What the released code does: absent classes move towards zero, a replayed batch wipes the stage's own type, and a
// new stage begins with the object classes of its first batch.
TEST(Vqacl, ExactIsAsReleased) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  VqaclCase fixture(folder / "model", {{"vqacl.exact", "yes"}});
  auto first = fixture.data(0), second = fixture.data(3);
  first.set_stage(1);
  second.set_stage(2);
  fixture.begin(1, first);
  const auto one = first.rows({0}), other = first.rows(range(1, 6)), now = second.rows(range(0, 3));
  fixture.learn(one);
  fixture.learn(other);
  const auto pictures = pictures_by_model(*fixture.model, one);
  bool again = false;
  for (const auto& info : other.info) again = again || info.category == one.info[0].category;
  ASSERT_FALSE(again) << "the class must be missing in the second batch";
  EXPECT_TRUE(at::allclose(kept_tensor(*fixture.method, "objects.rows")[0], pictures[0] * 0.3, kFloatNear, kFloatNear));
  fixture.begin(2, second);
  fixture.learn(now);
  const auto means = means_by_category(now, pictures_by_model(*fixture.model, now));
  const auto objects = kept_tensor(*fixture.method, "objects.rows");
  for (int64_t b = 0; b < 3; ++b) {
    const auto& name = now.info[static_cast<size_t>(b)].category;
    bool found = false;
    for (int64_t k = 0; k < objects.size(0); ++k)
      found = found || at::allclose(objects[k], means.at(name), kFloatNear, kFloatNear);
    EXPECT_TRUE(found) << name;
  }
  EXPECT_LE((objects.abs().sum(1) > 0).sum().item<int64_t>(), 3);
  EXPECT_TRUE(at::allclose(kept_tensor(*fixture.method, "types.rows")[0],
                           questions_by_hand(*fixture.model, other).mean(0) * 0.5, kFloatNear, kFloatNear));
  fixture.learn(first.rows(range(0, 2)));
  EXPECT_EQ(kept_tensor(*fixture.method, "types.rows")[1].abs().max().item<double>(), 0);
}

TEST(Vqacl, TheNearestIsByTheCosineOfTanhAndComesRaw) {
  const auto rows = torch::randn({6, 9}) * 3, vectors = torch::randn({40, 9}) * 3;
  rows[2].zero_();
  const auto found = nearest_rows(rows, vectors, false);
  std::set<int64_t> used;
  int64_t other = 0;
  for (int64_t b = 0; b < vectors.size(0); ++b) {
    const auto best = nearest_by_hand(rows.to(at::kDouble), vectors[b].to(at::kDouble));
    EXPECT_TRUE(found[b].equal(rows[best])) << b;
    used.insert(best);
    const auto plain = (rows.mv(vectors[b]) / rows.norm(2, 1).clamp_min(1e-12)).argmax().item<int64_t>();
    other += plain != best;
  }
  EXPECT_GT(used.size(), 3u);
  EXPECT_GT(other, 0) << "the plain cosine must differ somewhere, or nothing is tested";
  EXPECT_EQ(nearest_rows(rows, torch::zeros({1, 9}), false).abs().max().item<double>(), 0) << "no picture";
}

TEST_P(VqaclMethod, InsertsTheNearestInTrainingAndWithoutLabelsInAnswering) {
  TemporaryFolder folder;
  write_small_model(folder / "model", GetParam());
  VqaclCase fixture(folder / "model");
  auto set = fixture.data(0);
  set.set_stage(1);
  fixture.begin(1, set);
  auto batch = set.rows(range(0, 8));
  EXPECT_FALSE(fixture.pass(batch, 1, true).inserted.defined()) << "nothing is known yet";
  const auto trained = fixture.learn(batch);
  const auto types = kept_tensor(*fixture.method, "types.rows"), objects = kept_tensor(*fixture.method, "objects.rows");
  const auto questions = questions_by_hand(*fixture.model, batch), pictures = pictures_by_model(*fixture.model, batch);
  for (auto& info : batch.info) {  // what evaluation must not need
    info.type = info.category = info.group = info.skill = "";
    info.stage = 0;
  }
  const auto routed = fixture.pass(batch, 1, true);
  for (const auto& inserted : {trained.input.inserted, routed.seen(batch).input.inserted}) {
    ASSERT_TRUE(inserted.defined());
    ASSERT_EQ(inserted.sizes(), (std::vector<int64_t>{8, 2, fixture.model->width()}));
    EXPECT_FALSE(inserted.requires_grad());
    for (int64_t b = 0; b < 8; ++b) {
      EXPECT_TRUE(at::allclose(inserted[b][0].to(at::kDouble), types[nearest_by_hand(types, questions[b])]));
      EXPECT_TRUE(at::allclose(inserted[b][1].to(at::kDouble), objects[nearest_by_hand(objects, pictures[b])]));
    }
  }
  // And they are read.
  const auto logits = [&](const SampleBatch& of) {
    at::NoGradGuard no_grad;
    return fixture.objective->logits_of(*fixture.model, of, Pass{0, nullptr});
  };
  EXPECT_GT((logits(routed.seen(batch)) - logits(batch)).abs().max().item<double>(), 1e-4);
}

TEST(Vqacl, ASampleCountsByTheWorthOfItsAnswer) {
  SampleBatch batch;
  batch.input.ids = torch::zeros({4, 1}, at::kLong);
  batch.info = {{"1", "what?", "red", "", {"red"}},
                {"2", "what?", "red", "", {"red", "blue", "blue", "blue"}},
                {"3", "what?", "blue", "", {"red", "blue", "blue", "pink"}},
                {"4", "what?", "Blue", "", {"red", "blue", "blue", "pink"}}};
  const auto weights = make_method("vqacl")->sample_weights(batch);
  const double expected[] = {1, 1.0 / 3, 2.0 / 3, 2.0 / 3};
  for (int64_t i = 0; i < 4; ++i) EXPECT_NEAR(weights[i].item<double>(), expected[i], 1e-6);
}

// A step of a real run: prototypes from its checkpoint, moved and searched by hand, inserted, and the loss the mean
// over samples of their own mean over answer tokens.
TEST(Vqacl, ALoggedLossIsTheOneByHand) {
  Recomputation again("vqacl", {{"vqacl.buffer", "6"}});
  again.set(Recomputation::kBefore);
  auto stage = again.whole_stage(1);
  const auto types = again.kept("method.vqacl.types.rows"), objects = again.kept("method.vqacl.objects.rows");
  const auto questions = questions_by_hand(*again.model, stage), pictures = pictures_by_model(*again.model, stage);
  types[1].copy_(questions.mean(0));
  ClassPrototypes order("order");
  for (const size_t task : {0, 1})
    for (const auto& info : again.whole_stage(task).info) order.add(info.category);
  for (const auto& [name, mean] : means_by_category(stage, pictures)) {
    auto row = objects[order.row_of(name)];
    row.copy_(row * 0.3 + mean * 0.7);
  }
  std::vector<torch::Tensor> inserted;
  for (int64_t b = 0; b < stage.size(); ++b)
    inserted.push_back(
        at::stack({types[nearest_by_hand(types, questions[b])], objects[nearest_by_hand(objects, pictures[b])]}));
  stage.input.inserted = at::stack(inserted).to(at::kFloat);
  at::NoGradGuard no_grad;
  const auto surprise = again.surprise(stage);
  const auto owner = stage.input.labels.ge(0).nonzero().select(1, 0);
  double loss = 0;
  for (int64_t b = 0; b < stage.size(); ++b)
    loss += surprise.masked_select(owner.eq(b)).mean().item<double>() / static_cast<double>(stage.size());
  EXPECT_NEAR(again.log["task_loss"].get<double>(), loss, 2e-4 * loss);
  stage.input.inserted = torch::Tensor();
  EXPECT_GT(std::abs(again.surprise(stage).mean().item<double>() - loss), 1e-3 * loss);
}

TEST(GroupReplay, SharesOutByStageAndGroupAndReplaysTheGroupInHand) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  VqaclCase fixture(folder / "model", {{"vqacl.buffer", "8"}});
  GroupReplay replay;
  OptionTable table;
  table.add("vqacl", replay);
  table.set({"vqacl.buffer", "8", "test"});
  replay.prepare();
  for (int stage = 1; stage <= 2; ++stage) {
    auto set = fixture.data(static_cast<size_t>(stage));
    set.set_stage(stage);
    set.set_group(range(0, 9), "G1");
    set.set_group(range(9, 12), "G2");
    replay.share_out(fixture.stage_context(stage, set));
    std::map<std::pair<int, std::string>, int64_t> counts;
    for (int64_t i = 0; i < replay.buffer().size(); ++i)
      ++counts[{replay.buffer().info(i).stage, replay.buffer().info(i).group}];
    // 8 / 2 groups, of which G2 has but 3; then 8 / 4.
    const std::map<std::pair<int, std::string>, int64_t> one = {{{1, "G1"}, 4}, {{1, "G2"}, 3}};
    const std::map<std::pair<int, std::string>, int64_t> two = {
        {{1, "G1"}, 2}, {{1, "G2"}, 2}, {{2, "G1"}, 2}, {{2, "G2"}, 2}};
    EXPECT_EQ(counts, stage == 1 ? one : two) << stage;
  }
  auto set = fixture.data(3);
  replay.open(fixture.stage_context(3, set));
  Phase phase;
  phase.name = "G2";
  phase.number = 2;
  replay.note(set.rows({0}));
  replay.note(phase);
  OwnBatch own{{}, {fixture.alone}};
  ASSERT_TRUE(replay.fill(own, *fixture.model, 5));
  EXPECT_EQ(own.batch.size(), 4);
  for (const auto& info : own.batch.info) {
    EXPECT_EQ(info.group, "G2");
    EXPECT_FALSE(info.category.empty()) << "the memory knows what it was";
  }
  phase.name = "";
  replay.note(phase);
  ASSERT_TRUE(replay.fill(own, *fixture.model, 5));
  EXPECT_EQ(own.batch.size(), 8);
  phase.of_method = "another";
  replay.note(phase);
  EXPECT_FALSE(replay.fill(own, *fixture.model, 5)) << "a phase of another method's";
}

// The folder of a run's adapter answers as the run did: prototypes are in it, samples are not.
TEST(Vqacl, PrototypesTravelWithTheAdapter) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  auto list = small_run(folder / "model", folder / "out", "vqacl");
  for (const auto& [key, value] : Settings{{"stream.tasks", "2"}, {"stream.train", "16"}, {"stream.val", "8"}})
    list.push_back({key, value, "test"});
  const auto run = run_small(list)[0];
  const auto about = nlohmann::json::parse(read_text(run + "/adapter/asr_adapter.json"));
  EXPECT_CONTAINS(about["why"].get<std::string>(), "prototypes that vqacl inserts");
  std::set<std::string> names;
  const auto file = read_safetensors(run + "/adapter/asr_adapter.safetensors");
  for (const auto& view : file.tensors) names.insert(view.name);
  EXPECT_EQ(names.count("method.vqacl.types.rows"), 1u);
  EXPECT_EQ(names.count("method.vqacl.objects.rows"), 1u);
  for (const char* kept : {"pictures", "picture_ends", "texts", "stage"})
    EXPECT_EQ(names.count(std::string("method.vqacl.") + kept), 0u) << kept;
  expect_answers_as_evaluated(list, run);
}

TEST(Vqacl, BadInputIsOneLine) {
  EXPECT_CONTAINS(message_of([] { method_parts("vqacl+er"); }), "vqacl cannot be combined with er");
  EXPECT_EQ(message_of([] { method_parts("asr+vqacl"); }), "");
  ClassPrototypes prototypes("types");
  prototypes.add("a");
  prototypes.set(torch::zeros({2, 3}));
  StateHolder holder("");
  EXPECT_CONTAINS(message_of([&] { prototypes.state(holder); }), "the stored prototypes are damaged: 1 classes");
}

}  // namespace
}  // namespace asr
