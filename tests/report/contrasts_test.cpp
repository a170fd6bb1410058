// Contrasts over settings, heads and splits kept apart, and who is a brake, on runs made up here.
#include "report/contrasts.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "report/braking.h"
#include "report/figures.h"
#include "report/tables.h"
#include "tests/support/files.h"

namespace asr {
namespace {

Run made_up(const std::string& stream, const std::string& label, int64_t seed, double ap) {
  Run run;
  run.folder = stream + "/" + label + "-" + std::to_string(seed);
  run.root = stream;
  run.stream = stream;
  run.backbone = "tiny-S";
  run.label = run.method = label;
  run.split = "test";
  run.seed = seed;
  run.tasks = {"a", "b"};
  run.cost = {kUnknown, kUnknown, kUnknown, 2048, 40960, 2};
  run.scores = {{"AP", ap}, {"AF", 5}, {"MFT", ap + 5}, {"zero_shot", 10}};
  return run;
}

// A point of a search with one score a seed.
void add_point(RunSet& set, const std::string& label, const std::string& point, double mft,
               const std::vector<double>& scores) {
  for (size_t i = 0; i < scores.size(); ++i) {
    auto run = made_up("hue", label + ":" + point, 101 + static_cast<int64_t>(i), scores[i]);
    run.split = "tune";
    run.scores["MFT"] = mft;
    run.scores["AF"] = mft - scores[i];
    set.runs.push_back(run);
  }
}

const char* const kTwoContrasts = R"(tuning_seeds: [101, 102]
test_seeds: [1, 2]
rows:
  vanilla: {method: vanilla, rates: [1, 2], strength: num_train_epochs, values: [1, 2]}
  x: {method: ewc, rates: [1, 2], strength: ewc.lambda, values: [1, 2]}
  y: {method: ewc, rates: [1, 2], strength: ewc.lambda, values: [1, 2]}
contrasts: [x against vanilla, x against vanilla on rule, y against x]
)";

class Contrasts : public testing::Test {
 protected:
  // Differences of x are those of tests/report/t_test_test.cpp; y is vanilla moved by hundredths.
  void SetUp() override {
    const std::vector<double> hue = {1.0, 2.0, 3.0, 2.0, 1.5, 2.5}, rule = {-0.5, 0.7, 0.1, -0.3, 0.4, -0.1},
                              code = {4, 6, 5};
    for (size_t i = 0; i < 6; ++i) {
      const auto seed = static_cast<int64_t>(i) + 1;
      const double base = 20 + 3.0 * static_cast<double>(i % 3);
      for (const auto& [stream, gains] : {std::pair{"hue", hue}, std::pair{"rule", rule}, std::pair{"code", code}}) {
        if (i >= gains.size()) continue;
        set.runs.push_back(made_up(stream, "vanilla", seed, base));
        set.runs.push_back(made_up(stream, "x", seed, base + gains[i]));
      }
      set.runs.push_back(made_up("hue", "y", seed, base + (i % 2 == 0 ? 0.5 : -0.4)));
    }
    protocol = parse_protocol(kTwoContrasts, "p.yaml");
    options.protocol = &protocol;
    options.metrics = {"AP", "AF", "MFT"};
  }
  RunSet set;
  Protocol protocol;
  CompareOptions options;
};

TEST_F(Contrasts, OverallHolmAndWords) {
  const auto comparison = compare_runs(set, options);
  ASSERT_EQ(comparison.contrasts.size(), 3u);
  const auto& x = comparison.contrasts[0];
  EXPECT_EQ(x.overall.n, 3);
  EXPECT_EQ(x.overall.agree, 3);
  EXPECT_NEAR(x.overall.mean, 2.35, 1e-9);
  EXPECT_NEAR(x.overall.p, 0.0008559261068, 1e-8);
  EXPECT_EQ(x.words, "better");
  const auto& rule = comparison.contrasts[1];
  EXPECT_EQ(rule.overall.n, 1);
  EXPECT_NEAR(rule.overall.mean, 0.05, 1e-9);
  EXPECT_EQ(rule.words, "no difference seen");
  // y - x on hue: 0.5-1, -0.4-2, 0.5-3, -0.4-2, 0.5-1.5, -0.4-2.5: mean -1.95, s = 0.96073, t = -4.97175
  const auto& yx = comparison.contrasts[2];
  EXPECT_NEAR(yx.overall.mean, -1.95, 1e-9);
  EXPECT_NEAR(yx.adjusted, 2 * yx.overall.p, 1e-12);  // the second smallest of three
  EXPECT_NEAR(x.adjusted, 3 * x.overall.p, 1e-12);
  EXPECT_EQ(yx.words, "worse");
  const auto text = text_tables(comparison);
  EXPECT_CONTAINS(text, "+2.35*");
  EXPECT_CONTAINS(text, "no difference seen");
  // On its own setting y is exploratory: words, no star.
  const auto grid = difference_grid(comparison, comparison.tables[0]);
  for (const auto& row : grid.rows)
    for (const auto& cell : row) EXPECT_EQ(cell.value.find('*'), std::string::npos) << cell.value;
}

// The same differences and p, but no correction, no star, and words by the interval.
TEST_F(Contrasts, ExploratoryOnesHaveNeitherHolmNorStars) {
  const auto primary = compare_runs(set, options);
  protocol.primary = false;
  const auto comparison = compare_runs(set, options);
  ASSERT_EQ(comparison.contrasts.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(comparison.contrasts[i].overall.p, primary.contrasts[i].overall.p);
    EXPECT_TRUE(std::isnan(comparison.contrasts[i].adjusted));
    EXPECT_FALSE(comparison.contrasts[i].significant());
  }
  EXPECT_EQ(comparison.contrasts[0].words, "better");
  EXPECT_EQ(comparison.contrasts[1].words, "no difference seen");
  EXPECT_EQ(comparison.contrasts[2].words, "worse");
  const auto grid = contrast_grid(comparison);
  EXPECT_EQ(grid.caption, "contrasts, exploratory, AP");
  for (const auto& row : grid.rows) {
    EXPECT_EQ(row.size(), grid.header.size());
    for (const auto& cell : row) EXPECT_EQ(cell.value.find('*'), std::string::npos) << cell.value;
  }
  const auto text = text_tables(comparison);
  EXPECT_CONTAINS(text, "+2.35 ");
  EXPECT_EQ(text.find("Holm"), std::string::npos);
  EXPECT_EQ(text.find("primary contrasts"), std::string::npos);
  EXPECT_CONTAINS(text_tables(primary), "p (Holm)");
  const auto first = comparison_json(comparison)["contrasts"][0];
  EXPECT_FALSE(first["primary"].get<bool>());
  EXPECT_TRUE(first["p_holm"].is_null());
  EXPECT_FALSE(first["significant"].get<bool>());
}

TEST_F(Contrasts, ASettingThatSaysTheOppositeIsNamed) {
  for (auto& run : set.runs)
    if (run.stream == "rule" && run.label == "x") run.scores["AP"] -= 1.5;
  const auto comparison = compare_runs(set, options);
  const auto& x = comparison.contrasts[0];
  EXPECT_LT(x.settings[2].test.interval.high, 0);
  EXPECT_EQ(x.words, "better; worse on rule, tiny-S, split test");
}

TEST_F(Contrasts, OnePairIsNotTested) {
  set.runs.push_back(made_up("hue", "z", 1, 90));
  set.runs.push_back(made_up("hue", "w", 1, 20));  // vanilla's own score
  const auto comparison = compare_runs(set, options);
  std::map<std::string, std::string> words;
  for (const auto& difference : comparison.tables[1].differences) words[difference.label] = difference.words;
  EXPECT_EQ(words["z"], "not tested");
  EXPECT_EQ(words["w"], "no difference seen");
  EXPECT_EQ(words["x"], "better");
}

TEST_F(Contrasts, WithoutAProtocolNothingIsTested) {
  options.protocol = nullptr;
  const auto comparison = compare_runs(set, options);
  EXPECT_TRUE(comparison.contrasts.empty());
  EXPECT_EQ(text_tables(comparison).find("primary contrasts"), std::string::npos);
}

TEST_F(Contrasts, HeadsAndSplitsAreNeverMixed) {
  auto other = made_up("hue", "vanilla", 1, 90);
  other.head = "answers";
  set.runs.push_back(other);
  auto searched = made_up("hue", "vanilla", 1, 95);
  searched.split = "tune";
  set.runs.push_back(searched);
  options.protocol = nullptr;
  const auto comparison = compare_runs(set, options);
  ASSERT_EQ(comparison.tables.size(), 5u);  // code; hue with each head and split; rule
  std::vector<std::string> titles;
  for (const auto& table : comparison.tables) titles.push_back(table_title(table));
  EXPECT_EQ(std::count(titles.begin(), titles.end(), "hue, tiny-S, head answers, split test"), 1);
  EXPECT_EQ(std::count(titles.begin(), titles.end(), "hue, tiny-S, split tune"), 1);
  for (const auto& table : comparison.tables)
    for (const auto& group : table.groups)
      for (const auto* run : group.runs) EXPECT_EQ(run->answer_head() + run->split, table.head + table.split);
}

TEST_F(Contrasts, ChosenSettingsAndCosts) {
  for (auto& run : set.runs) {
    run.rate = run.label == "x" ? 0.002 : 0.001;
    run.epochs = 2;
    if (run.label == "x") run.strength = "ewc.lambda=100";
  }
  set.runs[1].epochs = 4;  // x, one seed of hue
  const auto comparison = compare_runs(set, options);
  const auto text = markdown_tables(comparison);
  EXPECT_CONTAINS(text, "| x | 0.002 | ewc.lambda=100 | several | 40960 | 2.0 KB | 2.00 |");
  EXPECT_CONTAINS(text, "| vanilla | 0.001 | - | 2 | 40960 |");
  EXPECT_CONTAINS(csv_table(comparison), ",test,generate,0.002,ewc.lambda=100,");
}

// Vanilla's curve over rates at one epoch: (MFT, AP) = (30, 20), (40, 24), (50, 18).
TEST(Braking, ThePlaceAgainstTheCurve) {
  RunSet set;
  add_point(set, "vanilla", "learning_rate=0.001,num_train_epochs=1", 30, {20});
  add_point(set, "vanilla", "learning_rate=0.002,num_train_epochs=1", 40, {23, 25});
  add_point(set, "vanilla", "learning_rate=0.005,num_train_epochs=1", 50, {18});
  add_point(set, "brake", "learning_rate=0.005,ewc.lambda=1", 35, {21, 22, 23});  // the curve there: 22
  add_point(set, "keeps", "learning_rate=0.005,ewc.lambda=1", 45, {29, 30, 31});  // 21
  add_point(set, "harms", "learning_rate=0.005,ewc.lambda=1", 45, {9, 10, 11});   // 21
  add_point(set, "far", "learning_rate=0.005,ewc.lambda=1", 60, {30, 31, 32});    // beyond
  add_point(set, "single", "learning_rate=0.005,ewc.lambda=1", 45, {30});         // no interval
  add_point(set, "keeps", "learning_rate=0.002,ewc.lambda=1", 35, {99});          // one seed: not the chosen one
  const auto comparison = compare_runs(set, {});
  ASSERT_EQ(comparison.tables.size(), 1u);
  const auto& table = comparison.tables[0];
  const auto points = curve_points(table);
  std::vector<CurvePoint> curve;
  for (const auto& point : points)
    if (point.label == "vanilla") curve.push_back(point);
  EXPECT_NEAR(curve_at(curve, 35), 22, 1e-9);
  EXPECT_NEAR(curve_at(curve, 45), 21, 1e-9);
  EXPECT_TRUE(std::isnan(curve_at(curve, 51)));
  std::map<std::string, std::string> words;
  for (const auto& row : brake_rows(table, "vanilla")) words[row.point.label] = row.words("vanilla");
  EXPECT_EQ(words["brake"], "a brake: not told apart from vanilla's rate curve");
  EXPECT_EQ(words["keeps"], "9.0 AP above vanilla's rate curve");
  EXPECT_EQ(words["harms"], "11.0 AP below vanilla's rate curve");
  EXPECT_EQ(words["far"], "its MFT lies outside of vanilla's rate curve");
  EXPECT_EQ(words["single"], "one seed: 9.0 AP above vanilla's rate curve");
  EXPECT_CONTAINS(braking_csv(table, "vanilla"), "hue,tiny-S,keeps,\"learning_rate=0.005,ewc.lambda=1\",3,45,30,");
  const auto figure = figure_braking(table).html;
  EXPECT_CONTAINS(figure, "AP against MFT, hue, tiny-S");
  EXPECT_CONTAINS(figure, "a brake: not told apart from vanilla&#39;s rate curve");
}

// A second family, of two epochs, lies higher: the best that vanilla reaches counts.
TEST(Braking, TheBestFamilyCounts) {
  std::vector<CurvePoint> curve(4);
  const double rates[] = {1, 2, 1, 2}, mft[] = {30, 40, 30, 40}, ap[] = {20, 24, 22, 30};
  for (size_t i = 0; i < 4; ++i) {
    curve[i].family = i < 2 ? "one" : "two";
    curve[i].rate = rates[i];
    curve[i].mft = mft[i];
    curve[i].ap.mean = ap[i];
  }
  EXPECT_NEAR(curve_at(curve, 35), 26, 1e-9);
}

TEST_F(Contrasts, SaysWhichChoiceLiesAtTheEndOfItsSearch) {
  for (const char* rate : {"0.001", "0.002", "0.005"})
    for (const char* value : {"1", "10", "100"})
      add_point(set, "x", std::string("learning_rate=") + rate + ",ewc.lambda=" + value, 30, {21});
  for (auto& run : set.runs) {
    if (run.label != "x") continue;
    run.rate = 0.005;
    run.strength = "ewc.lambda=10.0";
  }
  EXPECT_CONTAINS(markdown_tables(compare_runs(set, options)), "9 points, 9 runs; rate at the high end |");
  for (auto& run : set.runs) {
    if (run.label != "x") continue;
    run.rate = 0.002;
    run.strength = "ewc.lambda=1.0";
  }
  EXPECT_CONTAINS(markdown_tables(compare_runs(set, options)), "9 points, 9 runs; ewc.lambda at the low end |");
}

// Six runs of three seeds asked the base three times: 10, 11 and 12.
TEST(ZeroShot, ASeedIsOneMeasurement) {
  RunSet runs;
  for (int64_t seed = 1; seed <= 3; ++seed)
    for (const char* label : {"vanilla", "x"}) {
      runs.runs.push_back(made_up("hue", label, seed, 20));
      runs.runs.back().scores["zero_shot"] = 9.0 + static_cast<double>(seed);
    }
  const auto table = compare_runs(runs, {}).tables.at(0);
  ASSERT_TRUE(table.groups.at(0).zero_shot);
  EXPECT_NEAR(table.groups[0].scores.at(0).mean, 11, 1e-9);
  EXPECT_NEAR(table.groups[0].scores[0].deviation, 1, 1e-9);
}

TEST_F(Contrasts, TheSearchNamesBrakesInTheReportedRow) {
  add_point(set, "vanilla", "learning_rate=0.001,num_train_epochs=1", 20, {20});
  add_point(set, "vanilla", "learning_rate=0.002,num_train_epochs=1", 40, {24});
  add_point(set, "x", "learning_rate=0.001,ewc.lambda=1", 30, {21, 22, 23});
  const auto comparison = compare_runs(set, options);
  EXPECT_EQ(comparison.tables.size(), 3u);  // the search is no table of the report
  ASSERT_EQ(comparison.searches.size(), 1u);
  EXPECT_CONTAINS(markdown_tables(comparison),
                  "| 1 points, 3 runs | a brake: not told apart from vanilla's rate curve |");
  set.runs.erase(set.runs.begin(), set.runs.begin() + 36);
  RunSet only;
  for (const auto& run : set.runs)
    if (run.split == "tune") only.runs.push_back(run);
  try {
    compare_runs(only, options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_CONTAINS(std::string(error.what()), "never reported");
  }
}

}  // namespace
}  // namespace asr
