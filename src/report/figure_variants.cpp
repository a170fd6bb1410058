// Ablations and design variants: runs of the same method under other labels, relative to the one that bears the
// method's own name, over runs paired by seed and order. What a variant changes, as its options say, puts it into one
// of the paper's groups.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "report/bars.h"
#include "report/data_csv.h"
#include "report/figures.h"
#include "report/markup.h"
#include "report/svg.h"

namespace asr {
namespace {

enum class VariantKind { ablation, spectrum, prototypes, regularization, other };
const char* const kKindNames[] = {"Single-factor ablations", "Spectrum design", "Prototype design",
                                  "Regularization design", "Other variants"};

// An option that differs from the full method's, by the end of its name, and what that makes of a variant. An empty
// value stands for every one; a single prototype for all skills is both an ablation and a design.
struct VariantRule {
  const char *option, *value;
  VariantKind kind;
};
const VariantRule kRules[] = {
    {".beta", "0", VariantKind::ablation},
    {".gamma", "0", VariantKind::ablation},
    {".lambda_ang", "0", VariantKind::ablation},
    {".prototypes", "global", VariantKind::ablation},
    {".weighting", "one", VariantKind::ablation},
    {".spectrum", "", VariantKind::spectrum},
    {".prototypes", "", VariantKind::prototypes},
    {".skill", "", VariantKind::regularization},
    {".weighting", "fixed", VariantKind::regularization},
};

std::vector<VariantKind> kinds_of(const Run& variant, const Run& full) {
  std::vector<VariantKind> out;
  for (const auto& [key, value] : variant.options) {
    if (full.option(key) == value) continue;
    for (const auto& rule : kRules)
      if (ends_with(key, rule.option) && (*rule.value == 0 || same_value(value, rule.value))) out.push_back(rule.kind);
  }
  if (out.empty()) out.push_back(VariantKind::other);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// Variant less full, for each seed and order that both have.
std::vector<double> paired_differences(const Group& variant, const Group& full, const std::string& metric) {
  std::vector<double> out;
  for (const Run* run : variant.runs)
    for (const Run* base : full.runs)
      if (run->seed == base->seed && run->order == base->order) out.push_back(run->score(metric) - base->score(metric));
  return out;
}

struct Family {
  const Group* full = nullptr;
  std::vector<StyledGroup> variants;
};

// By method; only those with a full version and a variant of it.
std::map<std::string, Family> families_of(const ComparisonTable& table) {
  std::map<std::string, Family> all, out;
  for (const auto& styled : continual_groups(table)) {
    if (styled.group->unfinished) continue;
    auto& family = all[first_run(*styled.group).method];
    if (styled.group->label == first_run(*styled.group).method)
      family.full = styled.group;
    else
      family.variants.push_back(styled);
  }
  for (auto& [method, family] : all)
    if (family.full && !family.variants.empty()) out.emplace(method, std::move(family));
  return out;
}

struct VariantPanel {
  std::string method;
  VariantKind kind;
  const char* metric;
};

std::string variant_panel(const Family& family, const VariantPanel& panel, DataCsv& data) {
  const char* kind = kKindNames[static_cast<size_t>(panel.kind)];
  BarChart chart;
  chart.title = cat(kind, ": ", panel.metric, " less that of ", panel.method);
  chart.x_label = cat(panel.metric, " less that of ", shortened(panel.method, 30), ", points");
  for (const auto& [group, style] : family.variants) {
    const auto kinds = kinds_of(first_run(*group), first_run(*family.full));
    if (std::count(kinds.begin(), kinds.end(), panel.kind) == 0) continue;
    const Spread spread = spread_of(paired_differences(*group, *family.full, panel.metric));
    chart.rows.push_back({group->label, style, spread.mean, spread.interval.low, spread.interval.high, {}});
    data.add({panel.method, group->label, kind, panel.metric},
             {static_cast<double>(spread.n), spread.mean, spread.interval.low, spread.interval.high});
  }
  if (chart.rows.empty()) return "";
  return cat("<figure><figcaption>", kind, ", ", panel.metric, "</figcaption>", draw(chart), "</figure>\n");
}

}  // namespace

Figure figure_variants(const ComparisonTable& table) {
  const auto families = families_of(table);
  if (families.empty())
    return missing(
        "Not shown: no method has a variant here. Run one more time with a switch and a label of its own "
        "(configs/ablation has them) and name both folders.");
  DataCsv data({"method", "label", "group", "metric", "pairs", "difference", "low", "high"});
  std::string out;
  for (const auto& [method, family] : families) {
    out += "<h4>" + cut_name(method, 60) + "</h4>\n<div class=\"grid wide\">\n";
    for (size_t kind = 0; kind < std::size(kKindNames); ++kind)
      for (const char* metric : {"AP", "AF"})
        out += variant_panel(family, {method, static_cast<VariantKind>(kind), metric}, data);
    out += "</div>\n";
  }
  return {out +
              "<p class=\"note\">Means over runs that share seed and order, with 95 % intervals where there are "
              "several; zero is the full method. Less AP, or more AF, than the full method: what was taken away "
              "helped.</p>\n",
          data.text()};
}

}  // namespace asr
