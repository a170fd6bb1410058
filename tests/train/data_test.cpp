// Where a run takes the posteriors and functional tokens of its questions from.
#include "train/data.h"

#include "skills/taxonomy.h"
#include "tests/support/files.h"

namespace asr {
namespace {

TEST(Analyser, PosteriorsByEachMode) {
  const std::string parser = ASR_SOURCE_DIR "/assets/parser-world.safetensors";
  const std::vector<std::string> questions = {"how many dogs are there?", "what color is the circle?"};
  for (const auto mode : {SkillMode::soft, SkillMode::hard, SkillMode::oracle, SkillMode::rule}) {
    const auto p = make_analyser(parser, mode)->posterior(questions, {"counting", "color"});
    ASSERT_EQ(p.sizes(), (std::vector<int64_t>{2, static_cast<int64_t>(skill_names().size())}));
    EXPECT_EQ(p[0].argmax().item<int64_t>(), skill_index("count")) << enum_name(mode);
    EXPECT_EQ(p[1].argmax().item<int64_t>(), skill_index("color")) << enum_name(mode);
    EXPECT_LT((p.sum(1) - 1).abs().max().item<double>(), 1e-5);
  }
}

TEST(Analyser, RulesAndOracleNeedNoParser) {
  EXPECT_EQ(make_analyser("/none", SkillMode::rule)->posterior({"why?"}, {}).size(0), 1);
  EXPECT_CONTAINS(error_of([] { make_analyser("/none", SkillMode::oracle)->posterior({"why?"}, {""}); }),
                  "does not know the skill");
  EXPECT_CONTAINS(error_of([] { make_analyser("/none", SkillMode::soft); }), "No such file");
}

TEST(Analyser, FunctionalTokensByOffsets) {
  const auto analyser = make_analyser("", SkillMode::rule);
  EXPECT_EQ(analyser->functional("is the dog wet", {{1, 0, 2}, {2, 3, 6}, {3, 7, 10}, {4, 11, 14}}),
            (std::vector<bool>{true, false, true, true}));
}

}  // namespace
}  // namespace asr
