// asr demo: the whole program on the built-in world, with nothing to download: plain fine-tuning, what it is measured
// against, and adapters chosen by what is remembered of each stage, on a stream whose stages contradict each other,
// then the score matrices, the comparison and a report.
#include <fmt/format.h>

#include <cmath>
#include <iostream>

#include "base/atomic_file.h"
#include "base/checksums.h"
#include "base/error.h"
#include "base/folders.h"
#include "cli/command.h"
#include "cli/summary.h"
#include "cli/version.h"
#include "report/tables.h"
#include "train/runner.h"

namespace asr {
namespace {

struct DemoArguments {
  std::string out = "out/demo";
  int64_t seed = 0;
  bool fast = false;
};

// A row of the demo's table: a method at a setting that suits it.
struct DemoRow {
  std::string label, method, rate;
  std::vector<std::pair<std::string, std::string>> options;
};

// Each at its best setting with one epoch on the split `tune` of this stream (results/world-hue.csv:short, seed 101).
const std::vector<DemoRow>& demo_rows() {
  static const std::vector<DemoRow> rows = {{"vanilla", "vanilla", "0.002", {}},
                                            {"asr", "asr", "0.002", {}},
                                            {"ewc", "ewc", "0.005", {{"ewc.lambda", "1000"}}},
                                            {"er", "er", "0.002", {{"er.share", "0.5"}}},
                                            {"joint", "joint", "0.005", {}},
                                            {"route", "route", "0.005", {{"route.start", "auto"}}}};
  return rows;
}

// configs/world-hue.yaml in the small, so that all rows fit into minutes on two cores.
RunConfig demo_config(const DemoArguments& arguments, const DemoRow& row) {
  const auto set = [](const std::string& key, const std::string& value) { return Assignment{key, value, "demo"}; };
  std::vector<Assignment> list = {set("method", row.method),
                                  set("label", row.label),
                                  set("output_dir", arguments.out + "/" + row.label),
                                  set("seeds", std::to_string(arguments.seed)),
                                  set("stream.name", "world-hue"),
                                  set("stream.tasks", "4"),
                                  set("stream.train", arguments.fast ? "640" : "1600"),
                                  set("stream.val", arguments.fast ? "60" : "200"),
                                  set("learning_rate", row.rate),
                                  set("per_device_train_batch_size", "16"),
                                  set("memory.samples", "256"),
                                  set("ewc.samples", "256"),
                                  set("analysis.samples", arguments.fast ? "20" : "40"),
                                  set("er.buffer", "400")};
  for (const auto& [key, value] : row.options) list.push_back(set(key, value));
  return resolve_run(list);
}

std::string matrix_text(const std::string& path) {
  std::vector<std::string> warnings;
  const auto matrix = parse_score_csv(read_as_written(path), path, warnings);
  std::vector<std::vector<std::string>> rows = {{"after stage"}};
  for (const auto& task : matrix.tasks) rows[0].push_back(task.substr(0, 6));
  const auto add = [&](const std::string& name, const std::vector<double>& values) {
    rows.push_back({name});
    for (const double value : values) rows.back().push_back(std::isnan(value) ? "" : fmt::format("{:.0f}", value));
  };
  add("0 zero-shot", matrix.zero_shot);
  for (int a = 0; a < matrix.stages(); ++a)
    add(fmt::format("{} {}", a + 1, matrix.tasks[static_cast<size_t>(a)]), matrix.rows[static_cast<size_t>(a)]);
  return text_table(rows);
}

// All rows resolved before any training. Each has a folder of its own: runs in one folder have the same options.
std::vector<std::string> run_rows(const DemoArguments& arguments) {
  std::vector<RunRequest> requests;
  for (const auto& row : demo_rows())
    requests.push_back({demo_config(arguments, row), /*resume=*/true, program_version()});
  std::vector<std::string> folders;
  for (auto& request : requests) {
    request.announce = folders.empty();
    for (const auto& folder : run_all(request)) folders.push_back(folder);
  }
  return folders;
}

void demo(const DemoArguments& arguments, const Common& common) {
  check(!arguments.out.empty(), "--out is empty; name a folder");
  make_folders(arguments.out);  // a bad path is told before anything else
  if (!common.json)
    std::cout
        << "Colours, learnt in four stages by a small vision-language model that ships with the program. In each\n"
           "stage the pictures' colour channels are swapped another way, and a border tells which: what one "
           "stage\nteaches is wrong in the next. After every stage it is asked about all so far. "
        << demo_rows().size() << " methods, one\nafter the other, each at a learning rate that suits it.\n"
        << std::flush;
  const auto folders = run_rows(arguments);
  const auto set = load_runs(folders);
  const auto comparison = compare_runs(set, {});
  write_tables(arguments.out, comparison);
  write_report(arguments.out + "/report.html", set, comparison);
  if (common.json) {
    auto out = comparison_json(comparison);
    out["report"] = arguments.out + "/report.html";
    return print_json(out);
  }
  std::cout << "\nScores in percent; one row a stage, one column a task.\n";
  for (const size_t shown : {size_t{0}, folders.size() - 1})
    std::cout << demo_rows()[shown].label << ":\n" << matrix_text(folders[shown] + "/matrix.csv") << "\n";
  std::cout << text_tables(comparison) << "\nreport: " << arguments.out << "/report.html\n"
            << "what is kept between stages: asr audit " << arguments.out << "/" << demo_rows().back().label << "\n";
}

}  // namespace

void add_demo_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("demo", "the whole program on the built-in world");
  auto arguments = std::make_shared<DemoArguments>();
  command->add_option("--out", arguments->out, "folder for runs, tables and report; an interrupted demo goes on there")
      ->type_name("DIR")
      ->capture_default_str();
  command->add_option("--seed", arguments->seed, "of samples, adapters and batches")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000000));
  command->add_flag("--fast", arguments->fast, "less than half of the data, rougher scores");
  command->footer(
      "Measured on two idle cores of an AMD EPYC of 2024: 1 min 29 s, with --fast 38 s; of a Xeon 2 min 21 s "
      "and 1 min 4 s. Where other programs use the cores, or there is one, it takes that many times longer; "
      "progress shows what is left.");
  command->callback([arguments, &common] { demo(*arguments, common); });
}

}  // namespace asr
