#include "streams/world/world.h"

#include <algorithm>
#include <map>
#include <set>

#include "skills/taxonomy.h"
#include "tests/support/files.h"

namespace asr::world {
namespace {

constexpr Split kAllSplits[] = {Split::train, Split::val, Split::test, Split::tune};

TEST(World, TheSameKeyGivesTheSameSampleEverywhere) {
  for (const auto& s : streams())
    for (size_t task = 0; task < s.tasks.size(); ++task) {
      const auto a = sample(s, task, Split::val, 3), b = sample(s, task, Split::val, 3);
      EXPECT_EQ(a.question.text, b.question.text);
      EXPECT_EQ(a.question.answer, b.question.answer);
      EXPECT_EQ(render(a.scene, a.domain, 32).pixels, render(b.scene, b.domain, 32).pixels);
    }
  // Fixed values: a change of generator, templates or drawing must raise kWorldVersion and these together.
  uint64_t hash = 0;
  for (uint64_t i = 0; i < 200; ++i) {
    const auto s = pretraining_sample(i);
    for (unsigned char c : s.question.text + s.question.answer) hash = Random::mix(hash * 31 + c);
    hash = Random::mix(hash ^ content_hash(s.scene));
  }
  EXPECT_EQ(hash, 9550216696133746591u);
}

// Fixed like the samples: drawing may become faster, but never other. All domains, at a size without a round scale.
TEST(World, PicturesAreThoseThatWereAlwaysThere) {
  uint64_t hash = 0;
  for (uint64_t i = 0; i < 60; ++i) {
    const auto s = pretraining_sample(i);
    for (const uint8_t byte : render(s.scene, static_cast<Domain>(i % 9), 40).pixels)
      hash = Random::mix(hash * 31 + byte);
  }
  EXPECT_EQ(hash, 1881051176901530667u);
}

TEST(World, NoSceneIsInTwoSplits) {
  std::map<uint64_t, Split> seen;
  for (const char* name : {"world-10", "world-cit"}) {
    const auto& s = stream(name);
    for (size_t task = 0; task < s.tasks.size(); ++task)
      for (Split split : kAllSplits)
        for (uint64_t i = 0; i < 60; ++i) {
          const auto drawn = sample(s, task, split, i);
          EXPECT_EQ(split_of(drawn.scene), split);
          const auto [place, added] = seen.emplace(content_hash(drawn.scene), split);
          EXPECT_TRUE(added || place->second == split);
        }
  }
}

// Answers checked from the scene alone, by other code than what made them.
void check_answer(const Sample& s) {
  const auto& q = s.question;
  int matches = 0;
  switch (s.type) {
    case Type::count: {
      int count = 0;
      for (const auto& o : s.scene.objects)
        count += q.text.find(std::string(" ") + plural_of(o.shape) + " ") != std::string::npos;
      EXPECT_EQ(q.answer, std::to_string(count)) << q.text;
      return;
    }
    case Type::color:
      for (const auto& o : s.scene.objects) matches += q.answer == name_of(o.color);
      EXPECT_GE(matches, 1) << q.text;
      for (int c = 0; c < kColors; ++c)
        EXPECT_EQ(q.text.find(std::string(name_of(static_cast<Color>(c))) + " "), std::string::npos)
            << "names the answer: " << q.text;
      return;
    case Type::location:
      for (const auto& o : s.scene.objects) matches += q.answer == name_of_place(o.place);
      EXPECT_EQ(matches, 1) << q.text;
      return;
    case Type::activity:
      for (const auto& o : s.scene.objects) matches += o.shape == Shape::person && q.answer == name_of(o.pose);
      EXPECT_GE(matches, 1) << q.text;
      return;
    case Type::reading:
      for (const auto& o : s.scene.objects)
        matches += o.shape == Shape::sign && (q.answer == o.text || q.answer == o.text.substr(0, 1));
      EXPECT_GE(matches, 1) << q.text;
      return;
    default:
      EXPECT_FALSE(q.answer.empty()) << q.text;
  }
}

TEST(World, EveryTypeHasTemplatesAnswersAndSkillsAndNoEasyMajority) {
  const auto& s = stream("world-10");
  for (size_t task = 0; task < s.tasks.size(); ++task) {
    std::map<std::string, int> answers;
    std::set<std::string> openings;
    constexpr int n = 400;
    for (uint64_t i = 0; i < n; ++i) {
      const auto drawn = sample(s, task, Split::val, i);
      check_answer(drawn);
      ++answers[drawn.question.answer];
      openings.insert(drawn.question.text.substr(0, 9));
      EXPECT_GE(skill_index(drawn.question.skill), 0);
    }
    int most = 0;
    for (const auto& [answer, count] : answers) most = std::max(most, count);
    EXPECT_LT(most, n * 0.62) << s.tasks[task].name << " can be guessed";
    EXPECT_GE(openings.size(), 2u) << s.tasks[task].name;
    EXPECT_GE(answers.size(), 2u) << s.tasks[task].name;
  }
}

// A stage without a skill of earlier stages would have no prototype to be held to.
TEST(World, QuestionTypesShareSkills) {
  std::set<std::string> seen, seen_first;
  size_t sharing = 0, sharing_first = 0;
  for (const char* name : {"world-10", "world-cit"}) {
    seen.clear();
    seen_first.clear();
    sharing = sharing_first = 0;
    const auto& s = stream(name);
    for (size_t task = 0; task < s.tasks.size(); ++task) {
      std::set<std::string> first, all;
      for (uint64_t i = 0; i < 60; ++i) {
        const auto q = sample(s, task, Split::train, i).question;
        first.insert(q.skill);
        all.insert(q.skill);
        if (!q.second.empty()) all.insert(q.second);
        EXPECT_NE(q.skill, q.second) << q.text;
      }
      const auto known = [](const std::set<std::string>& skills, const std::set<std::string>& before) {
        return std::any_of(skills.begin(), skills.end(), [&](const auto& k) { return before.count(k) > 0; });
      };
      sharing += known(all, seen);
      sharing_first += known(first, seen_first);
      seen.insert(all.begin(), all.end());
      seen_first.insert(first.begin(), first.end());
    }
    EXPECT_GE(sharing + 2, s.tasks.size()) << name;  // all but the first, and at most one more
    EXPECT_GE(sharing_first, 2u) << name;            // by the naming skill alone, which is all that `oracle` sees
  }
}

TEST(World, StagesShareSkills) {
  std::map<std::string, std::set<size_t>> stages;
  const auto& s = stream("world-domain");
  for (size_t task = 0; task < s.tasks.size(); ++task)
    for (uint64_t i = 0; i < 100; ++i) stages[sample(s, task, Split::train, i).question.skill].insert(task);
  EXPECT_GE(stages.size(), 11u);
  for (const auto& [skill, tasks] : stages) EXPECT_GE(tasks.size(), 2u) << skill;
}

TEST(World, HeldConceptsAppearOnlyInNovelCompositions) {
  const auto& s = stream("world-sc");
  for (size_t task = 0; task < s.tasks.size(); ++task) {
    const int held = s.tasks[task].held_group;
    for (uint64_t i = 0; i < 40; ++i) {
      EXPECT_NE(concept_group(sample(s, task, Split::train, i).question.concept_shape), held);
      EXPECT_NE(concept_group(sample(s, task, Split::val, i).question.concept_shape), held);
      if (held < 0) continue;
      EXPECT_EQ(concept_group(sample(s, task, Split::val, i, true).question.concept_shape), held);
    }
  }
  EXPECT_CONTAINS(error_of([] { sample(stream("world-10"), 0, Split::val, 0, true); }), "holds no concept group out");
}

TEST(World, LongTailIsInTrainingOnly) {
  const auto& s = stream("world-lt");
  std::map<int, int> train, val;
  for (uint64_t i = 0; i < 600; ++i) {
    ++train[static_cast<int>(sample(s, 1, Split::train, i).question.concept_shape)];
    ++val[static_cast<int>(sample(s, 1, Split::val, i).question.concept_shape)];
  }
  const auto tail = [](std::map<int, int>& counts) { return counts[6] + counts[7] + counts[8]; };
  const auto head = [](std::map<int, int>& counts) { return counts[0] + counts[1] + counts[2]; };
  EXPECT_GT(head(train), 2 * tail(train));
  EXPECT_LT(head(val), 2 * tail(val));
}

TEST(World, InstructionFormatsHoldTheirForm) {
  const auto& cit = stream("world-cit");
  EXPECT_EQ(cit.tasks.size(), 8u);
  for (uint64_t i = 0; i < 60; ++i) {
    EXPECT_TRUE(std::set<std::string>({"yes", "no"}).count(sample(cit, 0, Split::val, i).question.answer));
    const auto choice = sample(cit, 1, Split::val, i).question;
    ASSERT_EQ(choice.answer.size(), 1u);
    EXPECT_CONTAINS(choice.text, choice.answer + ". ");
    int box[4];
    const auto answer = sample(cit, 6, Split::val, i).question.answer;
    ASSERT_EQ(std::sscanf(answer.c_str(), "[%d,%d,%d,%d]", box, box + 1, box + 2, box + 3), 4) << answer;
    EXPECT_TRUE(0 <= box[0] && box[0] < box[2] && box[2] <= 99 && 0 <= box[1] && box[1] < box[3] && box[3] <= 99)
        << answer;
    EXPECT_EQ(sample(cit, 7, Split::val, i).question.references.size(), 3u);
  }
}

TEST(World, ObjectsStayInTheImageAndBoxesHoldThem) {
  for (uint64_t i = 0; i < 60; ++i) {
    const auto s = pretraining_sample(i);
    const auto image = render(s.scene, Domain::plain, 60);
    std::vector<bool> covered(60 * 60, false);
    for (const auto& o : s.scene.objects) {
      const auto box = box_of(o);
      EXPECT_TRUE(box.left >= 0 && box.right <= 1 && box.top >= 0 && box.bottom <= 1);
      for (int y = 0; y < 60; ++y)
        for (int x = 0; x < 60; ++x)
          if (x + 1 >= box.left * 60 && x <= box.right * 60 && y + 1 >= box.top * 60 && y <= box.bottom * 60)
            covered[y * 60 + x] = true;
    }
    for (int p = 0; p < 60 * 60; ++p)
      EXPECT_TRUE(covered[p] ||
                  (image.pixels[3 * p] == 255 && image.pixels[3 * p + 1] == 255 && image.pixels[3 * p + 2] == 255))
          << "paint outside every box";
  }
}

TEST(World, DomainsLookDifferent) {
  const auto s = pretraining_sample(5);
  std::set<std::vector<uint8_t>> images;
  for (int d = 0; d < kDomains; ++d) images.insert(render(s.scene, static_cast<Domain>(d), 48).pixels);
  EXPECT_EQ(images.size(), static_cast<size_t>(kDomains));
}

TEST(World, UnknownNamesAreErrors) {
  EXPECT_CONTAINS(error_of([] { stream("world-11"); }), "did you mean 'world-10'?");
  EXPECT_CONTAINS(error_of([] { sample(stream("world-10"), 10, Split::val, 0); }), "has 10 tasks");
  EXPECT_CONTAINS(error_of([] { skill_index("countt"); }), "did you mean 'count'?");
  EXPECT_EQ(skill_index("locate"), skill_index("location"));
}

TEST(RandomNumbers, AreKeyedUniformAndPortable) {
  Random a({1, 2}), b({1, 2}), c({2, 1});
  EXPECT_EQ(a.next(), b.next());
  EXPECT_NE(a.next(), c.next());
  Random d({9});
  int counts[7] = {};
  for (int i = 0; i < 70000; ++i) ++counts[d.below(7)];
  for (int count : counts) EXPECT_NEAR(count, 10000, 400);
}

}  // namespace
}  // namespace asr::world
