// A run's seed draws its own samples of the built-in world, and answers outside a task's set are counted.
#include <fstream>
#include <set>

#include "metrics/vqa_answer.h"
#include "tests/train/run_support.h"
#include "train/audit.h"

namespace asr {
namespace {

using nlohmann::json;

std::vector<json> answers_in(const std::string& run, const std::string& name) {
  std::ifstream file(run + "/predictions/" + name);
  std::vector<json> out;
  for (std::string line; std::getline(file, line);) out.push_back(json::parse(line));
  return out;
}

std::string questions_of(const std::string& run) {
  std::string out;
  for (const auto& line : answers_in(run, "stage-03-task-02.jsonl")) out += line["question"].get<std::string>() + "\n";
  return out;
}

class RunSeeds : public testing::Test {
 protected:
  RunSeeds() { write_small_model(folder_ / "model"); }
  std::vector<Assignment> options(const std::string& out, const std::string& stream_seed) const {
    auto list = small_run(folder_ / "model", folder_ / out, "vanilla");
    list.push_back({"seeds", "[0, 3]", "test"});
    list.push_back({"stream.seed", stream_seed, "test"});
    return list;
  }
  TemporaryFolder folder_;
};

TEST_F(RunSeeds, EachHasSamplesOfItsOwnUnlessTheStreamSaysOtherwise) {
  const auto own = run_small(options("own", "-1"));
  ASSERT_EQ(own.size(), 2u);
  EXPECT_CONTAINS(own[1], "vanilla-seed3");
  EXPECT_NE(questions_of(own[0]), questions_of(own[1]));
  EXPECT_CONTAINS(read_text(own[1] + "/predictions/stage-01-task-01.jsonl"), "world-10:seed3/count/val/0");
  const auto fixed = run_small(options("fixed", "3"));
  EXPECT_EQ(questions_of(fixed[0]), questions_of(own[1]));
  EXPECT_EQ(questions_of(fixed[1]), questions_of(own[1]));
  const auto audit = audit_run(own[1]);  // looks for the samples of seed 3
  EXPECT_TRUE(audit.passed()) << (audit.violations.empty() ? "" : audit.violations[0]);
  const auto fingerprint = [](const std::string& run) {
    return json::parse(read_text(run + "/fingerprint.json"))["content"]["data"].get<std::string>();
  };
  EXPECT_CONTAINS(fingerprint(own[1]), ":seed 3");
  EXPECT_EQ(fingerprint(own[0]).find("seed"), std::string::npos);
}

TEST_F(RunSeeds, BelongToWhatAResumedRunMustShare) {
  const auto runs = run_small(options("out", "-1"));
  EXPECT_CONTAINS(message_of([&] { run_small(options("out", "0"), true); }), "another 'stream.seed'");
  std::filesystem::remove(folder_ / "out/fingerprint.json");  // then what a run of any seed noted stands for it
  std::filesystem::remove_all(runs[0]);
  const auto adapter = read_text(runs[1] + "/adapter/adapter_model.safetensors");
  EXPECT_EQ(message_of([&] { run_small(options("out", "-1"), true); }), "");
  EXPECT_TRUE(read_text(runs[1] + "/adapter/adapter_model.safetensors") == adapter);
}

TEST_F(RunSeeds, AnswersOutsideATasksSetAreCountedForEveryCell) {
  auto list = small_run(folder_ / "model", folder_ / "out", "vanilla");
  const auto run = run_small(list)[0];
  const auto stream = make_stream(resolve_run(list).run.stream);
  std::set<std::string> known;
  for (int64_t i = 0; i < stream->size(1, DataSplit::train); ++i)
    known.insert(normalized_answer(stream->text(1, DataSplit::train, i).answer));
  double wrong = 0, outside = 0;
  for (const auto& line : answers_in(run, "stage-03-task-02.jsonl")) {
    if (line["score"].get<double>() >= 0.5) continue;
    ++wrong;
    outside += known.count(normalized_answer(line["text"].get<std::string>())) == 0;
  }
  ASSERT_GT(wrong, 0);
  std::istringstream rows(read_text(run + "/answers_outside.csv"));
  std::string header, row;
  std::getline(rows, header);
  EXPECT_EQ(header, "stage,count,color,location");
  while (std::getline(rows, row) && row[0] != '3') {
  }
  std::istringstream cells(row);
  std::string cell;
  std::vector<double> values;
  while (std::getline(cells, cell, ',')) values.push_back(std::stod(cell));
  ASSERT_EQ(values.size(), 4u);
  EXPECT_NEAR(values[2], 100 * outside / wrong, 1e-6);
}

}  // namespace
}  // namespace asr
