#include "report/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "base/error.h"
#include "base/text.h"
#include "report/braking.h"
#include "report/contrasts.h"
#include "report/novel_means.h"
#include "report/sample_difference.h"

namespace asr {
namespace {

// Means of tasks are only comparable over the same tasks, and a matrix only over the same order of them.
void check_tasks(const std::vector<const Run*>& runs) {
  const auto sorted = [](std::vector<std::string> tasks) {
    std::sort(tasks.begin(), tasks.end());
    return tasks;
  };
  std::map<std::pair<bool, int64_t>, const Run*> first_of_order;  // joint runs have no order of their own
  for (const Run* run : runs) {
    const auto shown = [](const Run* r) { return cat(r->folder, " (", printable(join(r->tasks, ", "), 300), ")"); };
    check(sorted(run->tasks) == sorted(runs[0]->tasks), "runs on ", run->stream,
          " differ in their tasks: ", shown(runs[0]), " and ", shown(run), "; compare them separately");
    const Run* other = first_of_order.emplace(std::make_pair(run->joint(), run->order), run).first->second;
    check(run->tasks == other->tasks, "both are order ", run->order,
          " but their tasks stand in another order: ", shown(other), " and ", shown(run), "; compare them separately");
  }
}

// Those that have the tasks, and in an order the sequence, of the first one; the others are named.
std::vector<const Run*> alike(const std::vector<const Run*>& runs, std::vector<std::string>& skipped) {
  std::vector<const Run*> out;
  for (const Run* run : runs) {
    out.push_back(run);
    try {
      check_tasks(out);
    } catch (const Error& error) {
      out.pop_back();
      skipped.push_back(cat(run->folder, ": ", error.what()));
    }
  }
  return out;
}

// Forgetting has no meaning where all tasks are learnt at once; a zero there would look like a perfect score.
double score_shown(const Run& run, const std::string& metric) {
  const bool undefined = run.joint() && metric != "AP" && metric != "Last" && metric != "outside";
  return undefined ? kUnknown : run.score(metric);
}

Group make_group(std::vector<const Run*> runs, const std::vector<std::string>& metrics, ComparisonTable& table) {
  std::sort(runs.begin(), runs.end(),
            [](const Run* a, const Run* b) { return std::tie(a->order, a->seed) < std::tie(b->order, b->seed); });
  Group group;
  group.label = runs[0]->label;
  group.joint = runs[0]->joint();
  group.unfinished = !runs[0]->complete;
  for (const Run* run : runs) {
    if (run->replay_free != runs[0]->replay_free)
      table.notes.push_back("runs of '" + group.label + "' differ in replay_free; shown as not replay-free");
    group.replay_free = group.replay_free && run->replay_free;
  }
  for (const auto& metric : metrics) {
    std::vector<double> values;
    for (const Run* run : runs) values.push_back(score_shown(*run, metric));
    group.scores.push_back(spread_of(values));
  }
  group.runs = std::move(runs);
  return group;
}

// The untrained model: every run measured it, mostly with the same result, so an interval over runs would say nothing.
Group zero_shot_group(const std::vector<const Run*>& runs, const std::vector<std::string>& metrics) {
  // Runs of one seed asked the same samples of the same model: they are one measurement.
  std::map<std::tuple<int64_t, int64_t, std::string>, std::vector<double>> asked;
  for (const Run* run : runs) {
    const double score = run->score("zero_shot");
    if (std::isfinite(score)) asked[{run->seed, run->order, run->held_out}].push_back(score);
  }
  std::vector<double> values;
  for (const auto& [draw, scores] : asked) values.push_back(spread_of(scores).mean);
  Group group;
  group.label = "zero-shot";
  group.zero_shot = true;
  Spread spread = spread_of(values);
  if (!(spread.deviation > 0.005)) spread.deviation = kUnknown;
  spread.interval = {};
  for (const auto& metric : metrics) group.scores.push_back(metric == "AP" || metric == "Last" ? spread : Spread());
  return group;
}

std::vector<std::pair<const Run*, const Run*>> pairs_of(const Group& group, const Group& baseline) {
  std::vector<std::pair<const Run*, const Run*>> out;
  for (const Run* run : group.runs)
    for (const Run* base : baseline.runs)
      if (run->seed == base->seed && run->order == base->order && run->held_out == base->held_out)
        out.emplace_back(run, base);
  return out;
}

// With a protocol, Student's t over seeds; else resampled pairs, or samples where there are fewer than three pairs.
Difference make_difference(const Group& group, const Group& baseline, const CompareOptions& options,
                           ComparisonTable& table) {
  const auto& metrics = options.metrics;
  const bool by_student = options.protocol != nullptr;
  const auto pairs = pairs_of(group, baseline);
  Difference out;
  out.label = group.label;
  out.pairs = static_cast<int>(pairs.size());
  out.intervals.resize(metrics.size());
  for (size_t m = 0; m < metrics.size(); ++m) {
    std::vector<double> values;
    for (const auto& [run, base] : pairs)
      values.push_back(score_shown(*run, metrics[m]) - score_shown(*base, metrics[m]));
    const Spread spread = spread_of(values);
    out.mean.push_back(spread.mean);
    if (by_student) {
      const auto test = paired_t(values);
      out.intervals[m] = test.interval;
      out.over = IntervalOver::student;
      if (metrics[m] == "AP") out.words = in_words(test, test.interval.excludes_zero());
    } else if (pairs.size() >= 3 && spread.n == out.pairs) {
      out.intervals[m] = spread.interval;
      out.over = IntervalOver::pairs;
    }
  }
  if (pairs.empty())
    table.notes.push_back(
        cat("'", group.label, "' shares no seed and order with '", baseline.label, "': no difference is given"));
  const auto ap = std::find(metrics.begin(), metrics.end(), "AP");
  if (pairs.empty() || pairs.size() >= 3 || ap == metrics.end() || table.means || by_student) return out;
  const auto samples = sample_difference(pairs);
  if (!samples.note.empty()) table.notes.push_back(cat("'", group.label, "': ", samples.note));
  if (samples.interval.known()) {
    out.over = IntervalOver::samples;
    out.intervals[static_cast<size_t>(ap - metrics.begin())] = samples.interval;
  }
  return out;
}

void add_differences(ComparisonTable& table, const CompareOptions& options) {
  const auto& wanted = table.baseline;
  const Group* baseline = table.group(wanted);
  if (!baseline || baseline->unfinished) {
    if (!options.against.empty())
      table.notes.push_back(cat("no complete run of '", wanted, "' here: no differences are given"));
    return;
  }
  table.against = wanted;
  for (const auto& group : table.groups)
    if (!group.zero_shot && !group.unfinished && group.label != wanted)
      table.differences.push_back(make_difference(group, *baseline, options, table));
}

ComparisonTable make_table(const std::vector<const Run*>& runs, const CompareOptions& options) {
  ComparisonTable table;
  table.stream = runs[0]->stream;
  table.backbone = runs[0]->backbone;
  table.held_out = runs[0]->held_out;
  table.split = runs[0]->scored_split();
  table.head = runs[0]->answer_head();
  table.baseline = options.against.empty() ? "vanilla" : options.against;
  table.baseline_words = options.against.empty() ? "plain fine-tuning" : options.against;
  table.means = runs[0]->folder.empty();
  if (!table.means) check_tasks(runs);
  std::map<std::string, std::vector<const Run*>> labels;
  for (const Run* run : runs) labels[run->label].push_back(run);
  const auto zero_shot = zero_shot_group(runs, options.metrics);
  const auto known = [](const Spread& spread) { return spread.n > 0; };
  if (std::any_of(zero_shot.scores.begin(), zero_shot.scores.end(), known)) table.groups.push_back(zero_shot);
  const auto rank = [&](const std::string& label) {
    return label == table.baseline ? 0 : labels[label][0]->joint() ? 2 : 1;
  };
  for (int wanted = 0; wanted < 3; ++wanted)
    for (const auto& [label, members] : labels)
      if (rank(label) == wanted) table.groups.push_back(make_group(members, options.metrics, table));
  add_differences(table, options);
  return table;
}

}  // namespace

const Group* ComparisonTable::group(const std::string& label) const {
  for (const auto& member : groups)
    if (member.label == label && !member.zero_shot) return &member;
  return nullptr;
}

int ComparisonTable::style_of(const std::string& label) const {
  const auto place = styles.find(label.substr(0, label.find(':')));
  return place == styles.end() ? 0 : place->second;
}

std::string table_title(const ComparisonTable& table) {
  const std::string group = table.held_out.empty() ? "" : cat(", ", table.held_out, " held out");
  return cat(table.stream, table.means ? cat(", ", table.held_out) : group, ", ", table.backbone,
             table.head == "generate" ? "" : cat(", head ", table.head),
             table.split == "val" ? "" : cat(", split ", table.split));
}

namespace {

// In the order of the tables, so that the baseline has the first colour.
void choose_styles(std::vector<ComparisonTable>& tables) {
  std::map<std::string, int> styles;
  for (const auto& table : tables)
    for (const auto& group : table.groups)
      if (!group.zero_shot)
        styles.emplace(group.label.substr(0, group.label.find(':')), static_cast<int>(styles.size()));
  for (auto& table : tables) table.styles = styles;
}

struct SearchSpent {
  size_t points = 0, runs = 0;
  std::map<std::string, std::set<double>> values;  // by option, those that are numbers
};

// Which of these is the least or the largest of what was tried: a better one may lie beyond.
std::string ends_of(const SearchSpent& spent, const std::vector<std::string>& chosen) {
  std::string out;
  for (const auto& setting : chosen) {
    const auto equals = setting.find('=');
    const auto tried = spent.values.find(setting.substr(0, equals));
    double value = 0;
    if (equals == std::string::npos || tried == spent.values.end() || tried->second.size() < 2) continue;
    if (!parse_double(setting.substr(equals + 1), value)) continue;
    const bool low = value == *tried->second.begin(), high = value == *tried->second.rbegin();
    if (low || high)
      out +=
          cat("; ", tried->first == "learning_rate" ? "rate" : tried->first, " at the ", low ? "low" : "high", " end");
  }
  return out;
}

void note_search(const ComparisonTable& search, ComparisonTable& table) {
  std::map<std::string, SearchSpent> spent;  // by label
  for (const auto& group : search.groups) {
    const auto colon = group.label.find(':');
    if (colon == std::string::npos) continue;
    auto& own = spent[group.label.substr(0, colon)];
    ++own.points;
    own.runs += group.runs.size();
    std::istringstream point(group.label.substr(colon + 1));
    for (std::string setting; std::getline(point, setting, ',');) {
      const auto equals = setting.find('=');
      double value = 0;
      if (equals != std::string::npos && parse_double(setting.substr(equals + 1), value))
        own.values[setting.substr(0, equals)].insert(value);
    }
  }
  for (const auto& [label, own] : spent) {
    auto& text = table.searched[label];
    text = cat(own.points, " points, ", own.runs, " runs");
    for (const auto& group : table.groups) {
      if (group.label != label) continue;
      const auto chosen = row_settings(group);
      text += ends_of(own, {"learning_rate=" + chosen.rate, chosen.strength});
    }
  }
}

// The tables of the search say how each row lies against the baseline's curve over rates, and step aside.
void apply_protocol(Comparison& comparison, const Protocol& protocol) {
  comparison.by_protocol = true;
  comparison.primary = protocol.primary;
  std::vector<ComparisonTable> reported;
  for (auto& table : comparison.tables)
    (table.split == "tune" ? comparison.searches : reported).push_back(std::move(table));
  comparison.tables = std::move(reported);
  check(!comparison.tables.empty(),
        "every run was scored on the split tune, which is never reported; add runs of test");
  for (auto& table : comparison.tables)
    for (const auto& search : comparison.searches) {
      if (search.stream != table.stream || search.backbone != table.backbone || search.head != table.head) continue;
      for (const auto& row : brake_rows(search, table.baseline))
        table.places[row.point.label] = row.words(table.baseline);
      note_search(search, table);
    }
  comparison.contrasts = contrast_results(comparison.tables, protocol);
}

}  // namespace

Comparison compare_runs(const RunSet& set, const CompareOptions& asked) {
  CompareOptions options = asked;
  if (options.metrics.empty()) {
    options.metrics = {"AP", "AF", "Avg", "BWT", "MFT"};
    if (std::any_of(set.runs.begin(), set.runs.end(), [](const Run& run) { return run.novel.stages() > 0; }))
      options.metrics.insert(options.metrics.end(), {"AP_novel", "AF_novel"});
    if (std::any_of(set.runs.begin(), set.runs.end(), [](const Run& run) { return std::isfinite(run.outside); }))
      options.metrics.emplace_back("outside");
  }
  Comparison out;
  out.metrics = options.metrics;
  out.skipped = set.skipped;
  out.notes = set.notes;
  std::map<std::tuple<std::string, std::string, std::string, std::string, std::string>, std::vector<const Run*>> tables;
  std::vector<std::string> labels;
  for (const auto& run : set.runs) {
    tables[{run.stream, run.backbone, run.held_out, run.answer_head(), run.scored_split()}].push_back(&run);
    if (run.complete) labels.push_back(run.label);
  }
  check(options.against.empty() || std::count(labels.begin(), labels.end(), options.against) > 0, "--against ",
        printable(options.against), ": no complete run has this label", did_you_mean(options.against, labels));
  for (const auto& [key, runs] : tables)
    out.tables.push_back(make_table(options.skip_mixed ? alike(runs, out.skipped) : runs, options));
  for (auto& means : novel_means(set.runs)) {
    std::vector<const Run*> runs;
    for (const auto& run : means.runs) {
      runs.push_back(run.get());
      out.mean_runs.push_back(run);
    }
    auto table = make_table(runs, options);
    table.held_out = means.over;
    table.notes.insert(table.notes.begin(), means.notes.begin(), means.notes.end());
    out.tables.push_back(std::move(table));
  }
  choose_styles(out.tables);
  if (options.protocol) apply_protocol(out, *options.protocol);
  return out;
}

std::vector<std::string> parse_metric_list(const std::string& text) {
  static const std::vector<std::string> known = {"AP",  "AF",       "AF_vqacl", "Last",           "Avg",    "BWT",
                                                 "MFT", "AP_novel", "AF_novel", "AF_novel_vqacl", "outside"};
  std::vector<std::string> out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string name = text.substr(begin, end - begin);
    check(std::count(known.begin(), known.end(), name) > 0, "--metric ", printable(text), ": '", printable(name),
          "' is not a score", did_you_mean(name, known));
    if (std::count(out.begin(), out.end(), name) == 0) out.push_back(name);
    begin = end + 1;
  }
  return out;
}

}  // namespace asr
