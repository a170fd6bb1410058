#include "skills/taxonomy.h"

#include "skills/rules.h"
#include "tests/support/files.h"

namespace asr {
namespace {

class TaxonomyFile : public testing::Test {
 protected:
  ~TaxonomyFile() override { use_taxonomy(built_in_taxonomy()); }
  Taxonomy read(const std::string& text) {
    write_text(folder / "t.yaml", text);
    return read_taxonomy(folder / "t.yaml");
  }
  std::string error(const std::string& text) {
    return error_of([&] { read(text); });
  }
  TemporaryFolder folder;
};

TEST_F(TaxonomyFile, TheOneThatShipsIsTheBuiltIn) {
  const auto shipped = read_taxonomy(ASR_SOURCE_DIR "/configs/taxonomy.yaml"), built_in = built_in_taxonomy();
  EXPECT_EQ(shipped.names, built_in.names);
  EXPECT_EQ(shipped.aliases, built_in.aliases);
  EXPECT_EQ(built_in.names.size(), 15u);
  for (const auto& [alias, skill] : built_in.aliases) EXPECT_GE(built_in.find(alias), 0) << alias << " " << skill;
}

TEST_F(TaxonomyFile, SkillsCanBeMerged) {
  use_taxonomy(read("skills: [count, comparison, other]\naliases: {compare-number: comparison, quantity: count}\n"));
  EXPECT_EQ(skill_names(), (std::vector<std::string>{"count", "comparison", "other"}));
  EXPECT_EQ(skill_index("compare-number"), 1);
  EXPECT_EQ(skill_index("comparison"), 1);
  EXPECT_EQ(skill_index("quantity"), 0);
  EXPECT_EQ(skill_index("counting"), 0);  // a built-in alias that still leads somewhere
  EXPECT_EQ(skill_or_other("color"), 2);
  EXPECT_CONTAINS(error_of([] { skill_index("reading"); }), "skill 'reading' is unknown");
  const auto p = rule_posterior("are there more cats than dogs?");
  ASSERT_EQ(p.size(), 3u);
  EXPECT_GT(p[1], 0.9);
}

TEST_F(TaxonomyFile, WithoutOtherEverySkillNeedsAPlace) {
  use_taxonomy(read("skills: [count]\n"));
  EXPECT_EQ(skill_or_other("counting"), 0);
  EXPECT_CONTAINS(error_of([] { rule_posterior("what color is it?"); }), "add an alias for it to the taxonomy file");
}

TEST_F(TaxonomyFile, BadFilesAreNamed) {
  EXPECT_CONTAINS(error("aliases: {a: b}\n"), "t.yaml: names no skills");
  EXPECT_CONTAINS(error("skills: [a, a]\n"), "'a' is empty or stands twice");
  EXPECT_CONTAINS(error("skills: [count]\nalias: {a: count}\n"),
                  "t.yaml:2: 'alias.a' is unknown; known: skills, aliases");
  EXPECT_CONTAINS(error("skills: [count]\naliases: {a: cuont}\n"), "did you mean 'count'?");
  EXPECT_CONTAINS(error("skills: [count]\naliases: {a: b, b: a}\n"), "which is no skill");
  EXPECT_CONTAINS(error("skills: [\n"), "t.yaml:");
}

}  // namespace
}  // namespace asr
