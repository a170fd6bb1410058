#include "spectral/memory.h"

#include "tensor/tensor_io.h"
#include "tests/support/files.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

StageMoments stage_of(const Options& options, const torch::Tensor& posterior, double mean, int64_t task = 0,
                      const torch::Tensor& map = {}) {
  StageMoments out(options);
  const int64_t n = posterior.size(0);
  auto rows = torch::full({n, options.spectral.dim()}, mean, at::kDouble);
  for (int64_t i = 0; i < n; ++i) rows[i] += 0.1 * static_cast<double>(i);
  out.add(rows, torch::full({n, options.spectral.angular_bins}, 0.125, at::kDouble), posterior, map, task);
  return out;
}

torch::Tensor one_hot(const std::vector<int64_t>& skills, int64_t count) {
  auto out = torch::zeros({static_cast<int64_t>(skills.size()), count}, at::kDouble);
  for (size_t i = 0; i < skills.size(); ++i) out[static_cast<int64_t>(i)][skills[i]] = 1;
  return out;
}

TEST(Memory, FirstSightTakesTheMomentsLaterOnesAverage) {
  PrototypeMemory memory;
  memory.update(stage_of(memory.options, one_hot({2, 2}, 4), 1));
  ASSERT_EQ(memory.prototypes.size(), 1u);
  EXPECT_DOUBLE_EQ(memory.prototypes[0].mean[0], 1.05);
  EXPECT_NEAR(memory.prototypes[0].variance[0], 0.005, 1e-15);
  memory.update(stage_of(memory.options, one_hot({0, 2, 2}, 4), 3));
  ASSERT_EQ(memory.prototypes.size(), 2u);
  EXPECT_EQ(memory.prototypes[0].skill, 0) << "ascending by skill";
  EXPECT_DOUBLE_EQ(memory.prototypes[0].mean[0], 3);
  EXPECT_EQ(memory.prototypes[0].variance[0], 1e-6) << "a single sample has no variance; the floor stands";
  EXPECT_NEAR(memory.prototypes[1].mean[0], 0.9 * 1.05 + 0.1 * 3.15, 1e-15);
  EXPECT_EQ(memory.prototypes[1].count, 4);
  EXPECT_EQ(memory.stages, 2);
}

TEST(Memory, FloorAtUseKeepsTheVarianceAsMeasured) {
  PrototypeMemory memory;
  memory.options.spectral.floor_at = FloorAt::use;
  memory.update(stage_of(memory.options, one_hot({1}, 2), 3));
  EXPECT_EQ(memory.prototypes[0].variance[0], 0);
}

TEST(Memory, WithoutDistillationItStaysAsAfterStageOne) {
  PrototypeMemory memory;
  memory.options.asr.beta = 0;
  EXPECT_TRUE(memory.update(stage_of(memory.options, one_hot({1}, 2), 3)));
  EXPECT_FALSE(memory.update(stage_of(memory.options, one_hot({0, 1}, 2), 9)));
  ASSERT_EQ(memory.prototypes.size(), 1u);
  EXPECT_DOUBLE_EQ(memory.prototypes[0].mean[0], 3);
}

TEST(Memory, TaskPrototypesAreOneAFinishedStage) {
  PrototypeMemory memory;
  memory.options.asr.prototypes = Prototypes::task;
  for (int task = 0; task < 3; ++task) memory.update(stage_of(memory.options, one_hot({0, 1}, 2), task, task));
  ASSERT_EQ(memory.prototypes.size(), 3u);
  EXPECT_EQ(memory.name_of(2), "task3");
  EXPECT_DOUBLE_EQ(memory.prototypes[2].mean[0], 2.05);
}

TEST(Memory, FileRoundTripsEveryBit) {
  TemporaryFolder folder;
  torch::manual_seed(1);
  PrototypeMemory memory;
  memory.options.spectral.alpha = 0.75;
  memory.options.asr.spectrum = Spectrum::raw;
  memory.skill_names = {"count", "color \"x\""};
  memory.map_height = 2;
  memory.map_width = 3;
  memory.update(stage_of(memory.options, one_hot({0, 1, 1}, 3), 1.0 / 3, 0, torch::rand({3, 2, 3}, at::kDouble)));
  save_memory(folder / "m", memory);
  PrototypeMemory back = load_memory(folder / "m");
  EXPECT_EQ(back.options.table().manifest(), memory.options.table().manifest());
  EXPECT_EQ(back.skill_names, memory.skill_names);
  EXPECT_EQ(back.stages, 1);
  const auto a = memory.tensors(), b = back.tensors();
  EXPECT_TRUE(at::equal(a.mean, b.mean) && at::equal(a.variance, b.variance) && at::equal(a.angular, b.angular) &&
              at::equal(a.map, b.map));
  EXPECT_EQ(back.prototypes[1].count, 2);
  EXPECT_EQ(back.name_of(1), "color \"x\"");
  EXPECT_EQ(back.name_of(2), "skill2");
}

TEST(Memory, HoldsNothingOfAnySample) {
  // Its size depends on skills and options alone, never on how many samples went in.
  TemporaryFolder folder;
  const auto bytes = [&](int64_t samples) {
    PrototypeMemory memory;
    memory.update(stage_of(memory.options, one_hot(std::vector<int64_t>(samples, 1), 3), 1));
    save_memory(folder / "m", memory);
    return std::filesystem::file_size(folder / "m");
  };
  EXPECT_EQ(bytes(5), bytes(9));
}

TEST(Memory, DamagedAndForeignFilesAreRefused) {
  TemporaryFolder folder;
  PrototypeMemory memory;
  memory.update(stage_of(memory.options, one_hot({0, 1}, 2), 1));
  save_memory(folder / "m", memory);
  auto bytes = read_text(folder / "m");
  bytes[bytes.size() - 20] = static_cast<char>(bytes[bytes.size() - 20] ^ 1);
  write_text(folder / "damaged", bytes);
  EXPECT_CONTAINS(error_of([&] { load_memory(folder / "damaged"); }), "checksum");
  write_text(folder / "cut", bytes.substr(0, bytes.size() / 2));
  EXPECT_CONTAINS(error_of([&] { load_memory(folder / "cut"); }), "truncated");
  save_tensors(folder / "other", {{"x", torch::ones({2})}}, {});
  EXPECT_CONTAINS(error_of([&] { load_memory(folder / "other"); }), "no prototype memory");

  // Files that are whole but wrong: saved with a valid checksum, refused for what they hold.
  const auto t = memory.tensors();
  Options options;
  const auto save = [&](NamedTensors tensors) {
    save_tensors(
        folder / "wrong", tensors,
        {{"asr_memory", "1"}, {"options", options.table().manifest().dump()}, {"skills", "[]"}, {"stages", "1"}});
    return error_of([&] { load_memory(folder / "wrong"); });
  };
  const auto count = torch::ones({2}, at::kLong);
  EXPECT_CONTAINS(save({{"skill", t.skill},
                        {"count", count},
                        {"mean", t.mean.slice(1, 1)},
                        {"variance", t.variance},
                        {"angular", t.angular}}),
                  "'mean' has shape");
  EXPECT_CONTAINS(
      save({{"skill", t.skill}, {"count", count}, {"mean", t.mean}, {"variance", -t.variance}, {"angular", t.angular}}),
      "negative");
  EXPECT_CONTAINS(save({{"skill", t.skill},
                        {"count", count},
                        {"mean", t.mean / 0},
                        {"variance", t.variance},
                        {"angular", t.angular}}),
                  "NaN or infinite");
  EXPECT_CONTAINS(save({{"skill", t.skill.flip(0)},
                        {"count", count},
                        {"mean", t.mean},
                        {"variance", t.variance},
                        {"angular", t.angular}}),
                  "ascending");
  EXPECT_CONTAINS(save({{"skill", t.skill},
                        {"count", count * 0},
                        {"mean", t.mean},
                        {"variance", t.variance},
                        {"angular", t.angular}}),
                  "count 0");
}

}  // namespace
}  // namespace asr
