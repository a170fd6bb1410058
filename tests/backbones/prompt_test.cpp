// What a model is asked: the recipe's words or those of an instruction benchmark's release, and what a cut leaves.
#include "backbones/prompt.h"

#include <gtest/gtest.h>

#include "backbones/pretrained.h"
#include "base/error.h"
#include "tests/support/files.h"

namespace asr {
namespace {

const std::string kModels = ASR_SOURCE_DIR "/tests/fixtures/models/";

// Everything but image tokens, as text.
std::string asked(const PretrainedBackbone& model, const PackItem& item) {
  const auto batch = model.pack({item});
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < batch.ids.size(1); ++i)
    if (const int64_t id = batch.ids[0][i].item<int64_t>(); id != model.image_token()) ids.push_back(id);
  return model.tokenizer().decode(ids);
}

TEST(Prompts, OfAnInstructionBenchmarkAreItsReleases) {
  const Image8 picture{8, 8, std::vector<uint8_t>(8 * 8 * 3, 100)};
  PackItem item;
  item.id = "x";
  item.question = "What is it?\nAnswer briefly.";
  item.answer = "a cat";
  item.images = {&picture};
  for (const char* recipe : {"native", "asr-paper"}) {
    BackboneOptions options;
    options.recipe = recipe;
    const auto llava = load_pretrained(kModels + "llava");
    llava->configure(options);
    item.instruction = true;
    EXPECT_CONTAINS(asked(*llava, item),
                    "A chat between a curious user and an artificial intelligence assistant. The assistant gives "
                    "helpful, detailed, and polite answers to the user's questions. USER: \nWhat is it?\nAnswer "
                    "briefly. ASSISTANT: a cat");
    item.instruction = false;
    EXPECT_EQ(asked(*llava, item).find("A chat between"), std::string::npos);
    const auto blip = load_pretrained(kModels + "instructblip");
    blip->configure(options);
    item.instruction = true;
    EXPECT_EQ(asked(*blip, item).find("uestion"), std::string::npos);
    const auto qwen = load_pretrained(kModels + "qwen2_5_vl");
    qwen->configure(options);
    EXPECT_EQ(asked(*qwen, item).find("QUESTION"), std::string::npos);
    EXPECT_CONTAINS(asked(*qwen, item), "What is it?\nAnswer briefly.");
  }
}

TEST(Prompts, AreCutAlikeWhateverTheAnswer) {
  const auto tokenizer = load_tokenizer(kModels + "llava");
  PromptTemplate prompt;
  prompt.before = "USER: ";
  prompt.picture = "<image>\n";
  prompt.image = "<image>";
  prompt.after = " ASSISTANT:";
  prompt.answer_before = " ";
  prompt.beginning = "<s>";
  PackItem item;
  item.id = "x";
  for (int i = 0; i < 20; ++i) item.question += "word" + std::to_string(i) + " ";
  const auto packed = [&](const std::string& answer, int64_t budget) {
    item.answer = answer;
    return pack_text(*tokenizer, prompt, item, {3}, budget);
  };
  const auto brief = packed("a", 40), wordy = packed("a long answer that fills a line of its own", 40);
  ASSERT_EQ(brief.prompt, 40 + 3);  // the image's tokens do not count
  ASSERT_EQ(wordy.prompt, brief.prompt);
  for (int64_t i = 0; i < brief.prompt; ++i)
    EXPECT_EQ(brief.ids[static_cast<size_t>(i)], wordy.ids[static_cast<size_t>(i)]) << i;
  const auto whole = packed("a", 0);
  EXPECT_GT(whole.prompt, brief.prompt);
  EXPECT_EQ(whole.ids.size() - static_cast<size_t>(whole.prompt), brief.ids.size() - static_cast<size_t>(brief.prompt));
}

}  // namespace
}  // namespace asr
