// Streams whose stages contradict each other, and samples redrawn by a seed.
#include <algorithm>
#include <map>
#include <set>

#include "streams/stream.h"
#include "streams/world/world.h"
#include "tests/support/files.h"

namespace asr::world {
namespace {

Object object_at(int place, Color color, Shape shape, Size size) {
  Object o;
  o.place = place;
  o.color = color;
  o.shape = shape;
  o.size = size;
  return o;
}

// Three objects of which every rule names one, and opposite rules different ones.
Scene clear_scene() {
  return {{object_at(1, Color::red, Shape::circle, Size::small), object_at(3, Color::green, Shape::square, Size::small),
           object_at(8, Color::blue, Shape::star, Size::large)}};
}

std::vector<const Stream*> streams_of_cues() {
  std::vector<const Stream*> out;
  for (const auto& s : streams())
    if (s.tasks[0].cue) out.push_back(&s);
  return out;
}

std::set<std::string> words_of(const std::string& text) {
  std::set<std::string> out;
  std::string word;
  for (const char c : text + " ") {
    if (std::isalnum(static_cast<unsigned char>(c))) {
      word += c;
    } else if (!word.empty()) {
      out.insert(word);
      word.clear();
    }
  }
  return out;
}

// What the base models were trained on, and what they were asked to answer.
struct Known {
  std::set<std::string> words, answers;
};
const Known& known() {
  static const Known out = [] {
    Known all;
    for (uint64_t i = 0; i < 6000; ++i) {
      const auto q = pretraining_sample(i).question;
      all.words.merge(words_of(q.text));
      all.words.merge(words_of(q.answer));
      all.answers.insert(q.answer);
    }
    return all;
  }();
  return out;
}

TEST(Cues, RulesNameTheObjectThatTheirNamesSay) {
  const auto scene = clear_scene();
  const std::map<Way, Color> right = {{Way::leftmost, Color::green},
                                      {Way::rightmost, Color::blue},
                                      {Way::topmost, Color::red},
                                      {Way::bottommost, Color::blue},
                                      {Way::largest, Color::blue}};
  for (const auto& [rule, color] : right) {
    ASSERT_TRUE(referent(rule, scene).has_value()) << name_of(rule);
    EXPECT_EQ(scene.objects[*referent(rule, scene)].color, color) << name_of(rule);
  }
  EXPECT_FALSE(referent(Way::smallest, scene).has_value()) << "two are small";
  auto column = scene;
  column.objects[0].place = 0;  // now in one column with the second
  EXPECT_FALSE(referent(Way::leftmost, column).has_value());
  auto small = scene;
  small.objects[2].size = Size::small;
  EXPECT_FALSE(referent(Way::largest, small).has_value()) << "none is large";
}

TEST(Cues, OneSceneNeedsAnotherAnswerUnderAnotherCue) {
  const auto scene = clear_scene();
  const auto answers = [&](const Cue& cue) {
    std::set<std::string> out;
    for (uint64_t i = 0; i < 40; ++i) {
      Random random({i});
      const auto q = ask_cued(cue, Phrasing::fixed, scene, random);
      if (q && q->skill == "color" && (cue.rule || q->text.find("circle") != std::string::npos)) out.insert(q->answer);
    }
    return out;
  };
  Cue left, top;
  left.rule = Way::leftmost;
  top.rule = Way::topmost;
  EXPECT_EQ(answers(left), std::set<std::string>{"green"});
  EXPECT_EQ(answers(top), std::set<std::string>{"red"});
  std::set<std::string> coded_red;
  for (int code = 0; code < kCodes; ++code) {
    Cue cue;
    cue.code = code;
    const auto found = answers(cue);
    ASSERT_EQ(found.size(), 1u);
    coded_red.insert(*found.begin());
  }
  EXPECT_EQ(coded_red.size(), static_cast<size_t>(kCodes));
  EXPECT_EQ(coded_red.count("red"), 0u);
  for (int code = 0; code < kCodes; ++code) {
    std::set<Color> reached;
    for (int c = 0; c < kColors; ++c) reached.insert(coded(code, static_cast<Color>(c)));
    EXPECT_EQ(reached.size(), static_cast<size_t>(kColors)) << "a code must tell all colours apart";
  }
}

TEST(Cues, AHuePermutesChannelsInsideABorderOfItsOwn) {
  Sample drawn;
  drawn.scene = clear_scene();
  const auto plain = picture_of(drawn, 64);
  EXPECT_EQ(plain.pixels, render(drawn.scene, Domain::plain, 64).pixels);
  std::set<std::vector<uint8_t>> tops, insides;
  for (int h = 0; h < kHues; ++h) {
    drawn.cue.hue = static_cast<Hue>(h);
    const auto image = picture_of(drawn, 64);
    const std::string name = name_of(static_cast<Hue>(h));
    for (int y = 3; y < 61; ++y)
      for (int x = 3; x < 61; ++x)
        for (int c = 0; c < 3; ++c) {
          const size_t pixel = static_cast<size_t>(y * 64 + x) * 3;
          const size_t shown = std::string("rgb").find(name[static_cast<size_t>(c)]);
          ASSERT_EQ(image.pixels[pixel + static_cast<size_t>(c)], plain.pixels[pixel + shown]) << name;
        }
    tops.insert({image.pixels.begin(), image.pixels.begin() + 3 * 64 * 3});
    insides.insert({image.pixels.begin() + 20 * 64 * 3, image.pixels.begin() + 40 * 64 * 3});
  }
  EXPECT_EQ(tops.size(), static_cast<size_t>(kHues));
  EXPECT_EQ(insides.size(), static_cast<size_t>(kHues));
}

TEST(Cues, QuestionsAndAnswersAreMadeOfWhatTheBasesKnow) {
  for (const auto* s : streams_of_cues())
    for (size_t task = 0; task < s->tasks.size(); ++task)
      for (uint64_t i = 0; i < 40; ++i) {
        const auto q = sample(*s, task, Split::train, i).question;
        EXPECT_TRUE(known().answers.count(q.answer)) << q.answer;
        for (const auto& word : words_of(q.text))
          EXPECT_TRUE(word.size() == 1 || known().words.count(word)) << word << " in: " << q.text;
      }
}

TEST(Cues, StagesOfAStreamAskUnderTheirOwnCue) {
  for (const char* name : {"world-rule", "world-hue", "world-code", "world-thing"}) {
    const auto& s = stream(name);
    ASSERT_EQ(s.tasks.size(), 6u);
    std::set<std::string> names;
    for (size_t task = 0; task < 6; ++task) {
      names.insert(s.tasks[task].name);
      for (const auto split : {Split::train, Split::test}) {
        const auto drawn = sample(s, task, split, 7);
        EXPECT_EQ(drawn.cue.name(), s.tasks[task].name);
        EXPECT_EQ(split_of(drawn.scene), split);
      }
    }
    EXPECT_EQ(names.size(), 6u);
  }
}

TEST(Cues, AThingTellsTheRuleByItsShapeAlone) {
  const auto& s = stream("world-thing");
  std::set<std::string> questions;
  for (size_t task = 0; task < s.tasks.size(); ++task) {
    const auto rule = static_cast<Way>(task);
    std::set<Color> colors;
    std::set<int> places;
    for (uint64_t i = 0; i < 60; ++i) {
      const auto drawn = sample(s, task, Split::train, i);
      questions.insert(drawn.question.text);
      Scene others;
      for (const auto& o : drawn.scene.objects) {
        bool other_thing = false;
        for (int k = 0; k < kThings; ++k)
          other_thing = other_thing || (static_cast<Way>(k) != rule && o.shape == thing_of(static_cast<Way>(k)));
        EXPECT_FALSE(other_thing) << "two things in one picture";
        if (o.shape != thing_of(rule)) {
          others.objects.push_back(o);
          continue;
        }
        colors.insert(o.color);
        places.insert(o.place);
      }
      ASSERT_EQ(others.objects.size() + 1, drawn.scene.objects.size());
      const auto meant = referent(rule, others);
      ASSERT_TRUE(meant.has_value());
      EXPECT_EQ(drawn.question.answer, name_of(others.objects[*meant].color));
    }
    EXPECT_EQ(colors.size(), static_cast<size_t>(kColors)) << s.tasks[task].name;
    EXPECT_EQ(places.size(), static_cast<size_t>(kPlaces)) << s.tasks[task].name;
  }
  EXPECT_EQ(questions.size(), 1u);
}

TEST(Cues, OnlyDifferentKindsCombine) {
  Cue left, right, code;
  left.rule = Way::leftmost;
  right.rule = Way::rightmost;
  code.code = 0;
  EXPECT_EQ(combined(left, code).name(), "rule-leftmost+code-EAST");
  EXPECT_CONTAINS(error_of([&] { combined(left, right); }), "are of one kind");
  Random random({1});
  const auto q = ask_cued(combined(left, code), Phrasing::fixed, clear_scene(), random);
  EXPECT_EQ(q->answer, "blue") << "the leftmost is green, and EAST moves every colour on by one";
}

TEST(Cues, TwentyFourStagesHaveEveryCueAndComeBackToSome) {
  const auto& s = stream("world-24");
  ASSERT_EQ(s.tasks.size(), 24u);
  std::set<std::string> names;
  std::map<std::string, std::set<Domain>> domains;
  int repeated = 0, resembling = 0;
  for (const auto& task : s.tasks) {
    names.insert(task.name);
    auto& before = domains[task.cue->name()];
    (before.count(task.domain) ? repeated : resembling) += !before.empty();
    before.insert(task.domain);
  }
  EXPECT_EQ(names.size(), 24u);
  EXPECT_EQ(domains.size(), static_cast<size_t>(kRules + kHues + kCodes));
  EXPECT_EQ(repeated, 3);
  EXPECT_EQ(resembling, 3);
  std::set<uint64_t> first, again;
  for (uint64_t i = 0; i < 60; ++i) {
    first.insert(content_hash(sample(s, 1, Split::train, i).scene));
    again.insert(content_hash(sample(s, 10, Split::train, i).scene));
  }
  EXPECT_EQ(s.tasks[1].cue->name(), s.tasks[10].cue->name());
  for (const auto scene : again) EXPECT_EQ(first.count(scene), 0u) << "a repeated stage has new samples";
}

TEST(Cues, AFaintCueIsOneLetterInManyPhrasesOnSharedBackgrounds) {
  const auto& s = stream("world-cue");
  std::map<Domain, std::set<size_t>> stages;
  std::vector<std::set<std::string>> frames(s.tasks.size());
  for (size_t task = 0; task < s.tasks.size(); ++task)
    for (uint64_t i = 0; i < 200; ++i) {
      const auto drawn = sample(s, task, Split::train, i);
      stages[drawn.domain].insert(task);
      std::string frame;
      int letters = 0;
      for (const auto& word : words_of(drawn.question.text)) letters += word.size() == 1;
      EXPECT_EQ(letters, 1) << drawn.question.text;
      for (const char c : drawn.question.text) frame += c == letter_of(*drawn.cue.rule) ? '@' : c;
      EXPECT_NE(frame, drawn.question.text);
      frames[task].insert(frame);
    }
  EXPECT_GE(frames[0].size(), 12u);
  for (const auto& set : frames) EXPECT_EQ(set, frames[0]) << "without its letter a question says nothing of its stage";
  EXPECT_EQ(stages.size(), 6u);
  for (const auto& [domain, tasks] : stages) EXPECT_EQ(tasks.size(), 3u) << name_of(domain);
}

TEST(Cues, ABlurredStageTrainsOnOthersTooAndTestsCombinations) {
  const auto& s = stream("world-blur");
  constexpr int n = 1000;
  for (size_t task = 0; task < s.tasks.size(); ++task) {
    const auto own = s.tasks[task].cue->name();
    EXPECT_EQ(s.tasks[task].domain, s.tasks[0].domain);
    int strangers = 0, combinations = 0;
    std::set<std::string> seen;
    for (uint64_t i = 0; i < n; ++i) {
      const auto trained = sample(s, task, Split::train, i).cue.name();
      EXPECT_EQ(trained.find('+'), std::string::npos);
      strangers += trained != own;
      seen.insert(trained);
      const auto asked = sample(s, task, Split::val, i).cue.name();
      combinations += asked.find('+') != std::string::npos;
      EXPECT_NE(asked.find(own), std::string::npos) << asked;
    }
    EXPECT_NEAR(strangers, 0.3 * n, 60) << own;  // four standard deviations
    EXPECT_NEAR(combinations, 0.2 * n, 52) << own;
    EXPECT_EQ(seen.size(), s.tasks.size());
  }
}

uint64_t hash_of(const std::string& name, uint64_t seed) {
  const auto& s = stream(name);
  uint64_t hash = 0;
  for (size_t task = 0; task < s.tasks.size(); ++task)
    for (const auto split : {Split::train, Split::val, Split::test, Split::tune})
      for (uint64_t i = 0; i < 10; ++i) {
        const auto drawn = sample(s, task, {split, i, false, seed});
        for (const unsigned char c : drawn.question.text + drawn.question.answer) hash = Random::mix(hash * 31 + c);
        hash = Random::mix(hash ^ content_hash(drawn.scene));
      }
  return hash;
}

TEST(StreamSeed, ZeroGivesTheSamplesThatWereAlwaysThere) {
  EXPECT_EQ(hash_of("world-10", 0), 18017737772205419991u);
  EXPECT_EQ(hash_of("world-sc", 0), 8293313156151936725u);
  EXPECT_EQ(hash_of("world-lt", 0), 16715224280417955993u);
  EXPECT_EQ(hash_of("world-cit", 0), 1861515707003474887u);
  EXPECT_EQ(hash_of("world-domain", 0), 17594952699911429717u);
}

TEST(StreamSeed, OthersDrawOtherSamplesInTheSameSplits) {
  for (const auto& s : streams()) {
    EXPECT_NE(hash_of(s.name, 0), hash_of(s.name, 1)) << s.name;
    EXPECT_NE(hash_of(s.name, 1), hash_of(s.name, 2)) << s.name;
    EXPECT_EQ(hash_of(s.name, 2), hash_of(s.name, 2)) << s.name;
  }
  for (uint64_t i = 0; i < 40; ++i)
    EXPECT_EQ(split_of(sample(stream("world-hue"), 2, {Split::tune, i, false, 9}).scene), Split::tune);
}

TEST(StreamSeed, IsInTheFingerprintAndTheNamesOfSamples) {
  StreamOptions options;
  options.name = "world-rule";
  const auto made = [&](int64_t seed) {
    options.seed = seed;
    return make_stream(options);
  };
  const auto today = made(StreamOptions::kRunSeed), zero = made(0), five = made(5);
  EXPECT_EQ(today->fingerprint(), zero->fingerprint());
  EXPECT_NE(five->fingerprint(), zero->fingerprint());
  EXPECT_EQ(zero->sample(1, DataSplit::val, 3).id, "world-rule/rule-rightmost/val/3");
  EXPECT_EQ(five->sample(1, DataSplit::val, 3).id, "world-rule:seed5/rule-rightmost/val/3");
  EXPECT_NE(five->sample(1, DataSplit::val, 3).pixels, zero->sample(1, DataSplit::val, 3).pixels);
  options.seed = StreamOptions::kRunSeed;
  EXPECT_EQ(with_run_seed(options, 4).seed, 4);
  options.seed = 2;
  EXPECT_EQ(with_run_seed(options, 4).seed, 2);
  options.name = "coin";
  options.seed = StreamOptions::kRunSeed;
  EXPECT_EQ(with_run_seed(options, 4).seed, StreamOptions::kRunSeed) << "files are not drawn";
  options.seed = 3;
  EXPECT_CONTAINS(error_of([&] { make_stream(options); }), "stream.seed: coin is read from files");
}

}  // namespace
}  // namespace asr::world
