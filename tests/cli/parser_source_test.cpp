// asr parser train --source FOLDER: the training questions of a stream, labelled by the rules.
#include "tests/support/program.h"

namespace asr {
namespace {

TEST(ParserSource, IsTheFolderOfAStream) {
  TemporaryFolder folder;
  const auto exported = run_program({"world", "export", "--train", "3", "--val", "2", "-o", folder / "stream"});
  ASSERT_EQ(exported.status, 0) << exported.error;
  const auto trained = run_program({"parser", "train", "--source", folder / "stream", "--steps", "2", "--threads", "1",
                                    "--json", "-o", folder / "parser.safetensors"});
  ASSERT_EQ(trained.status, 0) << trained.error;
  const auto training = nlohmann::json::parse(trained.out)["training"];
  const auto questions = training["train_questions"].get<int>() + training["held_out_questions"].get<int>();
  EXPECT_GT(questions, 10);  // ten tasks of three questions, each text once
  EXPECT_LE(questions, 30);
  EXPECT_EQ(training["data"], "stream");
  EXPECT_EQ(run_program({"skills", "--parser", folder / "parser.safetensors", "why?"}).status, 0);
}

}  // namespace
}  // namespace asr
