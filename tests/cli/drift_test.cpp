// asr drift on the analysis files that a run leaves.
#include <nlohmann/json.hpp>

#include "skills/taxonomy.h"
#include "tensor/tensor_io.h"
#include "tests/support/program.h"
#include "tests/train/run_support.h"

namespace asr {
namespace {

using nlohmann::json;

class DriftCommand : public ::testing::Test {
 protected:
  // Every task of world-domain asks for every skill; few samples, so that some variances are 0.
  void SetUp() override {
    write_small_model(folder / "model");
    auto list = small_run(folder / "model", folder / "out", "vanilla");
    for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
             {"stream.name", "world-domain"}, {"stream.val", "16"}, {"analysis.samples", "12"}})
      list.push_back({key, value, "test"});
    run_small(list);
  }
  std::string analysis(int stage) const {
    return cat(folder.path(), "/out/vanilla/stages/0", stage, "/analysis.safetensors");
  }

  TemporaryFolder folder;
};

TEST_F(DriftCommand, WorksOnEveryPairOfARunsFiles) {
  const auto& names = skill_names();
  for (const auto& [a, b] : std::vector<std::pair<int, int>>{{1, 2}, {1, 3}, {2, 3}, {3, 1}, {2, 2}}) {
    const auto outcome = run_program({"drift", analysis(a), analysis(b), "--json"});
    ASSERT_EQ(outcome.status, 0) << a << " " << b << ": " << outcome.error;
    const auto all = outcome.json();
    ASSERT_FALSE(all["skills"].empty());
    for (const auto& skill : all["skills"]) {
      EXPECT_EQ(skill["name"], names.at(skill["skill"].get<size_t>()));
      EXPECT_EQ(skill["tasks"].size() <= static_cast<size_t>(std::min(a, b)), true) << skill.dump();
      EXPECT_GT(skill["samples"].get<int64_t>(), 0);
      EXPECT_TRUE(skill["w2"].is_number()) << skill.dump();
    }
  }
  const auto text = run_program({"drift", analysis(1), analysis(2)});
  ASSERT_EQ(text.status, 0) << text.error;
  EXPECT_EQ(text.out.find("skill0"), std::string::npos) << text.out;
}

TEST_F(DriftCommand, AgreesWithTheLog) {
  json logged;
  std::istringstream in(read_text(folder / "out/vanilla/log.jsonl"));
  for (std::string line; std::getline(in, line);)
    if (auto value = json::parse(line); value.contains("skill_drift") && value["stage"] == 2)
      logged = value["skill_drift"];
  const auto found = run_program({"drift", analysis(1), analysis(2), "--json"}).json()["skills"];
  ASSERT_EQ(found.size(), logged.size());
  for (const auto& skill : found)
    EXPECT_NEAR(skill["jsd"].get<double>(), logged[skill["name"].get<std::string>()].get<double>(), 1e-12);
}

TEST_F(DriftCommand, RefusesDamageAndOtherSamples) {
  auto list = small_run(folder / "model", folder / "other", "vanilla");
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
           {"stream.name", "world-domain"}, {"stream.val", "16"}, {"analysis.samples", "9"}, {"stream.tasks", "1"}})
    list.push_back({key, value, "test"});
  run_small(list);
  expect_refused({"drift", analysis(1), folder / "other/vanilla/stages/01/analysis.safetensors"},
                 "was measured on other samples");
  auto bytes = read_text(analysis(2));
  bytes[bytes.size() / 2] ^= 1;
  write_text(analysis(2), bytes);
  expect_refused({"drift", analysis(1), analysis(2)}, "checksum does not match");
}

// A file of another program may have variances of 0 and no options that say how to floor them.
TEST_F(DriftCommand, ASmallestVarianceIsAskedForWhereNoneIsKnown) {
  const auto one = [](double value, int64_t width) { return torch::full({1, width}, value, at::kDouble); };
  save_tensors(folder / "plain",
               {{"skill", torch::tensor({3})},
                {"mean", one(0, 54)},
                {"variance", one(0, 54)},
                {"radial", one(0.125, 8)},
                {"angular", one(0.125, 8)}},
               {});
  expect_refused({"drift", folder / "plain", folder / "plain"}, "--floor 1e-6");
  EXPECT_EQ(run_program({"drift", folder / "plain", folder / "plain", "--floor", "1e-6"}).status, 0);
  expect_refused({"drift", folder / "plain", analysis(1)}, "no skill in common");
}

}  // namespace
}  // namespace asr
