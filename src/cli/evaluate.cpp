// asr evaluate CONFIG.yaml... --adapter RUN/adapter: scores of a finished adapter on any stream, or of the base.
#include <fmt/format.h>

#include <iostream>
#include <map>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/command.h"
#include "train/evaluate_adapter.h"

namespace asr {
namespace {

struct EvaluateArguments {
  std::vector<std::string> configs, sets;
  std::string adapter, predictions;
};

std::map<std::string, int64_t> counts_of(const std::vector<std::string>& slots) {
  std::map<std::string, int64_t> out;
  for (const auto& slot : slots) ++out[slot];
  return out;
}

std::string listed(const std::map<std::string, int64_t>& counts) {
  std::vector<std::string> out;
  for (const auto& [slot, count] : counts) out.push_back(fmt::format("{} {}", slot, count));
  return join(out, ", ");
}

void run(const EvaluateArguments& a, const Common& common) {
  std::vector<Assignment> assignments;
  for (const auto& path : a.configs)
    for (auto& assignment : parse_yaml_options(read_file(path, 1 << 20), path))
      assignments.push_back(std::move(assignment));
  for (const auto& text : a.sets) assignments.push_back(parse_assignment(text, "--set"));
  const auto config = resolve_run(assignments);
  check(config.run.head == Head::generate,
        "head: an adapter is evaluated by what it answers in words; leave head away");
  if (!a.predictions.empty()) make_folders(a.predictions);
  size_t number = 0;
  const auto ready = [&](const EvaluatedTask& task) {
    ++number;
    if (!a.predictions.empty())
      write_file_atomically(fmt::format("{}/task-{:02d}.jsonl", a.predictions, number), task.predictions);
    log_info(fmt::format("{}: {:.1f} of {} samples", printable(task.name), task.score.score, task.samples));
  };
  const auto tasks = evaluate_adapter(config, a.adapter, ready);
  double sum = 0;
  bool routed = false;
  for (const auto& task : tasks) {
    sum += task.score.score;
    routed = routed || !task.score.slots.empty();
  }
  const double mean = sum / static_cast<double>(tasks.size());
  if (common.json) {
    auto rows = nlohmann::json::array();
    for (const auto& task : tasks) {
      rows.push_back(
          {{"task", task.name}, {"metric", task.metric}, {"samples", task.samples}, {"score", task.score.score}});
      if (!task.score.slots.empty()) rows.back()["answered_by"] = counts_of(task.score.slots);
    }
    return print_json({{"tasks", rows}, {"mean", mean}});
  }
  std::vector<std::vector<std::string>> table = {{"task", "metric", "samples", "score"}};
  for (const auto& task : tasks)
    table.push_back(
        {printable(task.name), task.metric, std::to_string(task.samples), fmt::format("{:.2f}", task.score.score)});
  table.push_back({"mean", "", "", fmt::format("{:.2f}", mean)});
  if (routed) {
    table[0].emplace_back("answered by");
    for (size_t i = 0; i < tasks.size(); ++i) table[i + 1].push_back(listed(counts_of(tasks[i].score.slots)));
    table.back().emplace_back("");
  }
  std::cout << text_table(table);
}

}  // namespace

void add_evaluate_command(CLI::App& app, Common& common) {
  auto* command =
      app.add_subcommand("evaluate", "scores of a finished adapter on the tasks of a stream, or of the base");
  auto a = std::make_shared<EvaluateArguments>();
  command
      ->add_option("CONFIG", a->configs, "YAML files of options, as for 'asr run': model, stream, eval_split, device")
      ->required();
  command->add_option("--adapter", a->adapter, "RUN/adapter, or a PEFT folder; none: the base alone")->type_name("DIR");
  command->add_option("--set", a->sets, "one option, after all files")->type_name("KEY=VALUE");
  command->add_option("--predictions", a->predictions, "folder for every answer, a file a task")->type_name("DIR");
  command->footer(
      "Nothing is trained. RUN/adapter answers as its run's evaluation did, also on tasks that the run never "
      "saw: 'answered by' counts whose slot did. Samples of the built-in world are those of the first of "
      "`seeds`.");
  command->callback([a, &common] { run(*a, common); });
}

}  // namespace asr
