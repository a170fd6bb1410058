#include "skills/parser/parser.h"

#include <set>

#include "skills/parser/training.h"
#include "skills/part_of_speech.h"
#include "skills/taxonomy.h"
#include "streams/world/labelled.h"
#include "tensor/tensor_io.h"
#include "tests/support/files.h"

namespace asr {
namespace {

const std::vector<LabelledQuestion> kTiny = {{"how many dogs are there?", skill_index("count")},
                                             {"what color is the dog?", skill_index("color")},
                                             {"where is the dog?", skill_index("location")},
                                             {"is there a dog?", skill_index("existence")},
                                             {"what does the sign say?", skill_index("read")}};

ParserOptions tiny_options() {
  ParserOptions o;
  o.width = 16;
  o.mlp = 32;
  o.steps = 60;
  o.batch = 8;
  o.min_count = 1;
  o.buckets = 4;
  o.learning_rate = 1e-2;
  o.word_dropout = 0;
  return o;
}

SkillParser shipped() {
  return SkillParser::load(ASR_SOURCE_DIR "/assets/parser-world.safetensors");
}

TEST(Parser, OverfitsATinySet) {
  std::vector<double> losses;
  const auto parser =
      train_parser(kTiny, {}, tiny_options(), {3, [&](int64_t, double loss) { losses.push_back(loss); }});
  EXPECT_EQ(losses.size(), 60u);
  EXPECT_LT(losses.back(), losses.front() / 2);
  EXPECT_EQ(evaluate_parser(parser, kTiny).accuracy, 1.0);
  EXPECT_EQ(parser.temperature, 1.0);
  auto cls = tiny_options();
  cls.pooling = Pooling::cls;
  EXPECT_EQ(evaluate_parser(train_parser(kTiny, kTiny, cls, {3}), kTiny).accuracy, 1.0);
}

TEST(Parser, TrainingIsRepeatable) {
  auto options = tiny_options();
  options.steps = 5;
  options.word_dropout = 0.3;
  const auto p = train_parser(kTiny, kTiny, options, {1}).posterior({"what is it?"});
  EXPECT_TRUE(at::equal(p, train_parser(kTiny, kTiny, options, {1}).posterior({"what is it?"})));
  EXPECT_FALSE(at::equal(p, train_parser(kTiny, kTiny, options, {2}).posterior({"what is it?"})));
}

TEST(Parser, TheFullSizeTrains) {
  auto options = ParserOptions::paper();
  options.epochs = 1;
  options.batch = 2;
  options.min_count = 1;
  int64_t steps = 0;
  const auto parser = train_parser(kTiny, kTiny, options, {1, [&](int64_t, double) { ++steps; }});
  EXPECT_EQ(steps, 3);
  EXPECT_EQ(parser.options().width, 512);
  EXPECT_NEAR(parser.posterior({"how many?"}).sum().item<double>(), 1, 1e-5);
}

TEST(Parser, RowsSumToOneAndDoNotDependOnTheBatch) {
  const auto parser = shipped();
  std::vector<std::string> questions = {"", "?", "zorgl blimp frotz", "\xff\xfe", std::string(10000, 'x')};
  std::string lengthy;
  for (int i = 0; i < 2500; ++i) lengthy += "why ";
  questions.push_back(lengthy);
  for (const auto& q : world::labelled_questions(world::Split::test, 2)) questions.push_back(q.text);
  const auto p = parser.posterior(questions);
  ASSERT_EQ(p.sizes(), (std::vector<int64_t>{static_cast<int64_t>(questions.size()), 15}));
  EXPECT_LT((p.sum(1) - 1).abs().max().item<double>(), 1e-6);
  EXPECT_TRUE(at::equal(p, parser.posterior(questions)));
  for (const int64_t batch : {1, 7, 1000})
    EXPECT_LT((p - parser.posterior(questions, batch)).abs().max().item<double>(), 1e-6) << batch;
  EXPECT_EQ(parser.posterior({}).size(0), 0);
}

TEST(Parser, SaveAndLoadGiveTheSameBits) {
  TemporaryFolder folder;
  const auto parser = train_parser(kTiny, kTiny, tiny_options(), {5});
  EXPECT_NE(parser.temperature, 1.0);
  parser.save(folder / "p", {{"note", "mine"}});
  const auto again = SkillParser::load(folder / "p");
  const std::vector<std::string> questions = {"how many cats?", "what is it?"};
  EXPECT_TRUE(at::equal(parser.posterior(questions), again.posterior(questions)));
  EXPECT_EQ(parser.temperature, again.temperature);
  EXPECT_EQ(parser.vocabulary().words(), again.vocabulary().words());
  EXPECT_EQ(again.options().width, 16);
  again.save(folder / "q", {{"note", "mine"}});
  EXPECT_EQ(read_text(folder / "p"), read_text(folder / "q"));
}

TEST(Parser, RefusesForeignAndCorruptFiles) {
  TemporaryFolder folder;
  const auto message = [](const std::string& path) { return error_of([&] { SkillParser::load(path); }); };
  save_tensors(folder / "foreign", {{"embedding", torch::ones({2, 2})}}, {});
  EXPECT_CONTAINS(message(folder / "foreign"), "is no skill parser");
  EXPECT_CONTAINS(message(folder / "missing"), "No such file");
  SkillParser::random(tiny_options(), QuestionVocabulary({"how"}, 4), 1).save(folder / "p");
  auto bytes = read_text(folder / "p");
  bytes[bytes.size() - 3] ^= 1;
  write_text(folder / "flipped", bytes);
  EXPECT_CONTAINS(message(folder / "flipped"), "checksum");
  write_text(folder / "cut", bytes.substr(0, bytes.size() / 2));
  EXPECT_CONTAINS(message(folder / "cut"), "cut");
}

// Valid files whose content does not fit together.
TEST(Parser, RefusesFilesThatContradictThemselves) {
  TemporaryFolder folder;
  SkillParser::random(tiny_options(), QuestionVocabulary({"how"}, 4), 1).save(folder / "p");
  const auto changed = [&](const std::string& key, const std::string& value, const NamedTensors& more = {}) {
    const auto file = read_safetensors(folder / "p");
    NamedTensors tensors = more;
    for (const auto& view : file.tensors) tensors.emplace_back(view.name, load_tensor(file, view.name));
    auto metadata = file.metadata;
    metadata.erase("sha256");
    if (!key.empty()) metadata[key] = value;
    save_tensors(folder / "q", tensors, metadata);
    return error_of([&] { SkillParser::load(folder / "q"); });
  };
  EXPECT_CONTAINS(changed("asr_parser", "2"), "format 2 is not known");
  EXPECT_CONTAINS(changed("skills", "[\"count\"]"), "'head.weight' has shape");
  EXPECT_CONTAINS(changed("skills", "[]"), "names none");
  EXPECT_CONTAINS(changed("vocabulary", "[\"how\",\"many\"]"), "'embedding' has shape [6, 16]; expected [7, 16]");
  EXPECT_CONTAINS(changed("vocabulary", "[\"how\",\"how\"]"), "twice");
  EXPECT_CONTAINS(changed("vocabulary", "[1]"), "not text");
  EXPECT_CONTAINS(changed("temperature", "0"), "temperature");
  EXPECT_CONTAINS(changed("temperature", "{"), "not valid JSON");
  EXPECT_CONTAINS(changed("options", "{\"parser\":{\"widht\":16}}"), "did you mean 'parser.width'?");
  EXPECT_CONTAINS(changed("", "", {{"extra", torch::ones({1})}}), "no place for");
}

TEST(Parser, AnotherTaxonomyMergesColumns) {
  TemporaryFolder folder;
  const auto options = tiny_options();
  SkillParser::random(options, QuestionVocabulary({"how"}, 4), 1).save(folder / "p");
  const auto all = SkillParser::load(folder / "p").posterior({"how?"});
  use_taxonomy({{"other", "comparison"}, {{"compare-number", "comparison"}, {"compare-attribute", "comparison"}}});
  const auto merged = SkillParser::load(folder / "p").posterior({"how?"});
  use_taxonomy({{"comparison"}, {{"compare-number", "comparison"}}});
  const auto message = error_of([&] { SkillParser::load(folder / "p"); });
  use_taxonomy(built_in_taxonomy());
  ASSERT_EQ(merged.size(1), 2);
  const auto expected = all[0][skill_index("compare-number")] + all[0][skill_index("compare-attribute")];
  EXPECT_NEAR(merged[0][1].item<double>(), expected.item<double>(), 1e-6);
  EXPECT_NEAR(merged.sum().item<double>(), 1, 1e-6);
  EXPECT_CONTAINS(message, "neither skill 'count' nor 'other'");
}

TEST(Parser, LearnsSoftTargetsAndFromATeacher) {
  auto questions = kTiny;
  for (auto& q : questions) {
    q.target.assign(skill_names().size(), 0.f);
    q.target[static_cast<size_t>(q.skill)] = 0.6f;
    q.target[skill_names().size() - 1] = 0.4f;
  }
  auto options = tiny_options();
  options.epochs = 40;
  options.label_smoothing = 0;
  options.batch = 5;
  EXPECT_EQ(training_steps(options, questions.size()), 40);
  const auto teacher = train_parser(questions, questions, options, {3});
  const auto p = teacher.posterior({kTiny[1].text});
  EXPECT_NEAR(p[0][kTiny[1].skill].item<double>(), 0.6, 0.08);
  EXPECT_NEAR(p[0][14].item<double>(), 0.4, 0.08);
  auto copied = kTiny;
  set_targets(copied, teacher);
  const auto student = train_parser(copied, copied, options, {4}).posterior({kTiny[1].text});
  EXPECT_LT((student - p).abs().max().item<double>(), 0.15);
}

TEST(RulePosteriors, AreThoseOfTheRules) {
  const auto p = rule_posteriors({"how many dogs are there?", "why?"});
  ASSERT_EQ(p.size(0), 2);
  EXPECT_EQ(p[0].argmax().item<int64_t>(), skill_index("count"));
  EXPECT_EQ(p[1].argmax().item<int64_t>(), skill_index("other"));
  EXPECT_NEAR(p.sum().item<double>(), 2, 1e-5);
}

TEST(Parser, BadOptionsAreErrors) {
  auto options = tiny_options();
  options.heads = 3;
  EXPECT_CONTAINS(error_of([&] { SkillParser::random(options, QuestionVocabulary({}, 4), 1); }), "no multiple");
  EXPECT_CONTAINS(error_of([&] { train_parser({}, {}, tiny_options(), {1}); }), "no questions");
}

TEST(QuestionVocabulary, UnknownWordsShareBuckets) {
  const auto v = QuestionVocabulary::build({"How many, how?", "many cats"}, 2, 100, 8);
  EXPECT_EQ(v.words(), (std::vector<std::string>{"how", "many"}));
  const auto ids = v.ids("HOW zebra many zebra", 64);
  ASSERT_EQ(ids.size(), 5u);
  EXPECT_EQ(ids[0], 0);
  EXPECT_EQ(ids[1], 1);
  EXPECT_EQ(ids[2], ids[4]);
  EXPECT_GE(ids[2], v.first_bucket());
  EXPECT_LT(ids[2], v.size());
  EXPECT_EQ(v.ids("how how how", 2).size(), 3u);
}

TEST(Calibration, FindsTheTemperatureThatMadeTheLabels) {
  torch::manual_seed(3);
  const auto logits = torch::randn({20000, 4}, at::kDouble) * 2;
  const auto labels = (logits / 2.5).softmax(-1).multinomial(1).squeeze(1);
  EXPECT_NEAR(fit_temperature(logits, labels), 2.5, 0.15);
  EXPECT_NEAR(fit_temperature(logits, (logits / 2.5).softmax(-1)), 2.5, 0.01);
  EXPECT_NEAR(fit_temperature(logits, logits.argmax(1)), 0.05, 0.01);
}

TEST(Calibration, ReportCountsByHand) {
  const auto p = torch::tensor({{0.9, 0.1}, {0.6, 0.4}, {0.3, 0.7}, {0.2, 0.8}});
  const auto report = evaluate_posterior(p, {{"a", 0}, {"b", 1}, {"c", 1}, {"d", 0}});
  EXPECT_EQ(report.accuracy, 0.5);
  EXPECT_NEAR(report.confidence, 0.75, 1e-6);
  EXPECT_NEAR(report.calibration_error, (0.1 + 0.6 + 0.3 + 0.8) / 4, 1e-6);
  ASSERT_EQ(report.confusions.size(), 2u);
  EXPECT_EQ(report.confusions[0].count, 1);
  EXPECT_EQ(report.skills[0].count, 2);
  EXPECT_EQ(report.skills[1].correct, 1);
  // Soft labels: who answers by their shares is calibrated.
  const auto soft = evaluate_posterior(
      p, {{"a", 0, {0.9f, 0.1f}}, {"b", 0, {0.6f, 0.4f}}, {"c", 1, {0.3f, 0.7f}}, {"d", 1, {0.2f, 0.8f}}});
  EXPECT_EQ(soft.accuracy, 1);
  EXPECT_NEAR(soft.calibration_error, 0, 1e-6);
}

// So that results on the world do not depend on whether WordNet is installed.
TEST(FunctionalWords, OfTheWorldAreTheSameWithWordNet) {
  use_lexicon(LexiconChoice::automatic);
  if (!question_lexicon()) GTEST_SKIP() << "WordNet is not installed (package wordnet-base) and ASR_WORDNET is not set";
  std::set<std::string> texts;
  for (const auto& q : world::labelled_questions(world::Split::train, 100)) texts.insert(q.text);
  for (const auto& text : texts) {
    const auto by_lists = functional_words(text), by_wordnet = functional_words(text, question_lexicon());
    for (size_t i = 0; i < by_lists.size(); ++i)
      ASSERT_EQ(by_lists[i].functional, by_wordnet[i].functional) << text << ": " << by_lists[i].text;
  }
}

TEST(ShippedParser, KnowsTheWorldsHeldOutQuestions) {
  const auto parser = shipped();
  std::set<std::string> seen;
  for (const auto& q : world::labelled_questions(world::Split::train, 40)) seen.insert(q.text);
  std::vector<LabelledQuestion> all = world::labelled_questions(world::Split::test, 20), fresh;
  for (const auto& q : all)
    if (!seen.count(q.text)) fresh.push_back(q);
  ASSERT_GT(fresh.size(), 50u);
  const auto report = evaluate_parser(parser, all), unseen = evaluate_parser(parser, fresh);
  EXPECT_GT(report.accuracy, 0.99);
  EXPECT_LT(report.calibration_error, 0.02);
  EXPECT_GT(unseen.accuracy, 0.99) << fresh.size();
}

// Below what docs/skills.md reports, so that a broken file or reader is noticed.
TEST(ShippedParser, TheSmallOneReadsFreeText) {
  const auto parser = SkillParser::load(ASR_SOURCE_DIR "/assets/parser-small.safetensors");
  const auto questions = read_labelled_questions(ASR_SOURCE_DIR "/tests/fixtures/hand_labelled_questions.tsv");
  const auto report = evaluate_parser(parser, questions);
  EXPECT_GT(report.accuracy, 0.7);
  EXPECT_LT(report.calibration_error, 0.2);
  const auto world = evaluate_parser(parser, world::labelled_questions(world::Split::test, 4));
  EXPECT_GT(world.accuracy, 0.9);
}

TEST(ShippedParser, IsUnsureAboutUnknownWords) {
  const auto parser = shipped();
  const auto p = parser.posterior({"zorgl blimp frotz?", "what color is the wombat?"});
  EXPECT_LT(p[0].max().item<double>(), 0.95);
  EXPECT_EQ(p[1].argmax().item<int64_t>(), skill_index("color"));
}

}  // namespace
}  // namespace asr
