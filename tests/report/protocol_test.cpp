// The protocol's file and the choice it makes, with a score function of our own in place of runs.
#include "report/protocol.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/error.h"
#include "tests/support/files.h"

namespace asr {
namespace {

const char* const kProtocol = R"(tuning_seeds: [101, 102, 103]
test_seeds: [1, 2, 3]
finalists: 2
rows:
  vanilla:
    method: vanilla
    rates: [0.001, 0.002]
    strength: num_train_epochs
    values: [1, 2]
  asr-anchored:
    method: asr
    set:
      asr.target: anchor
      asr.keys: [a, b]
    rates: [0.002, 0.005]
    strength: asr.beta
    values: [1, 3]
contrasts: [asr-anchored against vanilla, asr-anchored against vanilla on world-hue world-rule]
)";

std::string refusal(std::string text, const std::string& from, const std::string& to) {
  const auto place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  text.replace(place, from.size(), to);
  try {
    parse_protocol(text, "p.yaml");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Protocol, IsReadAsWritten) {
  const auto protocol = parse_protocol(kProtocol, "p.yaml");
  ASSERT_EQ(protocol.rows.size(), 2u);
  const auto& row = protocol.rows[1];
  EXPECT_EQ(row.label, "asr-anchored");
  ASSERT_EQ(row.sets.size(), 2u);
  EXPECT_EQ(row.sets[1].value, "[a, b]");
  const auto points = row.points();
  ASSERT_EQ(points.size(), 4u);
  EXPECT_EQ(points[1][0].value + " " + points[1][1].key + " " + points[1][1].value, "0.002 asr.beta 3");
  EXPECT_EQ(protocol.contrasts[1].name(), "asr-anchored against vanilla on world-hue world-rule");
  EXPECT_EQ(protocol.row("asr-anchored:learning_rate=0.002"), &row);
  EXPECT_EQ(protocol.row("ewc"), nullptr);
  EXPECT_TRUE(protocol.primary);
  EXPECT_FALSE(parse_protocol(std::string("primary: no\n") + kProtocol, "p.yaml").primary);
}

TEST(Protocol, BadFilesAreRefused) {
  EXPECT_EQ(refusal(kProtocol, "finalists: 2", "finalists: 2"), "");
  EXPECT_CONTAINS(refusal(kProtocol, "    strength: asr.beta\n", ""), "row 'asr-anchored' has no strength");
  EXPECT_CONTAINS(refusal(kProtocol, "strength: asr.beta", "strength: eval_split"), "strength cannot be eval_split");
  EXPECT_CONTAINS(refusal(kProtocol, "strength: asr.beta", "strength: learning_rate"), "the protocol sets it");
  EXPECT_CONTAINS(refusal(kProtocol, "    set:\n", "    set:\n      eval_split: test\n"), "cannot set eval_split");
  EXPECT_CONTAINS(refusal(kProtocol, "    set:\n", "    set:\n      stream.seed: 7\n"),
                  "cannot set stream.seed; all rows share stream and model");
  EXPECT_CONTAINS(refusal(kProtocol, "values: [1, 3]", "values: [3]"), "a grid of one value");
  EXPECT_CONTAINS(refusal(kProtocol, "values: [1, 3]", "values: [1, 2, 3]"), "the same budget");
  EXPECT_CONTAINS(refusal(kProtocol, "[1, 2, 3]", "[1, 2, 103]"), "seed 103 is for tuning and for testing");
  EXPECT_CONTAINS(refusal(kProtocol, "[101, 102, 103]", "[101, 101]"), "stands twice");
  EXPECT_CONTAINS(refusal(kProtocol, "against vanilla,", "against vanila,"), "did you mean 'vanilla'");
  EXPECT_CONTAINS(refusal(kProtocol, "anchored against vanilla,", "anchored minus vanilla,"), "is no contrast");
  EXPECT_CONTAINS(refusal(kProtocol, "    rates: [0.001", "    rate: [0.001"), "did you mean 'rates'");
  EXPECT_CONTAINS(refusal(kProtocol, "finalists", "finalist"), "did you mean 'finalists'");
  EXPECT_CONTAINS(refusal(kProtocol, "finalists: 2", "primary: maybe"), "primary: 'maybe' is neither yes nor no");
}

// The first seed alone would take point 1; over three seeds point 3 is better; point 0 never becomes a finalist.
TEST(Protocol, ChoosesByTheMeanOfFinalists) {
  const auto protocol = parse_protocol(kProtocol, "p.yaml");
  const auto& row = protocol.rows[0];
  std::map<std::pair<size_t, int64_t>, int> asked;
  const std::map<int64_t, std::vector<double>> scores = {
      {101, {10, 50, 20, 48}}, {102, {99, 40, 99, 47}}, {103, {99, 41, 99, 49}}};
  const PointScore score = [&](size_t point, int64_t seed) {
    ++asked[{point, seed}];
    return scores.at(seed)[point];
  };
  EXPECT_EQ(finalists_of(protocol, row, score), (std::vector<size_t>{1, 3}));
  const auto chosen = chosen_of(protocol, row, score);
  EXPECT_TRUE(chosen.found);
  EXPECT_EQ(chosen.point, 3u);
  EXPECT_DOUBLE_EQ(chosen.mean, 48);
  EXPECT_EQ(asked.count({0, 102}), 0u);  // only finalists are given more seeds
}

// Three rates at the middle strength, then the two others at the best rate. Of the grid's points
//   0 1 2 / 3 4 5 / 6 7 8
// that is 1, 4, 7, and here 3 and 5. Point 8 would be the best of all, but no line leads there.
TEST(Protocol, ALineGoesThroughTheMiddleAndTurnsAtTheBestRate) {
  std::string text = kProtocol;
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"finalists: 2", "finalists: 2\nsearch: line"},
                                                        {"[0.001, 0.002]", "[0.001, 0.002, 0.005]"},
                                                        {"values: [1, 2]", "values: [1, 2, 4]"},
                                                        {"values: [1, 3]", "values: [1, 3, 10, 30]"}})
    text.replace(text.find(from), from.size(), to);
  const auto protocol = parse_protocol(text, "p.yaml");
  const auto& row = protocol.rows[0];
  const std::vector<double> scores = {1, 20, 3, 45, 30, 40, 7, 10, 99};
  const PointScore score = [&](size_t point, int64_t) { return scores[point]; };
  EXPECT_EQ(protocol.budget(row), 5u);
  EXPECT_EQ(first_points(protocol, row), (std::vector<size_t>{1, 4, 7}));
  EXPECT_EQ(searched_points(protocol, row, score), (std::vector<size_t>{1, 4, 7, 3, 5}));
  EXPECT_EQ(finalists_of(protocol, row, score), (std::vector<size_t>{3, 5}));
  EXPECT_EQ(chosen_of(protocol, row, score).point, 3u);
  const auto none = [](size_t, int64_t) { return NAN; };
  EXPECT_EQ(searched_points(protocol, row, none), (std::vector<size_t>{1, 4, 7}));
  EXPECT_FALSE(chosen_of(protocol, row, none).found);
  // Two rates and four values are as many runs as three of each.
  EXPECT_EQ(first_points(protocol, protocol.rows[1]), (std::vector<size_t>{2, 6}));
  EXPECT_CONTAINS(refusal(text, "search: line", "search: lines"), "use grid or line");
}

TEST(Protocol, DivergedPointsAreNeverChosen) {
  const auto protocol = parse_protocol(kProtocol, "p.yaml");
  const auto diverging = [](size_t point, int64_t seed) { return point == 1 || seed == 103 ? NAN : 10.0 + point; };
  EXPECT_FALSE(chosen_of(protocol, protocol.rows[0], diverging).found);  // every finalist fails for a seed
  const auto one_bad = [](size_t point, int64_t) { return point == 3 ? NAN : 10.0 + point; };
  EXPECT_EQ(chosen_of(protocol, protocol.rows[0], one_bad).point, 2u);
}

}  // namespace
}  // namespace asr
