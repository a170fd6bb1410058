// The terms of the loss over training steps, one panel a method, thinned by averaging neighbours.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/chart.h"
#include "report/data_csv.h"
#include "report/figures.h"
#include "report/markup.h"
#include "report/run_files.h"
#include "report/svg.h"
#include "report/thinning.h"

namespace asr {
namespace {

// "loss" first, then the task's term, then the others by name; a total that is the task's term alone says nothing more.
std::vector<std::string> terms_of(const LossLog& log) {
  std::vector<std::string> out;
  for (const char* first : {"loss", "task_loss"})
    if (log.losses.count(first)) out.push_back(first);
  for (const auto& [key, values] : log.losses)
    if (key != "loss" && key != "task_loss") out.push_back(key);
  if (out.size() == 2 && out[1] == "task_loss") out.pop_back();
  return out;
}

}  // namespace

Figure figure_losses(const ComparisonTable& table) {
  std::vector<std::string> terms;  // in the order met, so that a term has the same dashes in all panels
  std::string panels;
  LeftOut absent;
  DataCsv data({"label", "term", "step", "value"});
  for (const auto& [group, style] : styled_groups(table)) {
    LossLog log;
    if (!absent.reads(group->label, [&, of = group] { log = read_loss_log(first_run(*of)); })) continue;
    if (log.step.empty()) {
      absent.add(group->label, "its log.jsonl is absent or has no training line.");
      continue;
    }
    Chart chart;
    chart.title = "Training losses of " + group->label;
    chart.width = 330;
    chart.height = 180;
    chart.largest = 460;
    chart.boundaries = log.boundaries;
    chart.x_label = "step";
    chart.y_label = "loss";
    for (const auto& term : terms_of(log)) {
      const auto place = std::find(terms.begin(), terms.end(), term);
      const int dashes = static_cast<int>(place - terms.begin());
      if (place == terms.end()) terms.push_back(term);
      auto series = thinned(log, log.losses.at(term));
      series.style = style;
      series.dashes = dashes;
      for (double value : series.y) {
        if (std::isfinite(value)) {
          chart.low = std::min(chart.low, value);
          chart.high = std::max(chart.high, 1.05 * value);
        }
      }
      for (size_t i = 0; i < series.y.size(); ++i)
        data.add({group->label, term, fmt::format("{:.10g}", series.x[i])}, series.y[i]);
      chart.series.push_back(std::move(series));
    }
    panels += "<figure " + of_label(style) + "><figcaption>" + cut_name(group->label, 60) + "</figcaption>" +
              draw(chart) + "</figure>\n";
  }
  if (panels.empty()) return {absent.html(), "", absent.unread()};
  return {
      dash_legend(terms) + "<div class=\"grid middle\">\n" + panels + "</div>\n" + absent.html() +
          "<p class=\"note\">loss is the sum that is trained on. Neighbouring steps are averaged; vertical lines begin "
          "a "
          "stage." +
          of_which_run(table) + "</p>\n",
      data.text(), absent.unread()};
}

}  // namespace asr
