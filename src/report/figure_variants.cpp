// Ablations and design variants: runs of the same method under other labels, relative to the one that bears the
// method's own name, over runs paired by seed and order.
#include <map>

#include "base/error.h"
#include "report/bars.h"
#include "report/data_csv.h"
#include "report/figures.h"
#include "report/markup.h"

namespace asr {
namespace {

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

}  // namespace

Figure figure_variants(const ComparisonTable& table) {
  const auto families = families_of(table);
  if (families.empty())
    return missing(
        "Not shown: no method has a variant here. Run one more time with a switch and a label of its own "
        "(configs/ablation "
        "has them) into the same folder.");
  DataCsv data({"method", "label", "metric", "pairs", "difference", "low", "high"});
  std::string out = "<div class=\"grid wide\">\n";
  for (const auto& [method, family] : families)
    for (const char* metric : {"AP", "AF"}) {
      BarChart chart;
      chart.title = cat(metric, " of variants of ", method, " less that of ", method);
      chart.x_label = cat(metric, " less that of ", shortened(method, 30), ", points");
      for (const auto& [group, style] : family.variants) {
        const Spread spread = spread_of(paired_differences(*group, *family.full, metric));
        chart.rows.push_back({group->label, style, spread.mean, spread.interval.low, spread.interval.high, {}});
        data.add({method, group->label, metric},
                 {static_cast<double>(spread.n), spread.mean, spread.interval.low, spread.interval.high});
      }
      out += "<figure><figcaption>" + escaped(chart.x_label) + "</figcaption>" + draw(chart) + "</figure>\n";
    }
  return {
      out +
          "</div>\n<p class=\"note\">Means over runs that share seed and order, with 95 % intervals where there are "
          "several. Less AP, or more AF, than the full method: what was taken away helped.</p>\n",
      data.text()};
}

}  // namespace asr
