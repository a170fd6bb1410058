// The fair protocol as a file says it (configs/protocol.yaml): what is searched for each row, with which seeds, and
// which contrasts are fixed beforehand. docs/protocol.md gives the reasons.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/options.h"

namespace asr {

using GridPoint = std::vector<Assignment>;  // learning_rate and the strength

struct ProtocolRow {
  std::string label, method;
  std::vector<Assignment> sets;  // beside the method, the same at every point
  std::vector<std::string> rates;
  std::string strength;  // the option that says how strongly the method acts; num_train_epochs where it has none
  std::vector<std::string> values;

  std::vector<GridPoint> points() const;  // rates x values
  size_t point_at(size_t rate, size_t value) const { return rate * values.size() + value; }
};

// All points of a row's grid; or a line through it: every rate at the middle one of the values, then the other values
// at the best of the rates.
enum class SearchForm { grid, line };
template <>
struct EnumNames<SearchForm> {
  static constexpr const char* names[] = {"grid", "line"};
};

// Two rows whose difference in AP was named before anything was run.
struct Contrast {
  std::string label, against;
  std::vector<std::string> streams;  // on which; none: all
  std::string name() const;          // "route against er on world-hue"
};

struct Protocol {
  std::string path;
  std::vector<ProtocolRow> rows;
  std::vector<int64_t> tuning_seeds, test_seeds;  // the first tuning seed searches, the others judge the finalists
  int64_t finalists = 3;
  SearchForm search = SearchForm::grid;
  std::vector<Contrast> contrasts;
  bool primary = true;  // the contrasts are a family fixed beforehand; no: they are exploratory and get no stars

  const ProtocolRow* row(const std::string& label) const;  // also of "LABEL:POINT", a run of the search; null: none
  size_t budget(const ProtocolRow& row) const;             // points that its search runs
};

// A row without a strength, a grid of one value, rows that search differently many points, seeds that stand twice or
// both tune and test, and unknown names are errors that name the line or the row.
Protocol parse_protocol(const std::string& text, const std::string& path);

// The score on the tuning split; NaN where the run diverged.
using PointScore = std::function<double(size_t point, int64_t seed)>;

// Points of the row's grid that the search runs with the first tuning seed: those that need no score before them, and
// all of them once the scores of these are known.
std::vector<size_t> first_points(const Protocol& protocol, const ProtocolRow& row);
std::vector<size_t> searched_points(const Protocol& protocol, const ProtocolRow& row, const PointScore& score);

// Points that are given the other tuning seeds, best first; and the one with the best mean over all tuning seeds.
std::vector<size_t> finalists_of(const Protocol& protocol, const ProtocolRow& row, const PointScore& score);
struct ChosenPoint {
  size_t point = 0;
  double mean = 0;
  bool found = false;  // not where every run diverged
};
ChosenPoint chosen_of(const Protocol& protocol, const ProtocolRow& row, const PointScore& score);

}  // namespace asr
