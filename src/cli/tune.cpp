// asr tune CONFIG.yaml... --grid key=[...]: a run for every point of a grid, scored on the split `tune`, which nothing
// else reports; the best point becomes a configuration file.
#include <algorithm>
#include <cmath>
#include <iostream>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/version.h"
#include "train/runner.h"

namespace asr {
namespace {

using nlohmann::json;

struct Arguments {
  std::vector<std::string> configs, sets, grids;
  std::string metric = "AP", out;
  bool resume = false;
};

struct Axis {
  std::string key;
  std::vector<std::string> values;
};

Axis parse_axis(const std::string& text) {
  const auto assignment = parse_assignment(text, "--grid");
  auto list = trimmed(assignment.value);
  check(list.size() > 2 && list.front() == '[' && list.back() == ']', "--grid ", printable(text),
        ": give a list, as in --grid ewc.lambda=[100,1000]");
  list = list.substr(1, list.size() - 2) + ",";
  Axis out{assignment.key, {}};
  std::string value;
  for (const char c : list) {
    if (c != ',') {
      value += c;
      continue;
    }
    value = trimmed(value);
    check(!value.empty(), "--grid ", printable(text), ": a value is empty");
    out.values.push_back(value), value.clear();
  }
  return out;
}

std::vector<std::vector<Assignment>> points_of(const std::vector<Axis>& axes) {
  std::vector<std::vector<Assignment>> out = {{}};
  for (const auto& axis : axes) {
    std::vector<std::vector<Assignment>> longer;
    for (const auto& point : out)
      for (const auto& value : axis.values) {
        longer.push_back(point);
        longer.back().push_back({axis.key, value, "--grid"});
      }
    out = std::move(longer);
  }
  return out;
}

std::string name_of(const std::vector<Assignment>& point) {
  std::string out;
  for (const auto& a : point) out += (out.empty() ? "" : ",") + a.key + "=" + a.value;
  for (char& c : out)
    if (c == '/' || c == ' ' || c == '[' || c == ']') c = '_';
  return out;
}

// The mean over the runs of a point.
double score_of(const std::vector<std::string>& folders, const std::string& metric) {
  double sum = 0;
  for (const auto& folder : folders) {
    const auto metrics = json::parse(read_file(folder + "/metrics.json"));
    const auto& scores = metrics["scores"];
    check(scores.contains(metric), "--metric ", metric, " is not among the scores; use AP, AF, Last, Avg, BWT or MFT");
    sum += scores[metric].is_number() ? scores[metric].get<double>() : NAN;
  }
  return sum / static_cast<double>(folders.size());
}

void run(const Arguments& arguments, const Common& common) {
  std::vector<Assignment> base;
  for (const auto& path : arguments.configs)
    for (auto& a : parse_yaml_options(read_file(path, 1 << 20), path)) base.push_back(std::move(a));
  for (const auto& text : arguments.sets) base.push_back(parse_assignment(text, "--set"));
  std::vector<Axis> axes;
  for (const auto& text : arguments.grids) axes.push_back(parse_axis(text));
  const auto points = points_of(axes);
  const auto root = resolve_run(base).run.output_dir;
  check(!root.empty(), "output_dir is not set; say where the runs are to be written");
  std::vector<RunRequest> requests;
  for (const auto& point : points) {  // all of them before any training, so that a typing error costs nothing
    auto list = base;
    list.insert(list.end(), point.begin(), point.end());
    list.push_back({"eval_split", "tune", "asr tune"});
    list.push_back({"output_dir", root + "/" + name_of(point), "asr tune"});
    requests.push_back({resolve_run(list), arguments.resume, version_info()["version"].get<std::string>()});
  }
  const bool lower = arguments.metric == "AF";  // forgetting: less is better
  std::vector<std::vector<std::string>> rows = {{"point", arguments.metric}};
  json table = json::array();
  size_t best = points.size();
  double best_score = NAN;
  for (size_t i = 0; i < points.size(); ++i) {
    const double score = score_of(run_all(requests[i]), arguments.metric);
    rows.push_back({name_of(points[i]), number(score, 2)});
    table.push_back({{"point", name_of(points[i])}, {"score", finite_or_null(score)}});
    if (std::isfinite(score) && (best == points.size() || (lower ? score < best_score : score > best_score)))
      best = i, best_score = score;
  }
  check(best < points.size(), "no point of the grid has a score");
  std::string yaml =
      cat("# Chosen by asr tune on the split tune: ", arguments.metric, " ", number(best_score, 2), "\n");
  for (const auto& a : points[best]) yaml += a.key + ": " + a.value + "\n";
  const auto path = arguments.out.empty() ? root + "/tuned.yaml" : arguments.out;
  write_file_atomically(path, yaml);
  if (common.json)
    return print_json(
        {{"metric", arguments.metric}, {"points", table}, {"chosen", name_of(points[best])}, {"config", path}});
  std::cout << text_table(rows) << "chosen: " << name_of(points[best]) << ", written to " << path << "\n";
}

}  // namespace

void add_tune_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("tune", "choose settings by a grid on a split that is never reported");
  auto a = std::make_shared<Arguments>();
  command->add_option("CONFIG", a->configs, "YAML files of options, as for 'asr run'")->required();
  command->add_option("--grid", a->grids, "values to try, e.g. --grid ewc.lambda=[100,1000]; several make a product")
      ->required()
      ->type_name("KEY=[...]")
      ->expected(1)
      ->take_all();
  command->add_option("--set", a->sets, "one option, after all files")->type_name("KEY=VALUE")->expected(1)->take_all();
  command->add_option("--metric", a->metric, "what decides; AF by its least value, the others by their largest")
      ->capture_default_str()
      ->check(CLI::IsMember({"AP", "AF", "Last", "Avg", "BWT", "MFT"}));
  command->add_option("-o,--out", a->out, "file for the chosen values (default: output_dir/tuned.yaml)");
  command->add_flag("--resume", a->resume, "go on with points that are not complete");
  command->callback([a, &common] { run(*a, common); });
}

}  // namespace asr
