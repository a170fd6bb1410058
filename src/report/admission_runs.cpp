#include "report/admission_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "report/choice.h"

namespace asr {
namespace {

using RunPointers = std::vector<const Run*>;
using AdmissionPoints = std::map<std::string, RunPointers>;  // runs of a setting, over seeds

std::string admission_row(const Run& run) {
  return run.label.substr(0, run.label.find(':'));
}

// What a run of the search and a tested run of the same setting have in common: a tested one is labelled ROW alone.
std::string admission_setting(const Run& run) {
  return fmt::format("{} {:.6g} {:.6g} {}", admission_row(run), run.rate, run.epochs, run.strength);
}

// Of the search: the row's name is left out where it is the method's.
std::string shown_setting(const Run& run, const std::string& method) {
  const auto row = admission_row(run);
  return row == method && run.label.size() > row.size() ? run.label.substr(row.size() + 1) : run.label;
}

AdmissionPoints admission_points(const RunPointers& runs, const std::string& split) {
  AdmissionPoints out;
  for (const Run* run : runs) {
    if (run->scored_split() != split) continue;
    check(std::isfinite(run->rate) && std::isfinite(run->epochs), run->folder,
          ": its learning_rate or num_train_epochs is not known, so its setting cannot be told from others");
    auto& point = out[admission_setting(*run)];
    check(point.empty() || point[0]->label == run->label, run->folder, ": '", printable(run->label, 200), "' and '",
          point.empty() ? "" : printable(point[0]->label, 200),
          "' have the same rate, epochs and strength; give what differs a row of its own");
    point.push_back(run);
  }
  return out;
}

std::vector<double> admission_scores(const RunPointers& runs, const std::string& metric) {
  std::vector<double> out;
  for (const Run* run : runs) out.push_back(run->score(metric));
  return out;
}

// The searched setting with the best score, among those that so many seeds have; of equal ones one that was tested.
std::string best_setting(const AdmissionPoints& searched, const AdmissionPoints& tested, const std::string& metric,
                         size_t seeds) {
  std::vector<ScoredPoint> points;
  for (const auto& [setting, runs] : searched)
    if (runs.size() >= seeds) points.push_back({setting, admission_scores(runs, metric)});
  const auto order = best_points(points, points.size());
  if (order.empty()) return "";
  const double best = points[order[0]].mean();
  for (const size_t i : order)
    if (points[i].mean() > best - 1e-9 && tested.count(points[i].name) > 0) return points[i].name;
  return points[order[0]].name;
}

// One side of the comparison.
struct AdmissionSide {
  std::string name;
  AdmissionPoints searched, tested;
  std::string best;  // setting, by AP on tune

  const Run& searched_run() const { return *searched.at(best)[0]; }
  const RunPointers& tests() const { return tested.at(best); }
};

AdmissionSide admission_side(const RunPointers& runs, const std::string& method, const std::string& split,
                             const std::string& table) {
  AdmissionSide out;
  out.name = method;
  out.searched = admission_points(runs, "tune");
  check(!out.searched.empty(), table, ": has no runs of ", method,
        " on tune, so it is not known at which setting it is best; add those of its search");
  out.tested = admission_points(runs, split);
  check(!out.tested.empty(), table, ": has no runs of ", method, " on ", split,
        "; add those of the setting that was chosen on tune");
  // The protocol gives its finalists more seeds than the rest, and chooses among them.
  size_t most = 0;
  for (const auto& point : out.searched) most = std::max(most, point.second.size());
  out.best = best_setting(out.searched, out.tested, "AP", most);
  check(!out.best.empty(), table, ": no run of ", method, " on tune has a score of AP");
  check(out.tested.count(out.best) > 0, table, ": ", method, " is best on tune at ",
        printable(shown_setting(out.searched_run(), method), 200), ", which has no runs on ", split, "; add them");
  return out;
}

// A verdict is of one stream, on one backbone, answered in one way.
void check_one_setting(const RunPointers& runs, const std::string& table) {
  const auto one = [&](const char* what, const std::function<std::string(const Run&)>& value) {
    std::set<std::string> seen;
    for (const Run* run : runs) seen.insert(value(*run));
    const std::vector<std::string> names(seen.begin(), seen.end());
    check(names.size() == 1, table, ": holds runs of several ", what, " (", printable(join(names, ", "), 300),
          "), and a verdict is of one; write those of one to a series of their own, with asr compare --csv");
  };
  one("streams", [](const Run& run) { return run.stream; });
  one("backbones", [](const Run& run) { return run.backbone; });
  one("heads", [](const Run& run) { return run.answer_head(); });
  one("held-out groups", [](const Run& run) { return run.held_out.empty() ? "none" : run.held_out; });
  one("task orders", [](const Run& run) { return std::to_string(run.order); });
}

// Of these seeds, in their order; none at all where one is missing.
RunPointers with_seeds(const RunPointers& runs, const std::vector<int64_t>& seeds) {
  RunPointers out;
  for (const int64_t seed : seeds)
    for (const Run* run : runs)
      if (run->seed == seed) out.push_back(run);
  return out.size() == seeds.size() ? out : RunPointers();
}

std::vector<int64_t> seeds_of_both(const RunPointers& a, const RunPointers& b) {
  std::set<int64_t> first, out;
  for (const Run* run : a) first.insert(run->seed);
  for (const Run* run : b)
    if (first.count(run->seed) > 0) out.insert(run->seed);
  return {out.begin(), out.end()};
}

std::vector<AdmissionSearch> what_was_searched(const AdmissionPoints& searched) {
  std::map<std::string, AdmissionSearch> rows;
  for (const auto& [setting, runs] : searched) {
    auto& row = rows[admission_row(*runs[0])];
    row.label = admission_row(*runs[0]);
    row.rates.push_back(runs[0]->rate);
    row.epochs.push_back(runs[0]->epochs);
    ++row.points;
    row.runs += runs.size();
    row.fewest_seeds = row.points == 1 ? runs.size() : std::min(row.fewest_seeds, runs.size());
    row.most_seeds = std::max(row.most_seeds, runs.size());
  }
  std::vector<AdmissionSearch> out;
  for (auto& [label, row] : rows) {
    for (auto* list : {&row.rates, &row.epochs}) {
      std::sort(list->begin(), list->end());
      list->erase(std::unique(list->begin(), list->end()), list->end());
    }
    out.push_back(std::move(row));
  }
  return out;
}

// A best rate at an end of the grid may have a better one beyond, which would move the verdict.
void note_end_of_rates(const AdmissionSide& side, AdmissionVerdict& verdict) {
  const Run& best = side.searched_run();
  for (const auto& row : verdict.searched)
    if (row.label == admission_row(best) && std::isfinite(rate_beyond(row.rates, best.rate)))
      verdict.notes.push_back(
          fmt::format("{} is best at the end of its rates, {:.6g}: a better one may lie beyond", row.label, best.rate));
}

std::string tested_split(const RunPointers& runs) {
  for (const char* split : {"test", "val"})
    for (const Run* run : runs)
      if (run->scored_split() == split) return split;
  return "test";
}

// Vanilla's best MFT: of the setting that had it on tune, tested with all these seeds; else that of tune itself.
struct BestMft {
  std::string setting;
  RunPointers runs;
  bool tested = false;
};

BestMft best_mft(const AdmissionSide& vanilla, const std::vector<int64_t>& seeds, const std::string& table) {
  BestMft out;
  out.setting = best_setting(vanilla.searched, vanilla.tested, "MFT", 1);
  check(!out.setting.empty(), table, ": no run of ", vanilla.name, " on tune has a score of MFT");
  const auto place = vanilla.tested.find(out.setting);
  if (place != vanilla.tested.end()) out.runs = with_seeds(place->second, seeds);
  out.tested = !out.runs.empty();
  if (!out.tested) out.runs = vanilla.searched.at(out.setting);
  return out;
}

struct AdmissionSides {
  AdmissionSide vanilla, joint;
};

// Rows of other ranks train other numbers. Runs that do not say are of their own.
bool trains_as_many(const Run& a, const Run& b) {
  const auto numbers = [](const Run& run) { return run.cost.adapter_parameters; };
  return admission_row(a) == admission_row(b) || numbers(a) == numbers(b);
}

// Fills in what the verdict is of, too.
AdmissionSides admission_sides(const std::vector<Run>& runs, const AdmissionMethods& methods,
                               AdmissionVerdict& verdict) {
  const auto& table = verdict.table;
  RunPointers vanilla, joint;
  const auto plain = std::find_if(runs.begin(), runs.end(), [&](const Run& run) {
    return run.complete && run.method == methods.vanilla && admission_row(run) == methods.vanilla;
  });
  for (const auto& run : runs) {
    if (!run.complete) continue;
    if (run.method == methods.joint) joint.push_back(&run);
    if (run.method == methods.vanilla && plain != runs.end() && trains_as_many(run, *plain)) vanilla.push_back(&run);
  }
  check(!vanilla.empty(), table, ": has no row '", methods.vanilla, "', which joint training is compared with");
  check(!joint.empty(), table, ": has no row of the method ", methods.joint,
        ", so it is not known what could be learnt at once");
  auto both = vanilla;
  both.insert(both.end(), joint.begin(), joint.end());
  check_one_setting(both, table);
  verdict.stream = both[0]->stream;
  verdict.backbone = both[0]->backbone;
  verdict.split = tested_split(both);
  return {admission_side(vanilla, methods.vanilla, verdict.split, table),
          admission_side(joint, methods.joint, verdict.split, table)};
}

}  // namespace

AdmissionVerdict judge_runs(const std::vector<Run>& runs, const std::string& table, const AdmissionMethods& methods) {
  AdmissionVerdict out;
  out.table = table;
  const auto [vanilla, joint] = admission_sides(runs, methods, out);
  out.searched = what_was_searched(vanilla.searched);
  for (auto& row : what_was_searched(joint.searched)) out.searched.push_back(std::move(row));
  const auto seeds = seeds_of_both(vanilla.tests(), joint.tests());
  check(!seeds.empty(), table, ": ", vanilla.name, " and ", joint.name, " share no seed on ", out.split,
        ", so they cannot be compared");
  const auto at_best = with_seeds(vanilla.tests(), seeds), joined = with_seeds(joint.tests(), seeds);
  const auto learnt = best_mft(vanilla, seeds, table);
  out.admission =
      judge_admission({admission_scores(joined, "zero_shot"), admission_scores(at_best, "AP"),
                       admission_scores(at_best, "AF"), admission_scores(at_best, "MFT"),
                       admission_scores(joined, "AP"), admission_scores(learnt.runs, "MFT"), learnt.tested});
  out.outside = paired_t(admission_scores(at_best, "outside"));
  out.vanilla = shown_setting(vanilla.searched_run(), vanilla.name);
  out.joint = shown_setting(joint.searched_run(), joint.name);
  out.learnt = shown_setting(*vanilla.searched.at(learnt.setting)[0], vanilla.name);
  out.learnt_split = learnt.tested ? out.split : "tune";
  out.seeds = seeds.size();
  for (const auto& row : out.searched) out.runs += row.runs;
  out.runs += at_best.size() + joined.size();
  if (learnt.tested && learnt.setting != vanilla.best) out.runs += learnt.runs.size();
  note_end_of_rates(vanilla, out);
  note_end_of_rates(joint, out);
  if (!learnt.tested)
    out.notes.push_back(cat(vanilla.name, "'s best MFT is that on tune, over ", learnt.runs.size(),
                            learnt.runs.size() == 1 ? " run" : " runs", ": its setting was not tested with these seeds",
                            out.seeds > 1 ? ", so its difference to joint's AP has no interval" : ""));
  const size_t apart = vanilla.tests().size() + joint.tests().size() - 2 * out.seeds;
  if (apart > 0)
    out.notes.push_back(cat("left out: ", apart, " runs on ", out.split, " whose seed only one of the two rows has"));
  return out;
}

}  // namespace asr
