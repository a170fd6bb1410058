// What else a run's log says of training, over steps: learning rate, weights of the terms, gradient norm, time a step.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.h"
#include "report/chart.h"
#include "report/data_csv.h"
#include "report/figures.h"
#include "report/markup.h"
#include "report/run_files.h"
#include "report/svg.h"
#include "report/thinning.h"

namespace asr {
namespace {

struct TrainingKind {
  std::string key, title, y_label;
};

// In the order of the page; weights of terms follow by name.
std::vector<TrainingKind> training_kinds(const std::vector<LossLog>& logs) {
  std::vector<TrainingKind> out = {{"lr", "Learning rate", "rate"},
                                   {"step_ms", "Time a step", "milliseconds"},
                                   {"grad_norm", "Gradient norm before clipping", "norm"}};
  std::map<std::string, bool> weights;
  for (const auto& log : logs)
    for (const auto& [key, values] : log.others)
      if (ends_with(key, "_weight")) weights[key] = true;
  for (const auto& [key, unused] : weights) out.push_back({key, "Weight: " + key, "mean weight"});
  return out;
}

}  // namespace

Figure figure_training(const ComparisonTable& table) {
  std::vector<LossLog> logs;
  std::vector<StyledGroup> shown;
  std::string panels;
  LeftOut absent;
  for (const auto& of : styled_groups(table)) {
    LossLog log;
    if (!absent.reads(of.group->label, [&] { log = read_loss_log(first_run(*of.group)); })) continue;
    if (log.others.empty()) {
      absent.add(of.group->label, "its log.jsonl is absent or has no training line.");
      continue;
    }
    logs.push_back(std::move(log));
    shown.push_back(of);
  }
  if (shown.empty()) return {absent.html(), "", absent.unread()};
  DataCsv data({"label", "what", "step", "value"});
  for (const auto& kind : training_kinds(logs)) {
    Chart chart;
    chart.title = kind.title;
    chart.x_label = "step";
    chart.y_label = kind.y_label;
    chart.width = 330;
    chart.height = 200;
    chart.largest = 480;
    chart.from_zero = true;
    for (size_t i = 0; i < logs.size(); ++i) {
      const auto values = logs[i].others.find(kind.key);
      if (values == logs[i].others.end()) continue;
      auto series = thinned(logs[i], values->second);
      series.name = shown[i].group->label;
      series.style = shown[i].style;
      for (size_t k = 0; k < series.x.size(); ++k)
        if (std::isfinite(series.y[k])) data.add({series.name, kind.key}, {series.x[k], series.y[k]});
      chart.series.push_back(std::move(series));
    }
    if (chart.series.empty()) continue;
    panels += "<figure><figcaption>" + escaped(kind.title) + "</figcaption>" + draw(chart) + "</figure>\n";
  }
  return {
      legend(legend_entries(shown)) + "<div class=\"grid middle\">\n" + panels + "</div>\n" + absent.html() +
          "<p class=\"note\">Neighbouring steps are averaged; lines break where a stage begins. Time a step: between "
          "two lines of the log." +
          of_which_run(table) + "</p>\n",
      data.text(), absent.unread()};
}

}  // namespace asr
