#include "report/protocol.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "report/choice.h"

namespace asr {
namespace {

std::vector<std::string> list_values(const Assignment& a) {
  auto text = trimmed(a.value);
  check(text.size() >= 2 && text.front() == '[' && text.back() == ']', a.origin, ": ", a.key,
        " is not a list; write [a, b]");
  std::vector<std::string> out;
  std::istringstream parts(text.substr(1, text.size() - 2));
  for (std::string part; std::getline(parts, part, ',');) {
    out.push_back(trimmed(part));
    check(!out.back().empty(), a.origin, ": a value of ", a.key, " is empty");
    check(std::count(out.begin(), out.end(), out.back()) == 1, a.origin, ": ", printable(out.back()),
          " stands twice in ", a.key);
  }
  return out;
}

std::vector<std::string> grid_values(const Assignment& a) {
  auto out = list_values(a);
  check(out.size() > 1, a.origin, ": ", a.key, " is a grid of one value and leaves nothing to choose; give several");
  return out;
}

std::vector<int64_t> seed_list(const Assignment& a) {
  std::vector<int64_t> out;
  for (const auto& text : list_values(a)) {
    out.push_back(0);
    check(parse_int(text, out.back()) && out.back() >= 0, a.origin, ": ", printable(text), " in ", a.key,
          " is not a seed; use whole numbers from 0 on");
  }
  check(!out.empty(), a.origin, ": ", a.key, " is empty");
  return out;
}

bool yes_or_no(const Assignment& a) {
  check(a.value == "yes" || a.value == "no", a.origin, ": ", a.key, ": '", printable(a.value),
        "' is neither yes nor no");
  return a.value == "yes";
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> out;
  for (std::string word; stream >> word;) out.push_back(word);
  return out;
}

// "route against er", "route against er on world-hue world-rule".
std::vector<Contrast> contrast_list(const Assignment& a) {
  std::vector<Contrast> out;
  for (const auto& text : list_values(a)) {
    const auto words = words_of(text);
    check(words.size() >= 3 && words[1] == "against" && words.size() != 4 && (words.size() == 3 || words[3] == "on"),
          a.origin, ": '", printable(text), "' is no contrast; write LABEL against LABEL, or ... on STREAM STREAM");
    Contrast contrast{words[0], words[2], {}};
    if (words.size() > 4) contrast.streams.assign(words.begin() + 4, words.end());
    out.push_back(std::move(contrast));
  }
  return out;
}

SearchForm search_form(const Assignment& a) {
  for (const auto form : {SearchForm::grid, SearchForm::line})
    if (a.value == enum_name(form)) return form;
  fail(a.origin, ": search: '", printable(a.value), "' is no form of a search; use grid or line");
}

ProtocolRow& row_named(Protocol& protocol, const std::string& label) {
  for (auto& row : protocol.rows)
    if (row.label == label) return row;
  protocol.rows.push_back({});
  protocol.rows.back().label = label;
  return protocol.rows.back();
}

void set_row(Protocol& protocol, const Assignment& a) {
  const auto dot = a.key.find('.', 5);
  check(dot != std::string::npos && dot > 5, a.origin, ": ", a.key,
        " is no row; write rows, a label below it, and its keys below that");
  const auto label = a.key.substr(5, dot - 5), name = a.key.substr(dot + 1);
  auto& row = row_named(protocol, label);
  if (name == "method")
    row.method = a.value;
  else if (name.rfind("set.", 0) == 0)
    row.sets.push_back({name.substr(4), a.value, a.origin});
  else if (name == "rates")
    row.rates = grid_values(a);
  else if (name == "strength")
    row.strength = a.value;
  else if (name == "values")
    row.values = grid_values(a);
  else
    fail(a.origin, ": '", printable(name), "' is no key of a row",
         did_you_mean(name, {"method", "set", "rates", "strength", "values"}));
}

// The search fills in these itself. A row that set them could choose by what it is tested on, or by other samples.
void check_free(const ProtocolRow& row, const std::string& place) {
  const std::set<std::string> taken = {"method", "label", "learning_rate", "seeds", "eval_split", "output_dir"};
  check(taken.count(row.strength) == 0, place, ": strength cannot be ", row.strength, "; the protocol sets it");
  const auto of_all = [](const std::string& key) {
    return key.rfind("stream.", 0) == 0 || key == "model_name_or_path";
  };
  check(!of_all(row.strength), place, ": strength cannot be ", row.strength, "; all rows share stream and model");
  for (const auto& set : row.sets)
    check(!of_all(set.key), set.origin, ": row '", printable(row.label), "' cannot set ", set.key,
          "; all rows share stream and model");
  for (const auto& set : row.sets)
    check(taken.count(set.key) == 0, set.origin, ": row '", printable(row.label), "' cannot set ", set.key,
          "; the protocol sets it");
}

void check_rows(const Protocol& protocol) {
  check(!protocol.rows.empty(), protocol.path, ": has no rows");
  for (const auto& row : protocol.rows) {
    const auto place = cat(protocol.path, ": row '", printable(row.label), "'");
    check(row.label.find_first_of(":@/") == std::string::npos, place, ": a label must not hold ':', '@' or '/'");
    check(!row.method.empty(), place, " has no method");
    check(!row.rates.empty(), place, " has no rates");
    check(!row.strength.empty() && !row.values.empty(), place,
          " has no strength with values; where the method has none, write strength: num_train_epochs");
    check_free(row, place);
    const size_t own = protocol.budget(row), first = protocol.budget(protocol.rows[0]);
    check(own == first, place, " searches ", own, " points but '", protocol.rows[0].label, "' ", first,
          "; every row must have the same budget");
  }
}

void check_seeds(const Protocol& protocol) {
  check(!protocol.tuning_seeds.empty(), protocol.path, ": has no tuning_seeds");
  check(protocol.test_seeds.size() > 1, protocol.path, ": has no test_seeds; give at least two, six are better");
  for (const int64_t seed : protocol.tuning_seeds)
    check(std::count(protocol.test_seeds.begin(), protocol.test_seeds.end(), seed) == 0, protocol.path, ": seed ", seed,
          " is for tuning and for testing; use other seeds for the test");
}

void check_contrasts(const Protocol& protocol) {
  std::vector<std::string> labels;
  std::set<std::string> seen;
  for (const auto& row : protocol.rows) labels.push_back(row.label);
  for (const auto& contrast : protocol.contrasts) {
    for (const auto& label : {contrast.label, contrast.against})
      check(std::count(labels.begin(), labels.end(), label) > 0, protocol.path, ": a contrast names '",
            printable(label), "', which is no row", did_you_mean(label, labels));
    check(seen.insert(contrast.name()).second, protocol.path, ": the contrast '", contrast.name(), "' stands twice");
  }
}

}  // namespace

std::string Contrast::name() const {
  return cat(label, " against ", against, streams.empty() ? "" : " on " + join(streams, " "));
}

std::vector<GridPoint> ProtocolRow::points() const {
  std::vector<GridPoint> out;
  for (const auto& rate : rates)
    for (const auto& value : values)
      out.push_back({{"learning_rate", rate, "the protocol"}, {strength, value, "the protocol"}});
  return out;
}

size_t Protocol::budget(const ProtocolRow& row) const {
  const size_t rates = row.rates.size(), values = row.values.size();
  return search == SearchForm::grid ? rates * values : rates + values - 1;
}

const ProtocolRow* Protocol::row(const std::string& label) const {
  const auto wanted = label.substr(0, label.find(':'));
  for (const auto& row : rows)
    if (row.label == wanted) return &row;
  return nullptr;
}

Protocol parse_protocol(const std::string& text, const std::string& path) {
  Protocol out;
  out.path = path;
  for (const auto& a : parse_yaml_options(text, path)) {
    if (a.key.rfind("rows.", 0) == 0)
      set_row(out, a);
    else if (a.key == "tuning_seeds")
      out.tuning_seeds = seed_list(a);
    else if (a.key == "test_seeds")
      out.test_seeds = seed_list(a);
    else if (a.key == "finalists")
      check(parse_int(a.value, out.finalists) && out.finalists > 0, a.origin, ": finalists is not a number from 1 on");
    else if (a.key == "search")
      out.search = search_form(a);
    else if (a.key == "contrasts")
      out.contrasts = contrast_list(a);
    else if (a.key == "primary")
      out.primary = yes_or_no(a);
    else
      fail(a.origin, ": '", printable(a.key), "' is no key of a protocol",
           did_you_mean(a.key, {"rows", "tuning_seeds", "test_seeds", "finalists", "search", "contrasts", "primary"}));
  }
  check_rows(out);
  check_seeds(out);
  check_contrasts(out);
  return out;
}

namespace {

// The best of the given points by the first tuning seed, best first.
std::vector<size_t> best_of(const std::vector<size_t>& points, size_t count, const Protocol& protocol,
                            const PointScore& score) {
  std::vector<ScoredPoint> scored(points.size());
  for (size_t i = 0; i < points.size(); ++i) scored[i].scores = {score(points[i], protocol.tuning_seeds[0])};
  std::vector<size_t> out;
  for (const size_t i : best_points(scored, count)) out.push_back(points[i]);
  return out;
}

}  // namespace

std::vector<size_t> first_points(const Protocol& protocol, const ProtocolRow& row) {
  std::vector<size_t> out;
  const bool line = protocol.search == SearchForm::line;
  for (size_t rate = 0; rate < row.rates.size(); ++rate)
    for (size_t value = 0; value < row.values.size(); ++value)
      if (!line || value == row.values.size() / 2) out.push_back(row.point_at(rate, value));
  return out;
}

std::vector<size_t> searched_points(const Protocol& protocol, const ProtocolRow& row, const PointScore& score) {
  auto out = first_points(protocol, row);
  if (protocol.search == SearchForm::grid) return out;
  const auto best = best_of(out, 1, protocol, score);
  if (best.empty()) return out;  // every rate diverged
  for (size_t value = 0; value < row.values.size(); ++value)
    if (value != row.values.size() / 2) out.push_back(row.point_at(best[0] / row.values.size(), value));
  return out;
}

std::vector<size_t> finalists_of(const Protocol& protocol, const ProtocolRow& row, const PointScore& score) {
  return best_of(searched_points(protocol, row, score), static_cast<size_t>(protocol.finalists), protocol, score);
}

ChosenPoint chosen_of(const Protocol& protocol, const ProtocolRow& row, const PointScore& score) {
  const auto finalists = finalists_of(protocol, row, score);
  std::vector<ScoredPoint> points;
  for (const size_t i : finalists) {
    points.push_back({});
    for (const int64_t seed : protocol.tuning_seeds) points.back().scores.push_back(score(i, seed));
  }
  const auto best = best_points(points, 1);
  if (best.empty()) return {};
  return {finalists[best[0]], points[best[0]].mean(), true};
}

}  // namespace asr
