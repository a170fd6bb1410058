#include "skills/labelled_questions.h"

#include "tests/support/files.h"

namespace asr {
namespace {

TEST(LabelledQuestions, ReadsJsonLines) {
  TemporaryFolder folder;
  write_text(
      folder / "q.jsonl",
      "{\"question\":\"how many?\",\"skill\":\"counting\",\"id\":7}\n\n{\"question\":\"\",\"skill\":\"other\"}\r\n");
  const auto questions = read_labelled_questions(folder / "q.jsonl");
  ASSERT_EQ(questions.size(), 2u);
  EXPECT_EQ(questions[0].text, "how many?");
  EXPECT_EQ(questions[0].skill, 0);
}

TEST(LabelledQuestions, ErrorsNameTheLine) {
  TemporaryFolder folder;
  const auto message = [&](const std::string& text) {
    write_text(folder / "q", text);
    return error_of([&] { read_labelled_questions(folder / "q"); });
  };
  EXPECT_CONTAINS(message("{\"question\":\"a\",\"skill\":\"count\"}\nnonsense\n"), "q:2:2: not valid JSON");
  EXPECT_CONTAINS(message("{\"question\":\"a\"}\n"), "q:1: lacks the text 'skill'");
  EXPECT_CONTAINS(message("{\"question\":1,\"skill\":\"count\"}\n"), "'question' is no text");
  EXPECT_CONTAINS(message("{\"question\":\"a\",\"skill\":\"cuont\"}\n"),
                  "q:1: skill 'cuont' is unknown; did you mean 'count'?");
  EXPECT_CONTAINS(message("\n"), "holds no questions");
  EXPECT_CONTAINS(error_of([&] { read_labelled_questions(folder / "none"); }), "No such file");
}

}  // namespace
}  // namespace asr
