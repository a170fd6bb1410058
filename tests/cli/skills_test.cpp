// The commands about skills: asr parser train | eval, asr skills.
#include "tests/support/program.h"
#include "tests/support/tokenizer_files.h"

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

TEST_F(SkillCommands, ParserTrainsOnSourcesAndIsDistilled) {
  write_text(folder / "vqa.json",
             "{\"info\":{\"year\":1},\"questions\":[{\"question\":\"How many dogs?\",\"question_id\":1},"
             "{\"question\":\"What color is it?\",\"question_id\":2},{\"question\":\"how many DOGS\"}]}");
  write_text(folder / "next.csv", "video,question,answer,type\n1,why did he cry,sad,CW\n1,\"what, then\",x,TN\n");
  write_text(folder / "hand.tsv", "# comment\nother\twhy did he cry?\n");
  const std::vector<std::string> sources = {"--source",    folder / "vqa.json",
                                            "--source",    folder / "next.csv",
                                            "--source",    "templates",
                                            "--templates", "60",
                                            "--exclude",   folder / "hand.tsv",
                                            "--set",       "parser.min_count=1",
                                            "--per-task",  "1",
                                            "--json"};
  const auto arguments = [&](std::vector<std::string> more) {
    more.insert(more.end(), sources.begin(), sources.end());
    return train(more);
  };
  auto outcome = run_program(arguments({"--epochs", "3", "-o", folder / "big"}));
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  const auto notes = outcome.json()["training"];
  const int total = notes["train_questions"].get<int>() + notes["held_out_questions"].get<int>();
  EXPECT_LE(total, 63);  // 60 by templates, some twice, and three of the files
  EXPECT_GT(total, 40);
  EXPECT_EQ(notes["data"], "vqa.json,next.csv,templates");
  outcome =
      run_program(arguments({"--steps", "3", "--distill-from", folder / "big", "--limit", "20", "-o", folder / "s"}));
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_EQ(outcome.json()["training"]["train_questions"], 19);
  EXPECT_EQ(outcome.json()["training"]["distilled_from"], "big");
  expect_refused(arguments({"--steps", "3", "--epochs", "1", "-o", folder / "x"}), "exclude each other");
  expect_refused(arguments({"--device", "tpu", "-o", folder / "x"}), "--device");
}

TEST_F(SkillCommands, RulesAndParsersAreMeasuredSideBySide) {
  const std::string hand = ASR_SOURCE_DIR "/tests/fixtures/hand_labelled_questions.tsv";
  auto outcome = run_program({"parser", "eval", "rules", "--data", hand, "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_EQ(outcome.json()["questions"], 358);
  EXPECT_GT(outcome.json()["accuracy"].get<double>(), 0.7);
  outcome = run_program({"parser", "eval", "rules", kShipped, "--data", hand, "--json"});
  EXPECT_EQ(outcome.json()["parsers"].size(), 2u);
  outcome = run_program({"parser", "eval", "rules", kShipped, "--data", hand});
  EXPECT_CONTAINS(outcome.out, "accuracy %  calibration error");
  EXPECT_CONTAINS(outcome.out, "precision %");
}

TEST_F(SkillCommands, SkillsWithAnotherTaxonomyLexiconAndTokenizer) {
  write_text(folder / "t.yaml", "skills: [number, other]\naliases: {count: number}\n");
  write_text(folder / "tokenizer.json", byte_level_json({{"m", "a"}, {"n", "y"}}).dump());
  const auto outcome = run_program({"skills", "how many dogs?", "--taxonomy", folder / "t.yaml", "--lexicon", "lists",
                                    "--parser", "rules", "--tokenizer", folder.path(), "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  const auto question = outcome.json()["questions"][0];
  EXPECT_EQ(question["skill"], "number");
  EXPECT_EQ(question["posterior"].size(), 2u);
  EXPECT_EQ(question["rule"]["skill"], "count");
  EXPECT_EQ(question["tokens"][0]["text"], "h");
  EXPECT_EQ(question["tokens"][0]["functional"], true);
  EXPECT_EQ(question["tokens"].back()["functional"], false);
  EXPECT_CONTAINS(run_program({"skills", "how many?", "--parser", "rules", "--tokenizer", folder.path()}).out,
                  "[ma]|[ny]");
  expect_refused({"skills", "what?", "--lexicon", "brown"}, "known: auto, wordnet, lists");
  expect_refused({"skills", "what?", "--taxonomy", folder / "none"}, "No such file");
}

TEST_F(SkillCommands, ParserRefusesBadInput) {
  const auto data = write_questions(), file = folder / "p";
  expect_refused(train({"--data", folder / "none", "-o", file}), "No such file");
  expect_refused(train({"--data", data}), "--output is required");
  expect_refused(train({"--size", "huge", "-o", file}), "known: small, paper");
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
