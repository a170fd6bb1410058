// Joint training draws every task as often as its epochs say, and a stage's limit is none of its own.
#include "train/joint.h"

#include "tests/train/run_support.h"

namespace asr {
namespace {

std::map<int64_t, int> times_drawn(const std::vector<int64_t>& rows) {
  std::map<int64_t, int> out;
  for (const int64_t row : rows) ++out[row];
  return out;
}

TEST(JointDraw, IsTheUnionItselfWhereAllEpochsAreAlike) {
  const auto drawn = draw_union({{24, 2}, {8, 2}}, 1);
  EXPECT_TRUE(drawn.rows.empty());
  EXPECT_EQ(drawn.samples, 32);
  EXPECT_EQ(drawn.epochs, 2);
}

TEST(JointDraw, RepeatsRowsByTheirTasksEpochs) {
  const auto drawn = draw_union({{4, 1}, {2, 5}, {10, 0.3}, {10, 1.5}}, 1);
  EXPECT_EQ(drawn.samples, 4 + 10 + 3 + 15);
  EXPECT_EQ(drawn.epochs, 1);
  const auto times = times_drawn(drawn.rows);
  for (int64_t row = 0; row < 4; ++row) EXPECT_EQ(times.at(row), 1);
  EXPECT_EQ(times.at(4), 5);
  EXPECT_EQ(times.at(5), 5);
  int chosen = 0, twice = 0;
  for (int64_t row = 6; row < 16; ++row) chosen += times.count(row) ? 1 : 0;
  for (int64_t row = 16; row < 26; ++row) twice += times.at(row) == 2;
  EXPECT_EQ(chosen, 3);
  EXPECT_EQ(twice, 5);
  EXPECT_EQ(drawn.rows, draw_union({{4, 1}, {2, 5}, {10, 0.3}, {10, 1.5}}, 1).rows);  // resumed alike
}

TEST(JointDraw, ARunTakesThoseSteps) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  auto options = small_run(folder / "model", folder / "out", "joint");
  options.push_back({"task_epochs", "[color=3]", "test"});
  options.push_back({"max_stage_steps", "5", "test"});
  const auto metrics = nlohmann::json::parse(read_text(run_small(options)[0] + "/metrics.json"));
  EXPECT_EQ(metrics["cost"]["steps"].get<int64_t>(), (24 + 3 * 24 + 24) / 8);
}

}  // namespace
}  // namespace asr
