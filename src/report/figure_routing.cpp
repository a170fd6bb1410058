// Which slot answered, where a method chooses one for each sample: of every task in percent (routing.csv), and for
// single samples why, which is the probability of every slot (predictions).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/checksums.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/text.h"
#include "io/csv.h"
#include "report/data_csv.h"
#include "report/figures.h"
#include "report/heat_map.h"
#include "report/markup.h"
#include "report/run_files.h"
#include "report/svg.h"

namespace asr {
namespace {

constexpr size_t kSamplesOfTask = 2, kMostSamples = 12;

struct RoutingTable {
  std::vector<std::string> slots;
  std::vector<std::pair<std::string, std::vector<double>>> tasks;  // how many samples of each slot
};

RoutingTable read_routing(const std::string& path) {
  RoutingTable out;
  const auto content = read_as_written(path, size_t(64) << 20);
  size_t number = 0;
  for (size_t begin = 0; begin < content.size();) {
    const size_t end = std::min(content.find('\n', begin), content.size());
    const auto place = cat(path, ":", ++number);
    auto cells = split_csv_line(content.substr(begin, end - begin), place);
    begin = end + 1;
    if (number == 1) {
      out.slots.assign(cells.begin() + 1, cells.end());
      continue;
    }
    check(cells.size() == out.slots.size() + 1, place, ": has ", cells.size(), " cells and line 1 ",
          out.slots.size() + 1);
    out.tasks.emplace_back(cells[0], std::vector<double>());
    for (size_t i = 1; i < cells.size(); ++i) {
      int64_t count = 0;
      check(parse_int(cells[i], count) && count >= 0, place, ": '", printable(cells[i]), "' is no count");
      out.tasks.back().second.push_back(static_cast<double>(count));
    }
  }
  return out;
}

// The slot that the stage of a task made, -1 where it goes on in an earlier one.
int own_column(const std::vector<std::string>& slots, size_t task) {
  const auto place = std::find(slots.begin(), slots.end(), cat("stage-", task + 1));
  return place == slots.end() ? -1 : static_cast<int>(place - slots.begin());
}

HeatMap confusion_map(const RoutingTable& table, const std::string& label) {
  HeatMap out;
  out.title = "Which adapter answered, " + label;
  out.columns = table.slots;
  out.unit = "percent of samples";
  out.after = "for";
  for (size_t t = 0; t < table.tasks.size(); ++t) {
    double all = 0;
    for (const double count : table.tasks[t].second) all += count;
    HeatRow row{table.tasks[t].first, {}, own_column(table.slots, t)};
    for (const double count : table.tasks[t].second) row.values.push_back(count > 0 ? 100 * count / all : kUnknown);
    out.rows.push_back(std::move(row));
  }
  return out;
}

// Of every task those that were least sure: most is learnt from where a choice was close, or wrong.
std::vector<RoutedSample> telling_samples(std::vector<RoutedSample> samples) {
  const auto surest = [](const RoutedSample& sample) {
    double out = 0;
    for (const auto& [slot, probability] : sample.slots) out = std::max(out, probability);
    return out;
  };
  std::stable_sort(samples.begin(), samples.end(),
                   [&](const RoutedSample& a, const RoutedSample& b) { return surest(a) < surest(b); });
  std::map<size_t, size_t> taken;
  std::vector<RoutedSample> out;
  for (auto& sample : samples)
    if (out.size() < kMostSamples && taken[sample.task]++ < kSamplesOfTask) out.push_back(std::move(sample));
  std::stable_sort(out.begin(), out.end(),
                   [](const RoutedSample& a, const RoutedSample& b) { return a.task < b.task; });
  return out;
}

HeatMap sample_map(const std::vector<RoutedSample>& samples, const Run& run, const RoutingTable& table,
                   const std::string& label) {
  HeatMap out;
  out.title = "Probability of each adapter for single samples, " + label;
  out.columns = table.slots;
  out.unit = "probability in percent";
  out.after = "for";
  out.left = 250;
  for (const auto& sample : samples) {
    HeatRow row{cat(run.tasks[sample.task], ": ", sample.prediction, " (", sample.answer, ") ", sample.question),
                std::vector<double>(table.slots.size(), kUnknown), -1};
    for (const auto& [slot, probability] : sample.slots) {
      const auto place = std::find(table.slots.begin(), table.slots.end(), slot);
      if (place == table.slots.end()) continue;
      row.values[static_cast<size_t>(place - table.slots.begin())] = 100 * probability;
    }
    const auto chosen = std::find(table.slots.begin(), table.slots.end(), sample.slot);
    if (chosen != table.slots.end()) row.newest = static_cast<int>(chosen - table.slots.begin());
    out.rows.push_back(std::move(row));
  }
  return out;
}

void add_cells(DataCsv& data, const std::string& label, const char* kind, const HeatMap& map) {
  for (const auto& row : map.rows)
    for (size_t i = 0; i < row.values.size(); ++i) data.add({label, kind, row.name, map.columns[i]}, row.values[i]);
}

std::string routing_figure(const HeatMap& map, int style, const std::string& caption) {
  return "<figure " + of_label(style) + "><figcaption>" + cut_name(caption, 80) + "</figcaption>" + draw(map) +
         "</figure>\n";
}

}  // namespace

Figure figure_routing(const ComparisonTable& table) {
  DataCsv data({"label", "percent_of", "of", "adapter", "percent"});
  std::string out;
  for (const auto& [group, style] : styled_groups(table)) {
    const auto& run = first_run(*group);
    const auto path = run.folder + "/routing.csv";
    if (run.from_table() || !path_exists(path)) continue;
    const auto counts = read_routing(path);
    const auto confusion = confusion_map(counts, group->label);
    add_cells(data, group->label, "samples of a task", confusion);
    out += routing_figure(confusion, style, group->label + ": percent of a task's samples");
    const auto samples = telling_samples(read_routed_samples(run));
    if (samples.empty()) continue;
    const auto why = sample_map(samples, run, counts, group->label);
    add_cells(data, group->label, "probability for a sample", why);
    out += routing_figure(why, style, group->label + ": why, for the least certain samples");
  }
  if (out.empty())
    return missing(
        "Not shown: no method of these runs chooses an adapter for each sample; configs/asr-best.yaml does.");
  return {"<div class=\"grid wide\">\n" + out +
              "</div>\n<p class=\"note\">Left: a row a task, in the order trained; the adapter that its own stage "
              "made is outlined. A shared adapter is named after the stage that made it. Right, where the run wrote "
              "it: samples with their prediction, in brackets the answer, and the question; cells are the probability "
              "that a "
              "sample came from an adapter's stages, in percent, and the one that answered is outlined. Of every "
              "task the least certain samples are shown, after the last stage." +
              of_which_run(table) + "</p>\n",
          data.text()};
}

}  // namespace asr
