// A stream carries the style of its prompts: CoIN and UCIT ask with the template of their own releases.
#include "tests/streams/prepare_support.h"

namespace asr {
namespace {

using InstructionStream = Prepare;

void write_stream(const std::string& folder, const std::string& stream, const std::string& prompt) {
  std::filesystem::create_directories(folder);
  write_text(folder + "/a.png", picture(9));
  write_text(folder + "/rows.jsonl", "{\"id\":\"1\",\"image\":\"a.png\",\"question\":\"what?\",\"answer\":\"it\"}\n");
  nlohmann::json index = {{"stream", stream},
                          {"tasks", {{{"name", "t"}, {"files", {{"train", "rows.jsonl"}, {"val", "rows.jsonl"}}}}}}};
  if (!prompt.empty()) index["prompt"] = prompt;
  write_text(folder + "/stream.json", index.dump());
}

TEST_F(InstructionStream, IsReadFromStreamJson) {
  const auto style = [&](const std::string& stream, const std::string& prompt) {
    write_stream(options_.output, stream, prompt);
    return open("manifest")->tasks()[0].prompt;
  };
  EXPECT_EQ(style("mine", ""), PromptStyle::recipe);
  EXPECT_EQ(style("mine", "recipe"), PromptStyle::recipe);
  const auto plain = open("manifest")->fingerprint();
  EXPECT_EQ(style("mine", "instruction"), PromptStyle::instruction);
  EXPECT_NE(open("manifest")->fingerprint(), plain);  // runs with other prompts are other runs
  EXPECT_EQ(style("coin", ""), PromptStyle::instruction);
  EXPECT_EQ(style("ucit", ""), PromptStyle::instruction);
  write_stream(options_.output, "mine", "vicuna");
  EXPECT_CONTAINS(error_of([&] { open("manifest"); }), "use recipe or instruction");
}

TEST_F(InstructionStream, IsWrittenForInstructionBenchmarks) {
  for (const char* task : {"ImageNet-R", "ArxivQA", "VizWiz", "IconQA", "CLEVR", "Flickr30k"}) {
    const auto folder = std::string("instructions/") + task;
    save(folder + "/train.json",
         R"([{"id":"r","image":"a.jpg","conversations":[{"from":"human","value":"<image>\nWhat?"},)"
         R"({"from":"gpt","value":"a"}]}])");
    save(folder + "/test_3000.json", R"([{"question_id":"q","image":"b.jpg","text":"What?","answer":"b"}])");
  }
  EXPECT_EQ(prepare("ucit")["prompt"], "instruction");
  const auto stream = open("ucit");
  EXPECT_EQ(stream->tasks()[0].prompt, PromptStyle::instruction);
  EXPECT_EQ(stream->text(0, DataSplit::train, 0).question, "What?");  // the row's own text, without the image's mark
}

}  // namespace
}  // namespace asr
