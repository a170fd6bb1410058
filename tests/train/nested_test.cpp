// Tasks with groups of their own (VQACL): each group is trained in turn with a schedule of its own, stops and resumes
// anywhere, and can be mixed instead.
#include <nlohmann/json.hpp>
#include <set>

#include "base/interrupt.h"
#include "tests/train/run_support.h"
#include "train/data.h"

namespace asr {
namespace {

using nlohmann::json;

void write_stream(const TemporaryFolder& folder) {
  std::filesystem::create_directories(folder / "in");
  const std::vector<std::string> groups = {"G1", "G2", "G3"};
  json tasks = json::array();
  for (const char* task : {"a", "b"}) {
    std::string train, val;
    for (int i = 0; i < 30; ++i) {
      const auto& group = groups[static_cast<size_t>(i % 3)];
      if (std::string(task) == "b" && group == "G2") continue;  // held out
      const json row = {
          {"id", i}, {"question", "is it?"}, {"answer", i % 2 ? "yes" : "no"}, {"group", i < 3 ? "G3" : group}};
      (i < 24 ? train : val) += row.dump() + "\n";
    }
    write_text(folder / ("in/" + std::string(task) + ".train.jsonl"), train);
    write_text(folder / ("in/" + std::string(task) + ".val.jsonl"), val);
    tasks.push_back({{"name", task},
                     {"files", {{"train", cat(task, ".train.jsonl")}, {"val", cat(task, ".val.jsonl")}}},
                     {"groups", {"G3", "G1", "G2"}}});
  }
  write_text(folder / "in/stream.json", json{{"text_only", true}, {"tasks", tasks}}.dump());
}

std::vector<Assignment> nested_run(const TemporaryFolder& folder, const std::string& out) {
  auto options = small_run(folder / "model", folder / out, "vanilla");
  options.erase(
      std::remove_if(options.begin(), options.end(), [](const auto& a) { return a.key.compare(0, 7, "stream.") == 0; }),
      options.end());
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
           {"stream.name", "manifest"}, {"stream.path", folder / "in"}, {"num_train_epochs", "2"}})
    options.push_back({key, value, "test"});
  for (auto& a : options)
    if (a.key == "per_device_train_batch_size") a.value = "4";
  return options;
}

std::vector<json> steps_of(const std::string& run) {
  std::vector<json> out;
  std::istringstream in(read_text(run + "/log.jsonl"));
  for (std::string line; std::getline(in, line);)
    if (auto value = json::parse(line); value.contains("lr")) out.push_back(value);
  return out;
}

TEST(Nested, GroupsAreTrainedInTurnWithSchedulesOfTheirOwn) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  write_stream(folder);
  const auto run = run_small(nested_run(folder, "out"))[0];
  // Task a: ten rows of G3 (the first three belong there), seven of G1 and of G2; two epochs in batches of four.
  std::vector<std::pair<int, std::string>> order;
  std::map<std::pair<int, std::string>, std::vector<double>> rates;
  for (const auto& step : steps_of(run)) {
    const std::pair<int, std::string> key(step["stage"].get<int>(), step["group"].get<std::string>());
    if (order.empty() || order.back() != key) order.push_back(key);
    rates[key].push_back(step["lr"].get<double>());
  }
  EXPECT_EQ(order, (std::vector<std::pair<int, std::string>>{{1, "G3"}, {1, "G1"}, {1, "G2"}, {2, "G3"}, {2, "G1"}}));
  EXPECT_EQ((rates[{1, "G3"}].size()), 5u);
  EXPECT_EQ((rates[{1, "G1"}].size()), 4u);
  for (const auto& [key, list] : rates) {
    EXPECT_DOUBLE_EQ(list.front(), 0.01) << key.second;  // every group begins at the peak and ends low
    EXPECT_LT(list.back(), 0.003) << key.second;
  }

  // Stopped after every step and resumed: the same bits.
  std::string last;
  for (int stop = 0; stop < 60; ++stop) {
    plan_stop(SIGINT, StopPlace::step);
    last = message_of([&] { run_small(nested_run(folder, "stopped"), stop > 0); });
    forget_stop();
    if (last.empty()) break;
  }
  EXPECT_EQ(last, "");
  for (const char* name : {"/matrix.csv", "/adapter/adapter_model.safetensors", "/memory.safetensors"})
    EXPECT_TRUE(read_text(run + name) == read_text((folder / "stopped/vanilla") + name)) << name;
}

TEST(Nested, MixedTrainsATaskAsAWhole) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  write_stream(folder);
  auto options = nested_run(folder, "out");
  options.push_back({"stream.groups", "mixed", "test"});
  const auto steps = steps_of(run_small(options)[0]);
  ASSERT_FALSE(steps.empty());
  for (const auto& step : steps) EXPECT_FALSE(step.contains("group"));
  EXPECT_EQ(std::count_if(steps.begin(), steps.end(), [](const json& s) { return s["stage"] == 1; }), 12);
}

TEST(Nested, SamplesKnowTheirGroup) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  write_stream(folder);
  const auto config = resolve_run(nested_run(folder, "out"));
  const auto model = load_backbone(folder / "model");
  const auto stream = make_stream(config.run.stream);
  const auto analyser = make_analyser(config.run.parser_path(), SkillMode::rule);
  const Team alone;
  Data data(*stream, *model, *analyser, alone);
  std::map<std::string, int> rows;
  const auto& set = data.get(0, DataSplit::train);
  for (const auto& info : set.rows(range(0, set.size())).info) ++rows[info.group];
  EXPECT_EQ(rows, (std::map<std::string, int>{{"G1", 7}, {"G2", 7}, {"G3", 10}}));
}

}  // namespace
}  // namespace asr
