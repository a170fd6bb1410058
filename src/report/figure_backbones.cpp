// Backbones side by side: AP and AF of every label on each backbone of a stream. Backbones stand in the order of their
// adapters' size, which grows with the model within a family.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "report/bars.h"
#include "report/data_csv.h"
#include "report/figures.h"
#include "report/markup.h"

namespace asr {
namespace {

// Tables that differ in their backbone alone.
struct BackboneTables {
  std::string title;  // what they share
  std::vector<const ComparisonTable*> tables;
};

double adapter_size(const ComparisonTable& table) {
  std::vector<double> sizes;
  for (const auto& group : table.groups)
    for (const Run* run : group.runs) sizes.push_back(run->cost.adapter_parameters);
  return spread_of(sizes).mean;
}

std::vector<BackboneTables> tables_by_stream(const Comparison& comparison) {
  std::map<std::vector<std::string>, BackboneTables> found;
  for (const auto& table : comparison.tables) {
    if (table.means) continue;
    auto& entry = found[{table.stream, table.held_out, table.split, table.head}];
    entry.title = table.held_out.empty() ? table.stream : table.stream + ", " + table.held_out + " held out";
    entry.tables.push_back(&table);
  }
  std::vector<BackboneTables> out;
  for (auto& [key, entry] : found) {
    if (entry.tables.size() < 2) continue;
    std::stable_sort(entry.tables.begin(), entry.tables.end(), [](const auto* a, const auto* b) {
      return std::make_pair(adapter_size(*a), a->backbone) < std::make_pair(adapter_size(*b), b->backbone);
    });
    out.push_back(std::move(entry));
  }
  return out;
}

BarChart backbone_chart(const BackboneTables& of, const char* metric, DataCsv& data) {
  BarChart chart;
  chart.title = cat(metric, " by backbone, ", of.title);
  chart.x_label = cat(metric, ", points");
  for (const auto* table : of.tables) {
    chart.rows.push_back({table->backbone, 0, kUnknown, kUnknown, kUnknown, {}, true});
    for (const auto& [group, style] : styled_groups(*table)) {
      if (group->unfinished || (group->joint && std::string(metric) == "AF")) continue;
      std::vector<double> values;
      for (const Run* run : group->runs) values.push_back(run->score(metric));
      const Spread spread = spread_of(values);
      chart.rows.push_back({group->label, style, spread.mean, spread.interval.low, spread.interval.high, {}});
      data.add({of.title, table->backbone, group->label, metric},
               {static_cast<double>(spread.n), spread.mean, spread.interval.low, spread.interval.high});
    }
  }
  return chart;
}

}  // namespace

Figure figure_backbones(const Comparison& comparison) {
  const auto streams = tables_by_stream(comparison);
  if (streams.empty())
    return missing(
        "Not shown: no stream has runs on two backbones. Run it with another model_name_or_path (configs/backbones has "
        "some) and name both folders.");
  DataCsv data({"stream", "backbone", "label", "metric", "runs", "mean", "low", "high"});
  std::string out = "<div class=\"grid wide\">\n";
  for (const auto& of : streams)
    for (const char* metric : {"AP", "AF"}) {
      const auto chart = backbone_chart(of, metric, data);
      out += "<figure><figcaption>" + cat(metric, ", ") + cut_name(of.title, 60) + "</figcaption>" + draw(chart) +
             "</figure>\n";
    }
  return {out +
              "</div>\n<p class=\"note\">Means over runs, with 95 % intervals where there are several. Backbones stand "
              "in the order of their adapters' size.</p>\n",
          data.text()};
}

}  // namespace asr
