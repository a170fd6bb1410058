// How much the order of the tasks matters: the runs of every order, label by label, with their mean and its interval.
#include <set>

#include "base/error.h"
#include "report/bars.h"
#include "report/data_csv.h"
#include "report/figures.h"
#include "report/markup.h"

namespace asr {
namespace {

// Orders are what varies here: the mean over the seeds of each.
std::vector<double> by_order(const Group& group, const std::string& metric) {
  std::vector<double> out;
  for (size_t begin = 0; begin < group.runs.size();) {
    std::vector<double> values;
    size_t end = begin;
    for (; end < group.runs.size() && group.runs[end]->order == group.runs[begin]->order; ++end)
      values.push_back(group.runs[end]->score(metric));
    out.push_back(spread_of(values).mean);
    begin = end;
  }
  return out;
}

}  // namespace

Figure figure_orders(const ComparisonTable& table) {
  std::set<int64_t> orders;
  const auto groups = continual_groups(table);
  for (const auto& [group, style] : groups)
    for (const Run* run : group->runs) orders.insert(run->order);
  if (orders.size() < 2)
    return missing(
        "Not shown: all runs have the same order of tasks. Run with 'orders: 5' to see how much it matters.");
  DataCsv data({"label", "metric", "orders", "mean", "low", "high", "deviation"});
  std::string out = "<div class=\"grid wide\">\n";
  for (const char* metric : {"AP", "AF"}) {
    BarChart chart;
    chart.title = cat(metric, " over task orders, ", table.stream, ", ", table.backbone);
    chart.x_label = std::string(metric) + ", points";
    chart.from_zero = false;
    for (const auto& [group, style] : groups) {
      const auto values = by_order(*group, metric);
      const Spread spread = spread_of(values);
      chart.rows.push_back({group->label, style, spread.mean, spread.interval.low, spread.interval.high, values});
      data.add({group->label, metric}, {static_cast<double>(spread.n), spread.mean, spread.interval.low,
                                        spread.interval.high, spread.deviation});
    }
    out += cat("<figure><figcaption>", metric, "</figcaption>", draw(chart), "</figure>\n");
  }
  return {out +
              "</div>\n<p class=\"note\">A marker an order, the mean over its seeds; bar and whisker: the mean over "
              "orders and its 95 % interval.</p>\n",
          data.text()};
}

}  // namespace asr
