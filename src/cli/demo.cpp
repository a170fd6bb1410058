// asr demo: the whole program on the built-in world, with nothing to download: zero-shot, vanilla, ewc, er and asr on
// world-10 with the base that ships, then the score matrix, the comparison and a report.
#include <fmt/format.h>

#include <cmath>
#include <iostream>

#include "base/atomic_file.h"
#include "base/checksums.h"
#include "base/error.h"
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

// The stream of configs/world-10.yaml in the small, so that four methods fit into minutes on two cores.
RunConfig demo_config(const DemoArguments& arguments) {
  const auto set = [](const std::string& key, const std::string& value) { return Assignment{key, value, "demo"}; };
  std::vector<Assignment> list = {set("method", "vanilla,ewc,er,asr"),
                                  set("output_dir", arguments.out),
                                  set("seeds", std::to_string(arguments.seed)),
                                  set("stream.name", "world-10"),
                                  set("stream.train", arguments.fast ? "160" : "640"),
                                  set("stream.val", arguments.fast ? "60" : "300"),
                                  set("learning_rate", "5e-3"),
                                  set("per_device_train_batch_size", "16"),
                                  set("memory.samples", arguments.fast ? "96" : "256"),
                                  set("ewc.samples", arguments.fast ? "96" : "256"),
                                  set("analysis.samples", arguments.fast ? "20" : "40"),
                                  set("er.buffer", arguments.fast ? "100" : "400")};
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

void demo(const DemoArguments& arguments, const Common& common) {
  RunRequest request{demo_config(arguments), /*resume=*/true, version_info()["version"].get<std::string>()};
  if (!common.json)
    std::cout << "Ten question types, learnt one after the other by a small vision-language model that ships with the\n"
                 "program; after every stage it is asked about all types so far. Four methods, one after the other.\n"
              << std::flush;
  request.announce = true;
  const auto folders = run_all(request);
  const auto set = load_runs({arguments.out});
  const auto comparison = compare_runs(set, {});
  write_tables(arguments.out, comparison);
  write_report(arguments.out + "/report.html", set, comparison);
  if (common.json) {
    auto out = comparison_json(comparison);
    out["report"] = arguments.out + "/report.html";
    return print_json(out);
  }
  std::cout << "\nScores of asr (percent; one row a stage, one column a question type):\n"
            << matrix_text(folders.back() + "/matrix.csv") << "\n"
            << text_tables(comparison) << "\nreport: " << arguments.out << "/report.html\n"
            << "what is kept between stages: asr audit " << arguments.out << "\n";
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
  command->add_flag("--fast", arguments->fast, "a quarter of the data, rougher scores");
  command->footer(
      "Measured on two idle cores at 2.8 GHz (Xeon): 4 min 16 s, with --fast 53 s. Where other programs use the cores, "
      "or\n"
      "there is one, it takes that many times longer; progress shows what is left.");
  command->callback([arguments, &common] { demo(*arguments, common); });
}

}  // namespace asr
