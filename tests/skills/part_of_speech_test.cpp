// Parts of speech of WordNet, and functional words mapped to the sub-words of real tokenizers.
#include "skills/part_of_speech.h"

#include <algorithm>
#include <filesystem>

#include "io/tokenizer.h"
#include "skills/labelled_questions.h"
#include "tests/support/files.h"
#include "tests/support/gzip.h"
#include "tests/support/tokenizer_files.h"

namespace asr {
namespace {

std::string with_stars(const std::string& question, const Lexicon& lexicon) {
  std::string out;
  size_t at = 0;
  for (const auto& word : functional_words(question, lexicon)) {
    out += question.substr(at, word.begin - at) + (word.functional ? "*" + word.text + "*" : word.text);
    at = word.end;
  }
  return out + question.substr(at);
}

bool installed() {
  try {
    wordnet_lexicon();
  } catch (const Error&) {
    return false;
  }
  return true;
}

std::vector<std::string> hand_questions() {
  std::vector<std::string> out;
  for (const auto& q : read_labelled_questions(ASR_SOURCE_DIR "/tests/fixtures/hand_labelled_questions.tsv"))
    out.push_back(q.text);
  return out;
}

TEST(PartOfSpeech, ContextChoosesAmongWordNetsClasses) {
  if (!installed()) GTEST_SKIP() << "WordNet is not installed (package wordnet-base) and ASR_WORDNET is not set";
  const auto lexicon = wordnet_lexicon();
  const auto stroll = lexicon("strolled"), dog = lexicon("dog"), none = lexicon("zorgl");
  EXPECT_TRUE(stroll.verb);
  EXPECT_TRUE(dog.noun);
  EXPECT_FALSE(dog.verb);  // two of 44 tagged uses
  EXPECT_FALSE(none.noun || none.verb || none.adjective || none.adverb);
  for (const char* expected :
       {"*why* did the *child* *raise* *both* his *arms*", "*how* did the *lady* *signal* the *dolphins*",
        "*Is* the *dog* *tied* to the *suitcase*?", "*Is* the *boy* *skating* *in* a designated skating *area*?",
        "*what* does the *cat* *do* *when* the *man* *dangles* the *object*",
        "*Is* there *frozen* *water* in the picture?", "*Does* the *dog* *need* a *break*?",
        "*Is* the *skier* *skiing*?", "*how* *many* red *circles* are there?"}) {
    std::string plain = expected;
    plain.erase(std::remove(plain.begin(), plain.end(), '*'), plain.end());
    EXPECT_EQ(with_stars(plain, lexicon), expected);
  }
}

TEST(PartOfSpeech, TheChoiceOfLexicon) {
  use_lexicon(LexiconChoice::lists);
  EXPECT_FALSE(question_lexicon());
  EXPECT_EQ(setenv("ASR_WORDNET", "/nonexistent", 1), 0);
  use_lexicon(LexiconChoice::automatic);
  EXPECT_FALSE(question_lexicon());
  EXPECT_CONTAINS(error_of([] { use_lexicon(LexiconChoice::wordnet); }), "WordNet is missing");
  EXPECT_EQ(unsetenv("ASR_WORDNET"), 0);
  use_lexicon(LexiconChoice::automatic);
  EXPECT_EQ(static_cast<bool>(question_lexicon()), installed());
}

// A token is functional exactly where it overlaps a functional word, whatever the tokenizer.
void expect_tokens_follow_words(const Tokenizer& tokenizer, const std::vector<std::string>& questions) {
  for (const auto& question : questions) {
    const auto words = functional_words(question, question_lexicon());
    const auto tokens = tokenizer.encode(question);
    std::vector<std::pair<size_t, size_t>> offsets;
    for (const auto& token : tokens) offsets.emplace_back(token.begin, token.end);
    const auto functional = functional_tokens(question, offsets, question_lexicon());
    std::vector<bool> covered(words.size());
    for (size_t t = 0; t < tokens.size(); ++t) {
      bool overlaps = false;
      for (size_t w = 0; w < words.size(); ++w)
        if (words[w].functional && words[w].begin < tokens[t].end && tokens[t].begin < words[w].end)
          overlaps = covered[w] = true;
      ASSERT_EQ(functional[t], overlaps) << question << " token " << t;
    }
    for (size_t w = 0; w < words.size(); ++w)
      ASSERT_EQ(covered[w], words[w].functional) << question << " " << words[w].text;
  }
}

TEST(FunctionalSubWords, OfSmallTokenizers) {
  const auto llama =
      from_sentencepiece(sentencepiece_bytes(llama_pieces({"what", "is", "the", "ho", "ld", "ing"}), true));
  const auto bytes =
      tokenizer_from_json(byte_level_json({{"w", "h"}, {"wh", "a"}, {"i", "n"}, {"in", "g"}}).dump(), "test");
  expect_tokens_follow_words(*llama, hand_questions());
  expect_tokens_follow_words(*bytes, hand_questions());
}

TEST(FunctionalSubWords, OfRealTokenizersOnRealQuestions) {
  const auto folder = shared_data() + "/data/";
  if (!std::filesystem::exists(folder + "tokenizers")) GTEST_SKIP() << "no reference data in " << folder;
  auto questions = hand_questions();
  TemporaryFolder temporary;
  write_text(temporary / "q.json", gunzipped(folder + "vqav2_subset/vqa_questions_train.json.gz"));
  const auto real = read_labelled_questions(temporary / "q.json", false);
  EXPECT_EQ(real.size(), 48061u);
  for (size_t i = 0; i < real.size(); i += kSanitized ? 240 : 24) questions.push_back(real[i].text);
  for (const char* name : {"llama2", "qwen2_5"})
    expect_tokens_follow_words(
        *tokenizer_from_json(gunzipped(folder + "tokenizers/" + name + "/tokenizer.json.gz"), name), questions);
}

}  // namespace
}  // namespace asr
