#include "report/contrasts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "report/compare.h"

namespace asr {
namespace {

const Group* group_labelled(const ComparisonTable& table, const std::string& label) {
  for (const auto& group : table.groups)
    if (group.label == label && !group.zero_shot && !group.unfinished) return &group;
  return nullptr;
}

std::vector<double> paired_ap(const Group& group, const Group& baseline) {
  std::vector<double> out;
  for (const Run* run : group.runs)
    for (const Run* base : baseline.runs)
      if (run->seed == base->seed && run->order == base->order && run->held_out == base->held_out)
        out.push_back(run->score("AP") - base->score("AP"));
  return out;
}

bool concerns(const Contrast& contrast, const ComparisonTable& table) {
  if (table.means || table.split == "tune") return false;
  return contrast.streams.empty() || std::count(contrast.streams.begin(), contrast.streams.end(), table.stream) > 0;
}

template <class Value>
std::string one_of(const Group& group, Value value) {
  std::set<std::string> seen;
  for (const Run* run : group.runs) seen.insert(value(*run));
  return seen.empty() ? "" : seen.size() == 1 ? *seen.begin() : "several";
}

}  // namespace

std::string in_words(const MeanTest& test, bool differs) {
  if (std::isnan(test.mean)) return "not measured";
  if (std::isnan(test.p) && test.mean != 0) return "not tested";
  return !differs ? "no difference seen" : test.mean > 0 ? "better" : "worse";
}

namespace {

// A mean over settings must not hide one of them that says the opposite.
std::string with_exceptions(const ContrastResult& result, bool differs) {
  const auto overall = in_words(result.overall, differs);
  auto out = overall;
  if (!differs) return out;
  for (const auto& [setting, test] : result.settings)
    if (test.interval.excludes_zero() && in_words(test, true) != overall)
      out += "; " + in_words(test, true) + " on " + setting;
  return out;
}

}  // namespace

std::vector<ContrastResult> contrast_results(const std::vector<ComparisonTable>& tables, const Protocol& protocol) {
  std::vector<ContrastResult> out;
  std::vector<double> p;
  for (const auto& contrast : protocol.contrasts) {
    ContrastResult result;
    result.contrast = contrast;
    std::vector<std::vector<double>> settings;
    for (const auto& table : tables) {
      if (!concerns(contrast, table)) continue;
      const Group *group = group_labelled(table, contrast.label), *base = group_labelled(table, contrast.against);
      if (!group || !base) continue;
      settings.push_back(paired_ap(*group, *base));
      result.settings.push_back({table_title(table), paired_t(settings.back())});
    }
    result.overall = overall_t(settings);
    p.push_back(result.overall.p);
    out.push_back(std::move(result));
  }
  const auto adjusted = protocol.primary ? holm(p) : std::vector<double>(p.size(), kUnknown);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].adjusted = adjusted[i];
    // Exploratory ones are worded as all exploratory differences are: by the interval.
    const bool differs = protocol.primary ? out[i].significant() : out[i].overall.interval.excludes_zero();
    out[i].words = with_exceptions(out[i], differs);
  }
  return out;
}

RowSettings row_settings(const Group& group) {
  const auto text = [](double value) { return std::isfinite(value) ? fmt::format("{:.6g}", value) : std::string(); };
  const auto mean = [&](double RunCost::*field) {
    std::vector<double> values;
    for (const Run* run : group.runs) values.push_back(run->cost.*field);
    return spread_of(values).mean;
  };
  RowSettings out;
  out.rate = one_of(group, [&](const Run& run) { return text(run.rate); });
  out.strength = one_of(group, [](const Run& run) { return run.strength; });
  out.epochs = one_of(group, [&](const Run& run) { return text(run.epochs); });
  out.parameters = mean(&RunCost::adapter_parameters);
  out.bytes = mean(&RunCost::stored_bytes);
  out.passes = mean(&RunCost::passes);
  return out;
}

}  // namespace asr
