#include "data/replay_buffer.h"

#include <map>
#include <set>

#include "io/png.h"
#include "tests/data/support.h"

namespace asr {
namespace {

// A buffer's items as a checkpoint would hold them.
struct StoredItems final : StateVisitor {
  std::map<std::string, torch::Tensor> tensors;
  std::map<std::string, std::string> texts;
  bool loads = false;

  void tensor(const std::string& name, StateKind, torch::Tensor& value) override {
    if (loads)
      value = tensors.count(name) ? tensors[name] : torch::Tensor();
    else
      tensors[name] = value;
  }
  void text(const std::string& name, StateKind, std::string& value) override {
    if (loads)
      value = texts[name];
    else
      texts[name] = value;
  }
};

class Replay : public ::testing::Test {
 protected:
  Replay() : stream(small_world()), model(small_model()) {
    for (size_t task = 0; task < 3; ++task) sets.push_back(encoded_world(*stream, *model, &analyser, task));
  }
  std::map<int, int64_t> counts(const ReplayBuffer& buffer) const {
    std::map<int, int64_t> out;
    for (int64_t i = 0; i < buffer.size(); ++i) ++out[buffer.info(i).stage];
    return out;
  }
  ReplayBuffer filled(int64_t capacity, int stages, uint64_t seed = 1) {
    ReplayBuffer buffer;
    for (int stage = 1; stage <= stages; ++stage)
      buffer.share_out(*sets[static_cast<size_t>(stage) - 1], {capacity, stage, seed}, alone);
    return buffer;
  }
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Backbone> model;
  CountingAnalyser analyser;
  std::vector<std::shared_ptr<SampleSet>> sets;
  const Team alone;
};

TEST_F(Replay, EveryStageHasAnEqualQuota) {
  using Counts = std::map<int, int64_t>;
  EXPECT_EQ(counts(filled(12, 1)), (Counts{{1, 12}}));
  EXPECT_EQ(counts(filled(12, 2)), (Counts{{1, 6}, {2, 6}}));
  EXPECT_EQ(counts(filled(12, 3)), (Counts{{1, 4}, {2, 4}, {3, 4}}));
  EXPECT_EQ(counts(filled(1000, 1)), (Counts{{1, 40}})) << "all there are";
  EXPECT_EQ(counts(filled(1, 3)), (Counts{{1, 1}, {2, 1}, {3, 1}})) << "at least one of each";
}

TEST_F(Replay, OldSamplesAreDeletedNotReplaced) {
  const auto before = filled(12, 1), after = filled(12, 2);
  std::set<std::string> known;
  for (int64_t i = 0; i < before.size(); ++i) known.insert(before.info(i).id);
  for (int64_t i = 0; i < 6; ++i) EXPECT_TRUE(known.count(after.info(i).id)) << after.info(i).id;
  const auto other = filled(12, 1, 2);
  int64_t same = 0;
  for (int64_t i = 0; i < other.size(); ++i) same += static_cast<int64_t>(known.count(other.info(i).id));
  EXPECT_LT(same, 12) << "the seed draws";
}

TEST_F(Replay, RowsAreThoseOfTheStageBitForBit) {
  auto buffer = filled(12, 2);
  buffer.open(*sets[0]);
  for (int64_t i = 0; i < buffer.size(); ++i) {
    const auto& kept = buffer.info(i);
    const auto& data = *sets[static_cast<size_t>(kept.stage) - 1];
    int64_t row = 0;
    while (data.info(row).id != kept.id) ++row;
    const auto replayed = buffer.rows({i}), original = data.rows({row});
    expect_same_input(replayed.input, original.input);
    EXPECT_TRUE(replayed.posterior.equal(original.posterior));
    EXPECT_EQ(replayed.info[0].references, original.info[0].references);
    EXPECT_EQ(replayed.info[0].stage, kept.stage);
  }
}

TEST_F(Replay, DrawsAreKeyedAndDifferent) {
  const auto buffer = filled(12, 1);
  const auto rows = buffer.draw(5, 3);
  EXPECT_EQ(std::set<int64_t>(rows.begin(), rows.end()).size(), 5u);
  EXPECT_EQ(rows, buffer.draw(5, 3));
  EXPECT_NE(rows, buffer.draw(5, 4));
  EXPECT_EQ(buffer.draw(50, 3).size(), 12u);
}

TEST_F(Replay, ChosenRowsAreKept) {
  ReplayBuffer buffer;
  buffer.add(*sets[0], {9, 2}, 1, alone);
  buffer.add(*sets[1], {5}, 2, alone);
  ASSERT_EQ(buffer.size(), 3);
  EXPECT_EQ(buffer.info(0).id, sets[0]->info(9).id);
  EXPECT_EQ(buffer.info(2).stage, 2);
  buffer.keep_only({2, 0});
  ASSERT_EQ(buffer.size(), 2);
  EXPECT_EQ(buffer.info(0).id, sets[1]->info(5).id);
  buffer.open(*sets[0]);
  expect_same_input(buffer.rows({1}).input, sets[0]->rows({9}).input);
  EXPECT_CONTAINS(error_of([&] { buffer.keep_only({2}); }), "no sample 2 among 2");
}

TEST_F(Replay, PicturesAreCompressed) {
  const auto buffer = filled(40, 1);
  EXPECT_GT(buffer.bytes(), 40 * 100);
  EXPECT_LT(buffer.bytes(), 40 * 32 * 32 * 3);
}

TEST_F(Replay, StateComesBack) {
  auto buffer = filled(12, 2);
  StoredItems stored;
  buffer.state(stored);
  const auto bytes = stored.tensors["pictures"];
  buffer.state(stored);
  EXPECT_TRUE(bytes.is_same(stored.tensors["pictures"])) << "nothing changes within a stage";
  stored.loads = true;
  ReplayBuffer again;
  again.state(stored);
  ASSERT_EQ(again.size(), buffer.size());
  EXPECT_CONTAINS(error_of([&] { again.rows({0}); }), "was not opened");
  again.open(*sets[0]);
  buffer.open(*sets[0]);
  for (const auto& rows : {buffer.draw(4, 9), again.draw(4, 9)}) {
    expect_same_input(again.rows(rows).input, buffer.rows(rows).input);
    EXPECT_TRUE(again.rows(rows).posterior.equal(buffer.rows(rows).posterior));
    EXPECT_EQ(again.rows(rows).info[1].stage, buffer.rows(rows).info[1].stage);
  }
  // The next quota is drawn from what was loaded.
  again.share_out(*sets[2], {12, 3, 1}, alone);
  buffer.share_out(*sets[2], {12, 3, 1}, alone);
  for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(again.info(i).id, buffer.info(i).id);
}

TEST_F(Replay, AnEmptyOneIsStoredToo) {
  ReplayBuffer buffer;
  StoredItems stored;
  buffer.state(stored);
  stored.loads = true;
  ReplayBuffer again;
  again.state(stored);
  EXPECT_EQ(again.size(), 0);
  again.open(*sets[0]);
}

TEST_F(Replay, DamagedItemsAreRefused) {
  auto buffer = filled(12, 1);
  const auto problem = [&](const std::function<void(StoredItems&)>& damage) {
    StoredItems stored;
    buffer.state(stored);
    damage(stored);
    stored.loads = true;
    ReplayBuffer again;
    return error_of([&] { again.state(stored); });
  };
  const auto damaged = "replay buffer is damaged";
  EXPECT_CONTAINS(problem([](StoredItems& s) { s.tensors["pictures"] = s.tensors["pictures"].slice(0, 3); }), damaged);
  EXPECT_CONTAINS(problem([](StoredItems& s) { s.tensors.erase("pictures"); }), damaged);
  EXPECT_CONTAINS(problem([](StoredItems& s) { s.tensors["pictures"] = torch::zeros({3, 4}); }), damaged);
  EXPECT_CONTAINS(problem([](StoredItems& s) { s.tensors["picture_ends"] = torch::zeros({12}); }), damaged);
  EXPECT_CONTAINS(problem([](StoredItems& s) {
                    auto ends = s.tensors["picture_ends"].clone();
                    ends[4] = 0;
                    s.tensors["picture_ends"] = ends;
                  }),
                  "ends before it begins");
  EXPECT_CONTAINS(problem([](StoredItems& s) { s.tensors["stage"] = s.tensors["stage"].slice(0, 1); }), damaged);
  EXPECT_CONTAINS(problem([](StoredItems& s) { s.tensors["posterior"] = torch::zeros({11, 3}); }), damaged);
  EXPECT_CONTAINS(problem([](StoredItems& s) { s.texts["texts"] = "[[1]]"; }), damaged);
  EXPECT_CONTAINS(problem([](StoredItems& s) { s.texts["texts"] = "{}"; }), damaged);
  EXPECT_CONTAINS(problem([](StoredItems& s) { s.texts["texts"] = "["; }), "texts of the stored replay buffer");
  // A picture inside is read when it is wanted.
  StoredItems stored;
  buffer.state(stored);
  stored.tensors["pictures"] = stored.tensors["pictures"].clone();
  stored.tensors["pictures"].slice(0, 0, 60).fill_(7);
  stored.loads = true;
  ReplayBuffer again;
  again.state(stored);
  EXPECT_CONTAINS(error_of([&] { again.open(*sets[0]); }), "kept picture of " + buffer.info(0).id);
}

// Pictures in files, under a model that packs its own batches.
class ReplayOfFiles : public ::testing::Test {
 protected:
  ReplayOfFiles() : stream(small_world()), model(packing_model()) {
    for (int64_t i = 0; i < 40; ++i) {
      const auto s = stream->sample(0, DataSplit::train, i);
      write_text(path(i), encode_png(s.pixels.data(), 32, 32));
    }
    PictureSource source;
    source.picture = [this](int64_t i) { return read_image(path(i)); };
    source.file = [this](int64_t i) { return PictureFile{path(i), 1}; };
    set = packed_samples(
        40, [&](int64_t i) { return stream->text(0, DataSplit::train, i); }, source, *model, nullptr);
  }
  std::string path(int64_t i) const { return folder / cat(i, ".png"); }
  TemporaryFolder folder;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Backbone> model;
  std::shared_ptr<SampleSet> set;
  const Team alone;
};

TEST_F(ReplayOfFiles, BytesOutliveTheFiles) {
  ReplayBuffer buffer;
  buffer.add(*set, {3, 8}, 1, alone);
  EXPECT_EQ(buffer.bytes(), static_cast<int64_t>(read_text(path(3)).size() + read_text(path(8)).size()))
      << "the files' own bytes";
  const auto original = set->rows({8});
  std::filesystem::remove(path(8));
  buffer.open(*set);
  expect_same_input(buffer.rows({1}).input, original.input);
}

TEST_F(ReplayOfFiles, ReferencesCostNothingAndNeedTheFile) {
  ReplayBuffer buffer({KeepPictures::files});
  buffer.add(*set, {3, 8}, 1, alone);
  EXPECT_EQ(buffer.bytes(), 0);
  StoredItems stored;
  buffer.state(stored);
  stored.loads = true;
  ReplayBuffer again({KeepPictures::files});
  again.state(stored);
  again.open(*set);
  expect_same_input(again.rows({1}).input, set->rows({8}).input);
  std::filesystem::remove(path(8));
  EXPECT_THROW(again.rows({1}), UnreadableSample);
  EXPECT_CONTAINS(error_of([&] { again.rows({1}); }), path(8));
}

TEST_F(ReplayOfFiles, AFileThatIsGoneCannotBeKept) {
  std::filesystem::remove(path(8));
  ReplayBuffer buffer;
  EXPECT_CONTAINS(error_of([&] { buffer.add(*set, {3, 8}, 1, alone); }), path(8));
  EXPECT_EQ(buffer.size(), 0);
}

TEST_F(ReplayOfFiles, ReplayedPicturesAreAugmented) {
  ReplayBuffer buffer;
  const auto rows = range(0, 12);
  buffer.add(*set, rows, 1, alone);
  buffer.open(*set);
  EXPECT_TRUE(buffer.rows(rows, 5).input.pixels.equal(set->training_rows(rows, 5).input.pixels));
  EXPECT_FALSE(buffer.rows(rows, 5).input.pixels.equal(buffer.rows(rows).input.pixels));
  EXPECT_FALSE(buffer.rows(rows, 5).input.pixels.equal(buffer.rows(rows, 6).input.pixels));
}

}  // namespace
}  // namespace asr
