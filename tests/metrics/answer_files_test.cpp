#include "metrics/answer_files.h"

#include "tests/support/files.h"

namespace asr {
namespace {

std::vector<Answered> load(const std::string& predictions, const std::string& references) {
  TemporaryFolder folder;
  write_text(folder / "p", predictions);
  write_text(folder / "r", references);
  return load_answered(folder / "p", folder / "r");
}

std::string refusal(const std::string& predictions, const std::string& references) {
  return error_of([&] { load(predictions, references); });
}

const char* kOne = "{\"question_id\":1,\"text\":\"red\"}\n";
const char* kTruth = "{\"question_id\":1,\"answer\":\"red\"}\n";

TEST(AnswerFiles, JoinsLinesById) {
  const auto samples = load("{\"question_id\":\"b\",\"text\":\"x\"}\r\n{\"question_id\":7,\"text\":\"\\u00e9\"}\n",
                            "{\"question_id\":7,\"answers\":[\"p\",\"q\"],\"question_type\":\"t\"}\n"
                            "{\"question_id\":\"b\",\"references\":[\"r\"],\"answer\":\"s\"}\n");
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].id, "b");
  EXPECT_EQ(samples[0].references, std::vector<std::string>{"r"});
  EXPECT_EQ(samples[1].text, "\xc3\xa9");
  EXPECT_EQ(samples[1].references, (std::vector<std::string>{"p", "q"}));
  EXPECT_EQ(samples[1].type, "t");
}

TEST(AnswerFiles, NumbersCountAsText) {
  const auto samples = load("{\"question_id\":\"1\",\"text\":3}", "{\"question_id\":1,\"answer\":3}");
  EXPECT_EQ(samples[0].text, "3");
  EXPECT_EQ(samples[0].references[0], "3");
}

TEST(AnswerFiles, ReadsTheBenchmarksOwnFiles) {
  const auto vqa =
      load("[{\"question_id\":5,\"answer\":\"tea\"}]",
           "{\"info\":{\"v\":2},\"annotations\":[{\"question_id\":5,\"image_id\":9,\"question_type\":\"what\","
           "\"multiple_choice_answer\":\"tea\",\"answers\":[{\"answer\":\"tea\",\"answer_id\":1},"
           "{\"answer\":\"milk\",\"answer_id\":2}]}]}");
  EXPECT_EQ(vqa[0].references, (std::vector<std::string>{"tea", "milk"}));
  EXPECT_EQ(load(kOne, "{\"dataset\":\"textvqa\",\"data\":[{\"question_id\":1,\"answers\":[\"a\"]}]}")[0].references[0],
            "a");
  EXPECT_EQ(load(kOne, "{\"1\":{\"answer\":\"yes\",\"types\":{\"a\":1}}}")[0].references[0], "yes");
  EXPECT_EQ(load(kOne, "[{\"question_id\":1,\"answer\":\"the cup\",\"answer_bbox\":\"[0,0,1,1]\",\"size\":[3,4]}]")[0]
                .references[0],
            "[0,0,1,1]");
  const auto next =
      load("{\"33\": {\"1\": \"happy\", \"0\": \"two\"},\n \"34\": {\"0\": \"run\"}}",
           "video,frame_count,question,answer,qid,type\r\n33,4,\"how, many\",two,0,DC\n34,9,why,to run,0,CW\n"
           "33,4,how,happy,1,CH\n");
  ASSERT_EQ(next.size(), 3u);
  EXPECT_EQ(next[0].id + next[0].type, "33_0DC");  // a JSON map is read in the order of its keys
}

TEST(AnswerFiles, CocoCaptionsJoinByIdOrByRow) {
  const std::string captions =
      "{\"images\":[{\"id\":1},{\"id\":2}],\"annotations\":[{\"image_id\":1,\"id\":0,\"caption\":\"a\"},"
      "{\"image_id\":2,\"id\":1,\"caption\":\"b\"},{\"image_id\":1,\"id\":2,\"caption\":\"c\"}]}";
  const auto by_row =
      load("{\"question_id\":\"x\",\"text\":\"p\"}\n{\"question_id\":\"y\",\"text\":\"q\"}\n", captions);
  EXPECT_EQ(by_row[0].references, (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(by_row[1].references, (std::vector<std::string>{"b"}));
  const auto by_id = load("{\"question_id\":2,\"text\":\"p\"}\n{\"question_id\":1,\"text\":\"q\"}\n", captions);
  EXPECT_EQ(by_id[0].references, (std::vector<std::string>{"b"}));
  EXPECT_CONTAINS(refusal("{\"question_id\":\"x\",\"text\":\"p\"}", captions), "1 predictions for 2 images");
}

TEST(AnswerFiles, BadFilesNamePlaceAndId) {
  EXPECT_CONTAINS(refusal("", kTruth), "/p: is empty; expected predictions");
  EXPECT_CONTAINS(refusal(kOne, ""), "/r: is empty; expected references");
  EXPECT_CONTAINS(refusal("[]", kTruth), "/p: holds no predictions");
  EXPECT_CONTAINS(refusal(kOne, "{\"annotations\":[]}"), "/r: holds no references");
  EXPECT_CONTAINS(refusal(std::string(kOne) + kOne, kTruth), "/p:2: question_id '1' stands twice, first at");
  EXPECT_CONTAINS(refusal(kOne, std::string(kTruth) + kTruth), "/r:2: question_id '1' stands twice");
  EXPECT_CONTAINS(refusal("{\"question_id\":2,\"text\":\"x\"}", kTruth), "/p:1: question_id '2' has no reference in");
  EXPECT_CONTAINS(refusal(kOne, std::string(kTruth) + "{\"question_id\":9,\"answer\":\"x\"}\n"),
                  "/r:2: question_id '9' has no prediction in");
  EXPECT_CONTAINS(refusal("{\"question_id\":1}\n", kTruth), "has no 'text'");
  EXPECT_CONTAINS(refusal("{\"text\":\"x\"}\n{\"text\":\"x\"}\n", kTruth), "/p:1: has no 'question_id'");
  EXPECT_CONTAINS(refusal("{\"question_id\":1,\"text\":null}", kTruth), "'text' must be a string, found null");
  EXPECT_CONTAINS(refusal("{\"question_id\":1.5,\"text\":\"x\"}", kTruth), "'question_id' must be a string");
  EXPECT_CONTAINS(refusal("{\"question_id\":1,\"text\":NaN}", kTruth), "/p:1:25: not valid JSON");
  EXPECT_CONTAINS(refusal("{\"question_id\":1,\"text\":\"\xff\"}", kTruth), "/p:1:26: not valid JSON");
  EXPECT_CONTAINS(refusal(kOne, "{\"question_id\":1}"), "'1' has no reference; give");
  EXPECT_CONTAINS(refusal(kOne, "{\"question_id\":1,\"answers\":[]}"), "'1' has no reference; give");
  EXPECT_CONTAINS(refusal(kOne, "{\"question_id\":1,\"answers\":\"x\"}"), "'answers' must be a list");
  EXPECT_CONTAINS(refusal(kOne, "{\"question_id\":1,\"answers\":[[]]}"), "'answers' must be a string, found array");
  EXPECT_CONTAINS(refusal(kOne, "a,b\n1,2\n"), "has no column 'video'");
  EXPECT_CONTAINS(refusal(kOne, "video,qid,answer,type\n1,2\n"), "/r:2: has 2 fields but the header has 4");
  EXPECT_CONTAINS(error_of([] { load_answered("/nonexistent", "/nonexistent"); }), "/nonexistent");
}

TEST(AnswerFiles, HugeTextsAreJustTexts) {
  const std::string huge(4 << 20, 'x');
  EXPECT_EQ(load("{\"question_id\":1,\"text\":\"" + huge + "\"}\n{\"question_id\":2,\"text\":\"\"}\n",
                 std::string(kTruth) + "{\"question_id\":2,\"answer\":\"" + huge + "\"}\n")[0]
                .text.size(),
            huge.size());
}

}  // namespace
}  // namespace asr
