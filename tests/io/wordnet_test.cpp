// The WordNet files: a small dictionary written here, and the real one where it is installed.
#include "io/wordnet.h"

#include "tests/support/files.h"

namespace asr {
namespace {

// Synsets with their offsets filled in: "thing" above "dog" above "puppy"; "dog" is also a verb.
class TinyDictionary {
 public:
  TinyDictionary() {
    for (const char* name : {"noun", "verb", "adj", "adv"})
      for (const std::string& file :
           {std::string("index.") + name, std::string("data.") + name, name + std::string(".exc")})
        write_text(folder_ / file, "");
    const std::string licence = "  1 a licence line\n";
    const std::string top = "00000019 03 n 01 thing 0 000 | whatever is\n";
    const std::string dog = "00000062 05 n 02 dog 0 hound 0 001 @ 00000019 n 0000 | it barks\n";
    const std::string puppy = "00000126 05 n 01 puppy 0 001 @ 00000062 n 0000 | a young one\n";
    write_text(folder_ / "data.noun", licence + top + dog + puppy);
    write_text(folder_ / "index.noun", licence +
                                           "dog n 1 1 @ 1 1 00000062  \nhound n 1 1 @ 1 0 00000062  \n"
                                           "puppy n 1 1 @ 1 0 00000126  \nthing n 1 0 1 0 00000019  \n");
    write_text(folder_ / "noun.exc", "geese goose\nhoundz hound\n");
    write_text(folder_ / "index.verb", "dog v 1 0 1 0 00000000  \n");
    write_text(folder_ / "data.verb", "00000000 38 v 01 dog 0 000 | follow\n");
  }
  const std::string& path() const { return folder_.path(); }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
};

using Words = std::vector<std::string>;

TEST(WordNet, FindsEveryLineOfASmallDictionary) {
  const TinyDictionary dictionary;
  const WordNet net(dictionary.path());
  for (const char* word : {"dog", "hound", "puppy", "thing"})
    EXPECT_EQ(net.senses(word, WordClass::noun).size(), 1u) << word;
  for (const char* word : {"", " ", "a", "do", "dogs", "zebra", "1", "hounds"})
    EXPECT_TRUE(net.senses(word, WordClass::noun).empty()) << word;
  const auto puppy = net.synset(net.senses("puppy", WordClass::noun)[0]);
  ASSERT_EQ(puppy.hypernyms.size(), 1u);
  EXPECT_EQ(net.synset(puppy.hypernyms[0]).words, (Words{"dog", "hound"}));
  EXPECT_EQ(net.all_senses("dogs").size(), 2u);  // noun and verb
}

TEST(WordNet, BaseFormsByExceptionAndByRule) {
  const TinyDictionary dictionary;
  const WordNet net(dictionary.path());
  EXPECT_EQ(net.base_forms("dog", WordClass::noun), Words{"dog"});
  EXPECT_EQ(net.base_forms("dogs", WordClass::noun), Words{"dog"});
  EXPECT_EQ(net.base_forms("puppies", WordClass::noun), Words{"puppy"});
  EXPECT_EQ(net.base_forms("houndz", WordClass::noun), Words{"hound"});
  EXPECT_EQ(net.base_forms("dogss", WordClass::noun), Words{"dog"});  // the rule applied twice
  EXPECT_EQ(net.base_forms("doging", WordClass::verb), Words{"dog"});
  EXPECT_TRUE(net.base_forms("geese", WordClass::noun).empty());  // goose is not in this dictionary
  EXPECT_TRUE(net.base_forms(std::string(100000, 's'), WordClass::noun).empty());
}

TEST(WordNet, UsesAreSummedOverSenses) {
  const TinyDictionary dictionary;
  EXPECT_EQ(WordNet(dictionary.path()).uses("dog", WordClass::noun), 0);  // no file of counts
  write_text(dictionary.folder() / "cntlist.rev",
             "dog%1:05:00:: 1 42\ndog%1:05:01:: 2 8\ndog%2:38:00:: 1 2\ndoggy%3:00:00:: 1 5\ndoggy%5:00:00:x:00 2 "
             "4\nfox%1 1 a\n");
  const WordNet net(dictionary.path());
  EXPECT_EQ(net.uses("dog", WordClass::noun), 50);
  EXPECT_EQ(net.uses("dog", WordClass::verb), 2);
  EXPECT_EQ(net.uses("dog", WordClass::adverb), 0);
  EXPECT_EQ(net.uses("doggy", WordClass::adjective), 9);
  EXPECT_EQ(net.uses("zebra", WordClass::noun), 0);
  EXPECT_EQ(net.uses("", WordClass::noun), 0);
}

TEST(WordNet, BadDictionariesAreNamed) {
  EXPECT_CONTAINS(error_of([] { WordNet("/nonexistent"); }), "install the package wordnet-base, or set ASR_WORDNET");
  const TinyDictionary dictionary;
  write_text(dictionary.folder() / "index.noun",
             "dog n 1 1 @ 1 1 99999999  \nhound n x\npuppy n 2 0 2 0 00000126  \nthing n 1 0 1 0 00000020  \n");
  const WordNet net(dictionary.path());
  EXPECT_CONTAINS(error_of([&] { net.synset(net.senses("dog", WordClass::noun)[0]); }), "past the end");
  EXPECT_CONTAINS(error_of([&] { net.senses("hound", WordClass::noun); }), "'x' is not a number");
  EXPECT_CONTAINS(error_of([&] { net.senses("puppy", WordClass::noun); }), "ends too early");
  EXPECT_CONTAINS(error_of([&] { net.synset(net.senses("thing", WordClass::noun)[0]); }), "no synset starts here");
}

TEST(WordNet, TheInstalledDictionary) {
  if (!std::getenv("ASR_WORDNET") && !std::filesystem::exists("/usr/share/wordnet/data.noun"))
    GTEST_SKIP() << "WordNet is not installed (package wordnet-base) and ASR_WORDNET is not set";
  const WordNet net;
  EXPECT_EQ(net.senses("dog", WordClass::noun).size(), 7u);
  EXPECT_EQ(net.senses("dog", WordClass::noun)[0].offset, 2084071u);
  EXPECT_EQ(net.base_forms("geese", WordClass::noun), Words{"goose"});
  EXPECT_EQ(net.base_forms("took", WordClass::verb), Words{"take"});
  EXPECT_EQ(net.base_forms("happier", WordClass::adjective), Words{"happy"});
  EXPECT_EQ(net.base_forms("sitting", WordClass::verb), Words{"sit"});
  EXPECT_EQ(net.base_forms("sitting", WordClass::noun), Words{"sitting"});
  EXPECT_EQ(net.synset({WordClass::noun, 1740}).words, Words{"entity"});
  EXPECT_TRUE(net.all_senses("qwertyuiop").empty());
  for (const WordClass word_class : kWordClasses)  // the first and the last lemma of every file
    for (const char* lemma : {"zymotic", "zoom", "zygotically", "a", "zyrian", "'hood", ".22"})
      EXPECT_LE(net.senses(lemma, word_class).size(), 10u);
  EXPECT_EQ(net.senses("'hood", WordClass::noun).size(), 1u);
  EXPECT_EQ(net.senses("zyrian", WordClass::noun).size(), 1u);
}

}  // namespace
}  // namespace asr
