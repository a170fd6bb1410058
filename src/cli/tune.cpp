// asr tune CONFIG.yaml... --grid key=[...]: a run for every point of a grid, scored on the split `tune`, which nothing
// else reports; the best point becomes a configuration file. With --protocol, rows of methods that are searched alike.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <set>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/tune_protocol.h"
#include "cli/version.h"
#include "report/run.h"
#include "train/run_model.h"
#include "train/runner.h"

namespace asr {
namespace {

using nlohmann::json;

struct TuneArguments {
  std::vector<std::string> configs, sets, grids;
  std::string metric = "AP", out, protocol, chosen;
  std::vector<std::string> rows, tables;
  int64_t jobs = 1;
  bool resume = false, list_only = false, brief = false;
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
    check(std::find(out.values.begin(), out.values.end(), value) == out.values.end(), "--grid ", printable(text),
          ": the value ", printable(value), " stands twice");
    out.values.push_back(value);
    value.clear();
  }
  return out;
}

// A key that a grid cannot mean, or that no method of the run reads, is a typing error that would cost hours.
void check_axes(const std::vector<Axis>& axes, const RunConfig& base) {
  std::set<std::string> keys, read;
  for (const auto& composition : base.run.method)
    for (const auto& part : method_parts(composition)) read.insert(part);
  for (const auto& axis : axes) {
    check(keys.insert(axis.key).second, "--grid ", printable(axis.key), ": is given twice; put all values in one list");
    for (const char* fixed : {"output_dir", "eval_split", "label", "method", "seeds", "orders"})
      check(axis.key != fixed, "--grid ", fixed, ": cannot be tuned; set it with --set");
    const auto section = axis.key.substr(0, axis.key.find('.'));
    for (const auto& info : method_infos())
      check(section != info.name || section == axis.key || read.count(section), "--grid ", printable(axis.key),
            ": no method of this run reads it; add --set method=", section);
  }
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
  for (char& c : out)  // it names a folder
    if (!std::isalnum(static_cast<unsigned char>(c)) && std::string("._=,+-").find(c) == std::string::npos) c = '_';
  return out;
}

// The mean over the runs of a point, from their score matrices.
double score_of(const std::vector<std::string>& folders, const std::string& metric) {
  const auto set = load_runs(folders);
  for (const auto& note : set.notes) log_warn(printable(note, 2000));
  double sum = 0;
  for (const auto& run : set.runs) sum += run.score(metric);
  return sum / static_cast<double>(set.runs.size());
}

struct Point {
  std::vector<Assignment> values;
  std::string name;
  RunRequest request;
  double score = NAN;
  std::string note;
};

// All points resolved before any training, so that a typing error costs nothing.
std::vector<Point> make_points(const TuneArguments& arguments, const std::vector<Assignment>& base,
                               const std::vector<Axis>& axes, const std::string& root) {
  std::vector<Point> out;
  std::set<std::string> names;
  for (const auto& values : points_of(axes)) {
    auto list = base;
    list.insert(list.end(), values.begin(), values.end());
    Point point{values, name_of(values), {}, NAN, {}};
    list.push_back({"eval_split", "tune", "asr tune"});
    list.push_back({"output_dir", root + "/" + point.name, "asr tune"});
    point.request = {resolve_run(list), arguments.resume, program_version()};
    point.request.hash_cache = root + "/hashes.json";  // the points read the same files
    check(names.insert(point.name).second, "--grid: two points are both named ", point.name);
    check(arguments.resume || !path_exists(root + "/" + point.name), root, "/", point.name,
          ": exists already; use --resume to keep what is done, or another output_dir");
    out.push_back(std::move(point));
  }
  check(out.size() > 1, "--grid: a grid of one value leaves nothing to choose; give several, or use 'asr run'");
  const auto& scored = out[0].request.config.run;
  check_scored(scored, *make_stream(with_run_seed(scored.stream, scored.seeds.front())));
  return out;
}

// What the trainer says where the loss or the gradient stops being a number.
bool tells_of_divergence(const std::string& message) {
  return message.rfind("the loss is", 0) == 0 || message.rfind("the gradient's norm is", 0) == 0;
}

// A point that diverges is a bad point, not the end of the grid.
void run_point(Point& point, const std::string& metric) {
  try {
    point.score = score_of(run_all(point.request), metric);
  } catch (const Stopped&) {
    throw;
  } catch (const Error& error) {
    const std::string message = error.what();
    if (!tells_of_divergence(message)) throw;
    point.note = "diverged";
    log_warn(cat(point.name, ": ", message));
  }
}

std::string csv_of(const std::vector<Point>& points, const std::string& metric) {
  std::string out = "point," + metric + ",note\n";
  for (const auto& p : points)
    if (std::isfinite(p.score) || !p.note.empty())
      out += "\"" + p.name + "\"," + (std::isfinite(p.score) ? number(p.score, 4) : "") + "," + p.note + "\n";
  return out;
}

// The index of the best score; the first of equal ones. `points.size()` where there is none.
size_t best_of(const std::vector<Point>& points, bool lower) {
  size_t best = points.size();
  for (size_t i = 0; i < points.size(); ++i) {
    if (!std::isfinite(points[i].score)) continue;
    if (best == points.size() || (lower ? points[i].score < points[best].score : points[i].score > points[best].score))
      best = i;
  }
  return best;
}

// A best value at the end of its numbers may have a better one beyond.
std::string edge_note(const std::vector<Axis>& axes, const std::vector<Assignment>& chosen) {
  std::string out;
  for (size_t i = 0; i < axes.size(); ++i) {
    double low = INFINITY, high = -INFINITY, at = 0, value = 0;
    bool numbers = axes[i].values.size() > 1 && parse_double(chosen[i].value, at);
    for (const auto& text : axes[i].values) {
      if ((numbers = numbers && parse_double(text, value))) {
        low = std::min(low, value);
        high = std::max(high, value);
      }
    }
    if (numbers && (at == low || at == high))
      out += cat(axes[i].key, "=", chosen[i].value, " is the ", at == low ? "smallest" : "largest",
                 " of its grid; a wider one may do better\n");
  }
  return out;
}

void train_points(std::vector<Point>& points, const std::string& metric, bool lower, const std::string& table_path) {
  const auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < points.size(); ++i) {
    const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const auto best = best_of(points, lower);
    log_info(cat(
        "tune: point ", i + 1, " of ", points.size(), ", ", points[i].name,
        best < points.size() ? cat("; best so far ", number(points[best].score, 2), " at ", points[best].name)
                             : std::string(),
        i > 0 ? cat("; about ", human_duration(spent / static_cast<double>(i) * static_cast<double>(points.size() - i)),
                    " left")
              : std::string()));
    run_point(points[i], metric);
    write_file_atomically(table_path, csv_of(points, metric));  // what is known, should the rest not come
  }
}

void tune(const TuneArguments& arguments, const Common& common) {
  check(arguments.protocol.empty() != arguments.grids.empty(), "tune: give --grid KEY=[...] or --protocol FILE, not ",
        arguments.protocol.empty() ? "neither" : "both");
  if (!arguments.protocol.empty())
    return tune_by_protocol({{arguments.configs, arguments.sets, arguments.jobs, arguments.resume, arguments.list_only},
                             arguments.protocol,
                             arguments.rows,
                             arguments.brief,
                             arguments.tables,
                             arguments.chosen},
                            common);
  const bool plain = !arguments.list_only && !arguments.brief && arguments.chosen.empty();
  check(arguments.rows.empty() && arguments.tables.empty() && arguments.jobs == 1 && plain,
        "tune: --rows, --brief, --jobs, --runs, --chosen and --list-only go with --protocol; a --grid is run point by "
        "point");
  std::vector<Assignment> base;
  for (const auto& path : arguments.configs)
    for (auto& a : parse_yaml_options(read_file(path, 1 << 20), path)) base.push_back(std::move(a));
  for (const auto& text : arguments.sets) base.push_back(parse_assignment(text, "--set"));
  std::vector<Axis> axes;
  for (const auto& text : arguments.grids) axes.push_back(parse_axis(text));
  const auto config = resolve_run(base);
  const auto& root = config.run.output_dir;
  check(!root.empty(), "output_dir is not set; say where the runs are to be written");
  check_axes(axes, config);
  auto points = make_points(arguments, base, axes, root);
  const auto& metric = arguments.metric;
  const bool lower = metric == "AF";  // forgetting: less is better
  train_points(points, metric, lower, root + "/tune.csv");
  const auto best = best_of(points, lower);
  check(best < points.size(), "no point of the grid has a score of ", metric, "; see ", root, "/tune.csv");
  std::string yaml = cat("# Chosen by asr tune on the split tune, by ", metric, ":\n");
  std::vector<std::vector<std::string>> rows = {{"point", metric}};
  json table = json::array();
  for (const auto& p : points) {
    rows.push_back({p.name, p.note.empty() ? number(p.score, 2) : p.note});
    yaml += cat("#   ", p.name, "  ", rows.back()[1], "\n");
    table.push_back({{"point", p.name}, {"score", finite_or_null(p.score)}, {"note", p.note}});
  }
  for (const auto& a : points[best].values) yaml += a.key + ": " + a.value + "\n";
  const auto path = arguments.out.empty() ? root + "/tuned.yaml" : arguments.out;
  write_file_atomically(path, yaml);
  const auto note = edge_note(axes, points[best].values);
  if (common.json)
    return print_json(
        {{"metric", metric}, {"points", table}, {"chosen", points[best].name}, {"config", path}, {"note", note}});
  std::cout << text_table(rows) << "chosen: " << points[best].name << ", written to " << path << "\n" << note;
}

}  // namespace

void add_tune_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("tune", "choose settings by a grid on a split that is never reported");
  auto a = std::make_shared<TuneArguments>();
  command->add_option("CONFIG", a->configs, "YAML files of options, as for 'asr run'")->required();
  command->add_option("--grid", a->grids, "values to try, e.g. --grid ewc.lambda=[100,1000]; several make a product")
      ->type_name("KEY=[...]")
      ->expected(1)
      ->take_all();
  command->add_option("--set", a->sets, "one option, after all files")->type_name("KEY=VALUE")->expected(1)->take_all();
  command->add_option("--metric", a->metric, "what decides; AF by its least value, the others by their largest")
      ->capture_default_str()
      ->check(CLI::IsMember({"AP", "AF", "Last", "Avg", "BWT", "MFT"}));
  command->add_option("-o,--out", a->out, "file for the chosen values (default: output_dir/tuned.yaml)");
  command
      ->add_option("--protocol", a->protocol,
                   "search, choose and test every row of this file alike, e.g. configs/protocol.yaml")
      ->type_name("FILE");
  command->add_option("--rows", a->rows, "only these rows of the protocol")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("LIST");
  command->add_flag("--brief", a->brief,
                    "every rate at the middle strength, then the other strengths at the best rate, one tuning seed");
  command
      ->add_option("--chosen", a->chosen,
                   "no search: test what the protocol chose on another stream or backbone, its chosen.csv")
      ->type_name("FILE");
  command
      ->add_option("--runs", a->tables,
                   "runs of this table count as done where stream, backbone, row, point, seed and split are those of "
                   "the protocol: FILE.csv or FILE.csv:SERIES")
      ->type_name("TABLE")
      ->expected(1)
      ->take_all();
  command->add_option("--jobs", a->jobs, "runs of the protocol at a time, the threads divided among them")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command->add_flag("--list-only", a->list_only,
                    "print the missing runs of the protocol's next step as lines for tools/run_many.py, run nothing");
  command->add_flag("--resume", a->resume, "keep complete points, go on with the others; the grid may have grown");
  command->footer(
      "Every point is a run in output_dir/KEY=VALUE,...; scores so far are in output_dir/tune.csv. Ctrl-C "
      "leaves a checkpoint, and --resume goes on. With --protocol every run is in "
      "output_dir/SPLIT/LABEL/POINT/seed-N, all of them in output_dir/runs.csv, what was searched and chosen in "
      "output_dir/chosen.csv (docs/protocol.md). Exit status: 0 if a value was chosen, 2 for a bad grid or "
      "configuration (found before any training), 1 if a run failed, 130 or 143 after Ctrl-C or SIGTERM.");
  command->callback([a, &common] { tune(*a, common); });
}

}  // namespace asr
