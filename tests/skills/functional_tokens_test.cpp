#include "skills/functional_tokens.h"

#include <gtest/gtest.h>

#include "skills/words.h"

namespace asr {
namespace {

// The question with every functional word in stars.
std::string starred(const std::string& question, const Lexicon& lexicon = {}) {
  std::string out;
  size_t at = 0;
  for (const auto& word : functional_words(question, lexicon)) {
    EXPECT_LE(at, word.begin);
    EXPECT_LT(word.begin, word.end);
    EXPECT_EQ(question.substr(word.begin, word.end - word.begin), word.text);
    EXPECT_STRNE(word.reason, "") << word.text;
    out += question.substr(at, word.begin - at) + (word.functional ? "*" + word.text + "*" : word.text);
    at = word.end;
  }
  return out + question.substr(at);
}

std::string without_stars(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), '*'), text.end());
  return text;
}

class FunctionalTable : public testing::TestWithParam<const char*> {};
TEST_P(FunctionalTable, Question) {
  EXPECT_EQ(starred(without_stars(GetParam())), GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    World, FunctionalTable,
    testing::Values("*how* *many* *circles* are there?", "*what* is the *number* of red *circles* in the image?",
                    "*which* *color* does the small *star* *have*?",
                    "*in* *which* *part* of the image is the red *circle*?",
                    "*are* there *more* *circles* *than* *squares*?",
                    "*compare* the *circle* and the *square*: *which* one is *bigger*?",
                    "*do* the large *circle* and the small *square* *have* the *same* *color*?",
                    "*is* the striped *circle* *small* or *large* *in* *size*?",
                    "*what* *type* of *pattern* is *on* the red *object*?", "*is* there a *red* *circle*?",
                    "*does* the image *show* an *orange* *sign*?", "*which* *letter* does the *sign* *show*?",
                    "*read* the *text* *on* the blue *sign*", "*what* is *in* the *top* *left* of the image?",
                    "*name* the small striped *object*", "*what* is directly *left* of the red *circle*?",
                    "*is* the red *circle* to the *left* of the blue *square*?",
                    "*which* *way* does the red *bar* *run*?", "*what* is the purple *person* *doing*?",
                    "*Describe* the *image*.", "*What* does the image *show*?"));

INSTANTIATE_TEST_SUITE_P(
    Instructions, FunctionalTable,
    testing::Values(
        "*is* there a *dog*? Answer yes or no.",
        "*what* *color* is the *star*? A. red B. green C. blue D. cyan Answer with the letter of the right option.",
        "*Give* the *box* of the red *circle* as [left,top,right,bottom].",
        "*Spell* the *word* *on* the *sign* backwards.", "*Count* the *circles* with tally *marks*.",
        "*Report* the red *circle* as *color*|*shape*|*size*.",
        "*What* is *on* the *table*?\nAnswer the question using a single word or phrase.",
        "Please answer briefly, *what* *color* is the *car*?", "USER: <image> QUESTION: *What* does the *label* *say*?",
        "Hint: Please answer the question and provide the correct option letter, e.g., A, B, C, D, at the end."));

INSTANTIATE_TEST_SUITE_P(
    English, FunctionalTable,
    testing::Values("*How* *many* stuffed *animals* are *on* the *couch*?", "*Is* the *kitty* *cute*?",
                    "*What* *color* *jacket* is the man's *friend* *wearing*?", "*Does* this *truck* *have* *wheels*?",
                    "*Is* the *older* *elephant* *protecting* the baby *elephant*?", "*Where* is the *STOP* *sign*?",
                    "*What* does \"*open*\" *mean* *on* the *door*?", "*Is* this a small *dog*?",
                    "*Is* the *lamp* *taller* *than* the *door*?", "*Are* these *bananas* *ripe*?",
                    "*Are* there *more* *than* *4* *white* *birds*?", "*Who* is *standing* *behind* the *catcher*?",
                    "*why* did the *boy* *in* *blue* *drop* the *toy* *after* *turning* *around*",
                    "*what* does the *lady* *do* *while* the *man* *sings*", "*why* was the bird s *head* *moving*",
                    "*Which* *animal* is the *closest* to the *camera*?", "*Is* it *daytime*?",
                    "*What* *time* does the *clock* *show*, *10*:*30* or *11*?", "*What* *number* is *on* the *bus*?"));

TEST(FunctionalWords, QuotesOfEveryKindArePrint) {
  for (const char* question : {"is 'exit' there?", "is \"exit\" there?",
                               "is \xe2\x80\x9c"
                               "exit\xe2\x80\x9d there?"}) {
    const auto words = functional_words(question);
    ASSERT_EQ(words.size(), 3u);
    EXPECT_STREQ(words[1].reason, "print") << question;
  }
  EXPECT_EQ(starred("is the dogs' bowl empty?"), "*is* the *dogs*' *bowl* *empty*?");  // an apostrophe opens nothing
}

TEST(FunctionalWords, CapitalsAreNoPrintInAQuestionAllInCapitals) {
  EXPECT_EQ(starred("WHAT IS THE DOG EATING?"), "*WHAT* IS THE *DOG* *EATING*?");
}

TEST(FunctionalWords, OffsetsCountBytesOfUtf8) {
  const std::string question =
      "what is the caf\xc3\xa9\xe2\x80\x99s na\xc3\xafve \xe2\x80\xa6 gar\xc3\xa7on doing\xef\xbc\x9f";
  EXPECT_EQ(starred(question),
            "*what* is the caf\xc3\xa9\xe2\x80\x99s *na\xc3\xafve* \xe2\x80\xa6 *gar\xc3\xa7on* *doing*\xef\xbc\x9f");
  EXPECT_EQ(functional_words("\xe7\x8c\xab\xe5\x9c\xa8\xe5\x93\xaa\xe9\x87\x8c\xef\xbc\x9f").size(), 1u);
}

TEST(FunctionalWords, AnyBytesAreAccepted) {
  EXPECT_TRUE(functional_words("").empty());
  EXPECT_TRUE(functional_words(" \t\n?!...").empty());
  std::string bytes;
  for (int i = 0; i < 1024; ++i) bytes += static_cast<char>(i * 37 % 256);
  for (const auto& word : functional_words(bytes)) EXPECT_LE(word.end, bytes.size());
  functional_words(std::string("\xe2\x80", 2));
  functional_words("what\xff\xfeis\xc3");
}

TEST(FunctionalWords, LongQuestionsAreRead) {
  std::string question;
  while (question.size() < 10000) question += "is the cat on the \"mat\" and [x]? ";
  const auto words = functional_words(question);
  EXPECT_EQ(words[words.size() - 8].functional, words[0].functional);
  EXPECT_GT(words.size(), 2000u);
  EXPECT_FALSE(functional_words(std::string(10000, 'a')).empty());
  EXPECT_TRUE(functional_words(std::string(10000, '"')).empty());
}

TEST(FunctionalWords, ALexiconOverrulesTheOpenClasses) {
  EXPECT_EQ(starred("is the glorp zib"), "*is* the *glorp* *zib*");
  EXPECT_EQ(starred("look at the frell glorp"), "*look* *at* the frell *glorp*");
  const Lexicon verbs = [](const std::string& word) {
    PartsOfSpeech parts;
    parts.verb = word == "glorp";
    parts.noun = word == "frell";
    return parts;
  };
  EXPECT_EQ(starred("when will the frell glorp", verbs), "*when* will the *frell* *glorp*");
  EXPECT_EQ(starred("is the red circle on it", verbs), starred("is the red circle on it"));
}

TEST(FunctionalTokens, SubWordsFollowTheirWord) {
  const std::string question = "what color is the giraffe?";
  //                            0    5     11 14  18
  const std::vector<std::pair<size_t, size_t>> offsets = {{0, 0},   {0, 4},   {4, 7},   {7, 10},  {10, 13}, {13, 17},
                                                          {17, 20}, {20, 25}, {25, 26}, {26, 26}, {24, 26}};
  EXPECT_EQ(functional_tokens(question, offsets),
            (std::vector<bool>{false, true, true, true, false, false, true, true, false, false, true}));
}

TEST(FunctionalTokens, AllTokensWhereNoneIsFunctional) {
  const std::string question = "Answer yes or no.";
  EXPECT_EQ(functional_tokens(question, {{0, 0}, {0, 6}, {6, 10}, {10, 17}}),
            (std::vector<bool>{false, true, true, true}));
  EXPECT_EQ(functional_tokens("", {{0, 0}}), (std::vector<bool>{false}));
  EXPECT_TRUE(functional_tokens("what", {}).empty());
  EXPECT_EQ(functional_tokens("what", {{0, 400}, {300, 400}}), (std::vector<bool>{true, false}));
}

TEST(SplitText, WordsAndMarks) {
  const auto pieces = split_text("Don't stop-it: 3.5 (or 4.)");
  std::string joined;
  for (const auto& piece : pieces) joined += piece.text + (piece.word ? "|" : "_");
  EXPECT_EQ(joined, "Don't|stop-it|:_3.5|(_or|4|._)_");
  EXPECT_EQ(lower_case("DON\xe2\x80\x99T"), "don't");
}

}  // namespace
}  // namespace asr
