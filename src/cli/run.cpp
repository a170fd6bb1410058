// asr run CONFIG.yaml...: trains and evaluates every method, seed and order of a configuration.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <optional>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/launch.h"
#include "cli/summary.h"
#include "cli/version.h"
#include "parallel/data_parallel.h"
#include "tensor/runtime.h"
#include "train/runner.h"

namespace asr {
namespace {

struct RunArguments {
  std::vector<std::string> configs, sets;
  bool resume = false;
  int64_t processes = 1, connect_timeout = Place().connect_timeout, peer_timeout = Place().peer_timeout;
};

// This process among those of a launcher, ours or another, with its team; both empty where it runs alone.
struct Together {
  std::optional<Place> place = place_from_environment();
  std::unique_ptr<Team> team;

  void join(const RunArguments& arguments, const RunOptions& run, RunRequest& request) {
    if (!place) return;
    place->connect_timeout = arguments.connect_timeout;
    place->peer_timeout = arguments.peer_timeout;
    end_with_launcher();
    set_compute_threads(std::max(1, compute_threads() / static_cast<int>(place->local_size)));
    if (place->rank > 0) set_log_level("off");
    if (run.device == "cuda") request.gpu = gpu_of(*place);
    team = join_team(*place, run.device == "cuda" ? at::Device(at::kCUDA, static_cast<at::DeviceIndex>(request.gpu))
                                                  : at::Device(at::kCPU));
    request.team = team.get();
  }
};

// A line for every run, with the scores of its matrix.
void show_results(const std::vector<std::string>& folders, const std::string& out, const Common& common) {
  const auto set = load_runs(folders);
  const bool novel =
      std::any_of(set.runs.begin(), set.runs.end(), [](const Run& run) { return run.novel.stages() > 0; });
  std::vector<std::string> shown = {"zero_shot", "AP", "AF", "Avg", "MFT"};
  if (novel) shown.insert(shown.end(), {"AP_novel", "AF_novel"});
  nlohmann::json runs = nlohmann::json::array();
  std::vector<std::vector<std::string>> rows = {{"run"}};
  for (const auto& name : shown) rows[0].push_back(name == "zero_shot" ? "zero-shot" : name);
  for (const auto& run : set.runs) {
    auto metrics = read_json_object(run.folder + "/metrics.json");
    for (const auto& [name, value] : run.scores) metrics["scores"][name] = finite_or_null(value);
    runs.push_back({{"folder", run.folder}, {"metrics", metrics}});
    rows.push_back({printable(run.folder.substr(run.folder.rfind('/') + 1))});
    for (const auto& name : shown) rows.back().push_back(number(run.score(name), 1));
  }
  if (common.json) return print_json({{"runs", runs}});
  std::cout << text_table(rows) << "tables: " << out << "/compare.md and compare.csv; figures: " << out
            << "/report.html; asr compare " << out << " shows more\n";
}

void run(const RunArguments& arguments, const Common& common) {
  std::vector<Assignment> assignments;
  for (const auto& path : arguments.configs)
    for (auto& a : parse_yaml_options(read_file(path, 1 << 20), path)) assignments.push_back(std::move(a));
  for (const auto& text : arguments.sets) assignments.push_back(parse_assignment(text, "--set"));
  end_with_launcher();  // where a plan started it
  RunRequest request{resolve_run(assignments), arguments.resume, program_version()};
  Together together;
  if (arguments.processes > 1 && !(together.place && together.place->started_by_us)) {
    check(!together.place, "--processes: RANK and WORLD_SIZE are set, so a launcher has started several already");
    if (request.config.run.device == "cuda") check_gpus(arguments.processes);
    if (const int status = launch_copies(arguments.processes)) std::exit(status);
    return;
  }
  together.join(arguments, request.config.run, request);
  request.announce = true;
  const auto folders = run_all(request);
  if (together.team && !together.team->leads()) return;
  write_summary(request.config.run.output_dir);
  show_results(folders, request.config.run.output_dir, common);
}

}  // namespace

void add_run_command(CLI::App& app, Common& common) {
  auto* command =
      app.add_subcommand("run", "train a stream with one or several methods, and evaluate after every stage");
  auto arguments = std::make_shared<RunArguments>();
  command->add_option("CONFIG", arguments->configs, "YAML files of options; later ones override")->required();
  command->add_option("--set", arguments->sets, "one option, after all files, e.g. --set learning_rate=1e-4")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
  command->add_flag("--resume", arguments->resume, "go on from the newest checkpoints; complete runs are left alone");
  command
      ->add_option("--processes", arguments->processes,
                   "copies of the program that train each run together, each on a part of every batch: one a GPU with "
                   "device=cuda, the threads divided on a CPU")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  command
      ->add_option("--connect-timeout", arguments->connect_timeout,
                   "seconds that a process waits for the others to start")
      ->type_name("S")
      ->capture_default_str()
      ->check(CLI::Range(1, 86400));
  command
      ->add_option("--peer-timeout", arguments->peer_timeout,
                   "seconds that it waits for one that hangs; one may be writing a checkpoint or hashing the model")
      ->type_name("S")
      ->capture_default_str()
      ->check(CLI::Range(1, 86400));
  command->footer("Options for CONFIG and --set (default, range):\n" + run_options_help());
  command->callback([arguments, &common] { run(*arguments, common); });
}

}  // namespace asr
