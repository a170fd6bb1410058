// The commands about skills: asr parser train | eval, asr skills.
#include "tests/support/program.h"

namespace asr {
namespace {

const std::string kShipped = ASR_SOURCE_DIR "/assets/parser-world.safetensors";

class SkillCommands : public testing::Test {
 protected:
  std::string write_questions() {
    std::string lines;
    for (int i = 0; i < 6; ++i)
      lines +=
          "{\"question\":\"how many dogs are there?\",\"skill\":\"count\"}\n"
          "{\"question\":\"what color is the dog?\",\"skill\":\"color\"}\n";
    write_text(folder / "q.jsonl", lines);
    return folder / "q.jsonl";
  }
  std::vector<std::string> train(std::vector<std::string> more) {
    std::vector<std::string> out = {"parser", "train",           "--threads", "1",
                                    "--set",  "parser.width=16", "--set",     "parser.mlp=16"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  TemporaryFolder folder;
};

TEST_F(SkillCommands, ParserTrainsOnAFileAndIsMeasured) {
  const auto data = write_questions(), file = folder / "p.safetensors";
  auto outcome = run_program(train({"--data", data, "--steps", "40", "--seed", "3", "-o", file, "--json"}));
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_EQ(outcome.json()["training"]["train_questions"], 11);
  EXPECT_EQ(outcome.json()["training"]["held_out_questions"], 1);
  outcome = run_program({"parser", "eval", file, "--data", data, "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  const auto result = outcome.json();
  EXPECT_EQ(result["questions"], 12);
  EXPECT_EQ(result["accuracy"], 1.0);
  EXPECT_EQ(result["skills"].size(), 15u);
  EXPECT_EQ(result["skills"][0]["correct"], 6);
  EXPECT_TRUE(result["confusions"].empty());
  EXPECT_TRUE(result.contains("calibration_error"));
  EXPECT_CONTAINS(run_program({"parser", "eval", file, "--data", data}).out, "recall %");
}

TEST_F(SkillCommands, ParserTrainsOnTheWorld) {
  const auto file = folder / "p";
  const auto outcome = run_program(train({"--per-task", "2", "--steps", "2", "-o", file}));
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_CONTAINS(outcome.out, "on held-out");
  const auto eval = run_program({"parser", "eval", kShipped, "--per-task", "8", "--json"});
  ASSERT_EQ(eval.status, 0) << eval.error;
  EXPECT_GT(eval.json()["accuracy"].get<double>(), 0.99);
}

TEST_F(SkillCommands, ParserRefusesBadInput) {
  const auto data = write_questions(), file = folder / "p";
  expect_refused(train({"--data", folder / "none", "-o", file}), "No such file");
  expect_refused(train({"--data", data}), "--output is required");
  expect_refused(train({"--size", "huge", "-o", file}), "known: small, full");
  expect_refused(train({"--set", "parser.layer=3", "-o", file}), "did you mean 'parser.layers'?");
  expect_refused(train({"--data", data, "--set", "parser.heads=3", "-o", file}), "no multiple");
  expect_refused(train({"--steps", "0", "-o", file}), "--steps");
  EXPECT_FALSE(std::filesystem::exists(file));
  expect_refused({"parser", "eval", data}, "q.jsonl");
  expect_refused({"parser", "eval", kShipped, "--data", folder / "none"}, "No such file");
  expect_refused({"parser", "eval", kShipped, "--split", "train"}, "known: val, test, tune");
  expect_refused({"parser"}, "subcommand");
  write_text(folder / "bad.jsonl", "{}\n");
  expect_refused({"parser", "eval", kShipped, "--data", folder / "bad.jsonl"}, "bad.jsonl:1");
  EXPECT_CONTAINS(run_program({"parser", "train", "--help"}).out, "parser.word_dropout");
}

TEST_F(SkillCommands, SkillsOfQuestions) {
  auto outcome = run_program({"skills", "how many red circles are there?", "\xff?", "--json"});  // found beside build/
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  const auto question = outcome.json()["questions"][0];
  EXPECT_EQ(question["skill"], "count");
  double sum = 0;
  for (const auto& p : question["posterior"]) sum += p.get<double>();
  EXPECT_NEAR(sum, 1, 1e-5);
  EXPECT_EQ(question["functional"], nlohmann::json({"how", "many", "circles"}));
  EXPECT_EQ(question["words"][3]["begin"], 13);
  outcome = run_program({"skills", "--parser", kShipped, "what color is the car?", "Answer yes or no."});
  EXPECT_CONTAINS(outcome.out, "color");
  EXPECT_CONTAINS(outcome.out, "###");
  EXPECT_CONTAINS(outcome.out, "car (head noun)");
  EXPECT_CONTAINS(outcome.out, "none by rule, so all words");
  expect_refused({"skills", "what?", "--parser", folder / "none"}, "No such file");
}

TEST_F(SkillCommands, SkillsReadStdin) {
  write_text(folder / "lines", "where is the dog?\r\n\nwhat does the sign say?\n");
  const auto outcome = run_program({"skills", "--json"}, folder / "lines");
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  ASSERT_EQ(outcome.json()["questions"].size(), 2u);
  EXPECT_EQ(outcome.json()["questions"][0]["question"], "where is the dog?");
  EXPECT_EQ(outcome.json()["questions"][1]["skill"], "read");
  EXPECT_CONTAINS(run_program({"skills"}).error, "there is no question");
}

}  // namespace
}  // namespace asr
