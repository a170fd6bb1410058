// asr score: a metric over predictions and references from files.
#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "metrics/answer_files.h"

namespace asr {
namespace {

using nlohmann::json;

struct ScoreArguments {
  std::string metric, predictions, references;
  bool per_sample = false;
};

// Components stand at the top level, where other programs look for them, beside the score.
json result_json(const ScoreArguments& arguments, const std::vector<Answered>& samples, const MetricResult& result) {
  json out = json::object();
  for (const auto& [name, value] : result.components) out[name] = finite_or_null(value);
  out["components"] = out;
  out["metric"] = arguments.metric;
  out["samples"] = samples.size();
  out["score"] = finite_or_null(result.score);
  if (!arguments.per_sample) return out;
  json rows = json::array();
  for (size_t i = 0; i < samples.size(); ++i)
    rows.push_back({{"question_id", samples[i].id}, {"value", finite_or_null(result.per_sample[i])}});
  out["per_sample"] = rows;
  return out;
}

void print_result(const ScoreArguments& arguments, const std::vector<Answered>& samples, const MetricResult& result) {
  std::cout << arguments.metric << " " << number(result.score, 2) << " over " << samples.size()
            << (samples.size() == 1 ? " sample\n" : " samples\n");
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, value] : result.components) rows.push_back({"  " + name, number(value)});
  std::cout << text_table(rows);
  if (!arguments.per_sample) return;
  for (size_t i = 0; i < samples.size(); ++i)
    std::cout << printable(samples[i].id) << "\t" << number(result.per_sample[i]) << "\n";
}

void run(const ScoreArguments& arguments, const Common& common) {
  const auto names = metric_names();
  check(std::count(names.begin(), names.end(), arguments.metric) > 0, "unknown metric '", printable(arguments.metric),
        "'", did_you_mean(arguments.metric, names));  // before the files are read
  const auto samples = load_answered(arguments.predictions, arguments.references);
  const auto result = evaluate_metric(arguments.metric, samples);
  if (common.json)
    print_json(result_json(arguments, samples, result));
  else
    print_result(arguments, samples, result);
}

}  // namespace

void add_score_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("score", "a metric over predictions and references");
  auto arguments = std::make_shared<ScoreArguments>();
  command->add_option("--metric", arguments->metric, "one of: " + join(metric_names(), ", "))
      ->required()
      ->type_name("NAME");
  command->add_option("--predictions", arguments->predictions, "JSON lines with question_id and text, or a result file")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--references", arguments->references,
                   "JSON lines with question_id and answer, answers or references, or the benchmark's own file")
      ->required()
      ->type_name("FILE");
  command->add_flag("--per-sample", arguments->per_sample, "also every sample's value");
  command->callback([arguments, &common] { run(*arguments, common); });
}

}  // namespace asr
