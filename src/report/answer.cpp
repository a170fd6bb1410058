#include "report/answer.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text.h"

namespace asr {
namespace {

Spread spread_of_ap(const Group& group) {
  std::vector<double> values;
  for (const Run* run : group.runs) values.push_back(run->score("AP"));
  return spread_of(values);
}

bool better(const Group& group, const Group* than) {
  return !than || spread_of_ap(group).mean > spread_of_ap(*than).mean;
}

// "(95 % interval 96..99 over 3 runs)", or nothing for a single run.
std::string interval_words(const Spread& spread) {
  if (!spread.interval.known()) return "";
  return fmt::format(" ({:.0f}..{:.0f}, {} runs)", spread.interval.low, spread.interval.high, spread.n);
}

std::string kept_words(const Group& group) {
  const Spread kept = kept_percent(group);
  const double ap = spread_of_ap(group).mean;
  if (kept.n == 0) return fmt::format("ends at AP {:.1f}", ap);
  return fmt::format("keeps {:.0f} %{} of what it learnt and ends at AP {:.1f}", kept.mean, interval_words(kept), ap);
}

bool any_interval(const Answer& answer) {
  for (const Group* group : {answer.best, answer.baseline, answer.with_data})
    if (group && kept_percent(*group).interval.known()) return true;
  return false;
}

}  // namespace

double kept_percent(const Run& run) {
  const auto& rows = run.matrix.rows;
  if (run.joint() || rows.size() < 2) return kUnknown;
  double learnt = 0, left = 0;
  for (size_t b = 0; b + 1 < rows.size(); ++b) {
    if (!std::isfinite(rows[b][b]) || !std::isfinite(rows.back()[b])) continue;
    learnt += rows[b][b];
    left += rows.back()[b];
  }
  return learnt > 0 ? 100 * left / learnt : kUnknown;
}

Spread kept_percent(const Group& group) {
  std::vector<double> values;
  for (const Run* run : group.runs) values.push_back(kept_percent(*run));
  return spread_of(values);
}

Answer answer_of(const ComparisonTable& table) {
  Answer out;
  const Group* with_data = nullptr;
  for (const auto& group : table.groups) {
    if (group.zero_shot || group.unfinished) continue;
    if (group.joint) {
      if (better(group, out.joint)) out.joint = &group;
      continue;
    }
    const Group*& place = group.replay_free ? out.best : with_data;
    if (better(group, place)) place = &group;
    if (group.label == table.baseline) out.baseline = &group;
  }
  if (!out.best) out.best = with_data;
  if (with_data && with_data != out.best && better(*with_data, out.best)) out.with_data = with_data;
  return out;
}

std::string answer_sentence(const ComparisonTable& table) {
  const Answer answer = answer_of(table);
  if (!answer.best && !answer.joint) return "No complete run yet: what follows is over the stages done so far.";
  std::vector<std::string> parts;
  const bool baseline_wins = answer.best && answer.best == answer.baseline;
  const std::string baseline = printable(table.baseline_words, 60);
  if (answer.best)
    parts.push_back((baseline_wins ? baseline : printable(answer.best->label, 60)) + " " + kept_words(*answer.best));
  if (answer.baseline && !baseline_wins) parts.push_back(baseline + " " + kept_words(*answer.baseline));
  if (answer.with_data)
    parts.push_back(printable(answer.with_data->label, 60) + ", which keeps old data, " +
                    kept_words(*answer.with_data));
  if (answer.joint)
    parts.push_back(fmt::format("{} reaches AP {:.1f}",
                                answer.best ? "joint training" : printable(answer.joint->label, 60),
                                spread_of_ap(*answer.joint).mean));
  std::string out = join(parts, "; ") + ".";
  if (answer.best && !answer.baseline)
    out += " Not among these runs: '" + printable(table.baseline, 60) + "', to compare with.";
  const bool others = table.groups.size() > (table.groups[0].zero_shot ? 2u : 1u) + (answer.joint ? 1u : 0u);
  if (baseline_wins && others) out += " No label without old data is better.";
  if (answer.best) out += any_interval(answer) ? " In brackets: 95 % intervals." : " One run each: no interval.";
  return out;
}

}  // namespace asr
