#include "report/run.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>
#include <utility>

#include "base/atomic_file.h"
#include "base/checksums.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/text.h"
#include "io/csv.h"
#include "report/intervals.h"
#include "report/matrix_file.h"
#include "report/run_scores.h"
#include "report/runs_csv.h"

namespace asr {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

bool is_run_folder(const fs::path& folder) {
  for (const char* name : {"metrics.json", "matrix.csv", "log.jsonl", "predictions", "stages", "checkpoints"})
    if (path_exists(folder / name)) return true;
  return false;
}

void read_skills(const json& list, const std::string& path, Run& run) {
  double largest = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    const JsonFields skill(list[i], cat(path, ": skills[", i, "]"));
    SkillCurve curve{skill.text("name"), {}};
    for (const auto& value : skill.list("accuracy")) {
      check(value.is_number() || value.is_null(), skill.where(), ": 'accuracy' holds something else than numbers");
      curve.accuracy.push_back(value.is_null() ? kUnknown : value.get<double>());
      if (!value.is_null()) largest = std::max(largest, curve.accuracy.back());
    }
    run.skills.push_back(std::move(curve));
  }
  if (largest > 1) return;
  // Fractions, as in the analysis files; the figures speak of 0..100.
  for (auto& curve : run.skills)
    for (double& value : curve.accuracy) value *= 100;
}

void read_metrics(const JsonFields& fields, Run& run) {
  run.label = fields.text("label");
  run.method = fields.text("method");
  run.stream = fields.text("stream");
  run.backbone = fields.text("backbone");
  run.seed = fields.integer("seed");
  run.order = fields.integer("order");
  run.replay_free = fields.flag("replay_free");
  run.tasks = fields.texts("tasks");
  run.held_out = fields.text_or("held_out", "");
  run.head = fields.text_or("head", "");
  run.complete = fields.flag("complete");
  run.one_stage = fields.has("one_stage") && fields.flag("one_stage");
  check(!run.label.empty(), fields.where(), ": 'label' is empty");
  check(!run.tasks.empty(), fields.where(), ": 'tasks' is empty");
  const auto cost = fields.object("cost");
  run.cost = {cost.number_or_nan("step_ms"),
              cost.number_or_nan("train_seconds"),
              cost.number_or_nan("eval_seconds"),
              cost.number_or_nan("stored_bytes"),
              cost.number_or_nan("adapter_parameters"),
              cost.has("passes") ? cost.number_or_nan("passes") : kUnknown};
  read_skills(fields.list("skills"), fields.where(), run);
}

void read_matrix(Run& run, bool says_so, std::vector<std::string>& notes) {
  const std::string path = run.folder + "/matrix.csv", text = read_as_written(path, 64 << 20);
  std::vector<std::string> warnings;
  if (!says_so) run.one_stage = is_joint_csv(text, path);
  auto matrix = run.joint() ? parse_joint_csv(text, path) : parse_score_csv(text, path, warnings);
  if (!warnings.empty()) notes.push_back(cat(path, ": ", warnings.size(), " scores of unseen tasks ignored"));
  check(matrix.tasks == run.tasks, path, ": names tasks ", printable(join(matrix.tasks, ", "), 200),
        " but metrics.json names ", printable(join(run.tasks, ", "), 200));
  take_matrix(run, std::move(matrix), path);
}

void read_novel(Run& run) {
  const std::string path = run.folder + "/matrix_novel.csv";
  if (!path_exists(path)) return;
  std::vector<std::string> warnings;
  auto novel = parse_score_csv(read_as_written(path, 64 << 20), path, warnings);
  check(novel.tasks == run.tasks, path, ": names other tasks than matrix.csv; evaluate the run again");
  take_novel_matrix(run, std::move(novel), path);
}

// The mean over the tasks of the last row that have a wrong answer.
void read_outside(Run& run) {
  const std::string path = run.folder + "/answers_outside.csv";
  if (!path_exists(path)) return;
  const auto records = split_csv(read_as_written(path, 64 << 20), path);
  const auto& last = records.back();
  check(records.size() > 1 && last.fields.size() == run.tasks.size() + 1, path, ": has not one cell for each of ",
        run.tasks.size(), " tasks; evaluate the run again");
  double sum = 0;
  int64_t count = 0;
  for (size_t b = 1; b < last.fields.size(); ++b) {
    double value = 0;
    if (last.fields[b].empty()) continue;
    check(parse_double(last.fields[b], value) && value >= 0 && value <= 100, last.place, ": '",
          printable(last.fields[b]), "' is no percentage");
    sum += value;
    ++count;
  }
  if (count > 0) run.outside = sum / static_cast<double>(count);
}

// One line where metrics.json and the matrices disagree: the matrices are what was measured.
void compare_scores(const json& metrics, const Run& run, std::vector<std::string>& notes) {
  const auto& scores = metrics.at("scores");
  const JsonFields stored(scores, run.folder + "/metrics.json: scores");
  NamedScores written;
  for (const auto& [name, value] : run.scores)
    if (scores.contains(name)) written[name] = stored.number_or_nan(name.c_str());
  const auto differences = contradictions(written, run, 1e-6);
  if (!differences.empty())
    notes.push_back(cat(run.folder, ": metrics.json contradicts the score matrix (", differences,
                        "); the scores shown are those of the matrix"));
}

// What the run was made from, but for seed and order; none where an earlier version noted something else.
void read_settings(Run& run) {
  const std::string path = run.folder + "/fingerprint.json";
  json noted;
  JsonProblem ignored;
  if (!path_exists(path) || !try_parse_json(read_file(path), noted, ignored)) return;
  if (!noted.is_object() || !noted.contains("format") || !noted.contains("config")) return;
  for (const char* name : {"hash", "seed", "order"}) noted.erase(name);
  if (noted.contains("content") && noted["content"].contains("data") && noted["content"]["data"].is_string()) {
    const auto data = noted["content"]["data"].get<std::string>();
    noted["content"]["data"] = data.substr(0, data.find(":seed "));  // samples that the run's seed drew anew
  }
  run.settings = self_hash(noted).substr(0, 12);
  const auto& options = noted["config"];
  if (!options.is_object()) return;
  run.options = dotted_options(options);
  run.split = run.option("eval_split");
  if (run.head.empty()) run.head = run.option("head");  // of a run that does not say what its method made of it
  parse_double(run.option("learning_rate"), run.rate);
  parse_double(run.option("num_train_epochs"), run.epochs);
}

// Row 0 is written before any training; a stage is done when it has a row.
bool has_stage(const std::string& folder) {
  const std::string path = folder + "/matrix.csv";
  if (!path_exists(path)) return false;
  const auto records = split_csv(read_as_written(path, 64 << 20), path);
  return records.size() > 1 && records.back().fields[0] != "0";
}

// Files of a run that are gone.
void note_missing(const std::string& folder, std::vector<std::string>& notes) {
  const Checksums checksums(folder);
  std::vector<std::string> gone;
  for (const auto& name : checksums.names())
    if (!path_exists(folder + "/" + name)) gone.push_back(name);
  if (gone.empty()) return;
  const size_t shown = std::min<size_t>(gone.size(), 5), more = gone.size() - shown;
  gone.resize(shown);
  notes.push_back(cat(folder, ": missing are ", join(gone, ", "), more > 0 ? cat(" and ", more, " more") : ""));
}

// Options that were changed when the run was resumed: its scores are of both.
void note_changes(const json& metrics, const std::string& folder, std::vector<std::string>& notes) {
  if (!metrics.contains("changes") || !metrics["changes"].is_array()) return;
  for (const auto& change : metrics["changes"]) {
    const JsonFields fields(change, folder + "/metrics.json: changes");
    notes.push_back(cat(folder, ": ", fields.text("option"), " was changed from ", fields.number_or_nan("before"),
                        " to ", fields.number_or_nan("after"), " after step ", fields.integer("current_steps")));
  }
}

void load_run(const fs::path& folder, const fs::path& root, RunSet& set) {
  const std::string path = (folder / "metrics.json").string();
  if (!path_exists(path)) {
    set.skipped.push_back(folder.string() + ": no metrics.json; still running, or cut short");
    return;
  }
  read_as_written(path);
  const json content = read_json(path);
  const JsonFields fields(content, path);
  if (!fields.flag("complete") && !has_stage(folder.string())) {
    set.skipped.push_back(folder.string() + ": no stage is done yet; finish it with asr run --resume");
    return;
  }
  Run run;
  run.folder = folder.string();
  run.root = root.string();
  read_metrics(fields, run);
  read_settings(run);
  note_missing(run.folder, set.notes);
  note_changes(content, run.folder, set.notes);
  read_matrix(run, fields.has("one_stage"), set.notes);
  read_novel(run);
  read_outside(run);
  fields.object("scores");  // must be there
  if (run.complete) {
    compare_scores(content, run, set.notes);
  } else {
    // metrics.json may be a stage behind: the matrix is written first.
    const auto reached = cat(run.matrix.stages(), " of ", run.joint() ? 1 : run.tasks.size(), " stages");
    set.notes.push_back(cat(run.folder, ": not complete, ", reached, ": shown with the scores over the tasks so far, ",
                            "which are not those of complete runs; no differences are given. Finish it with asr run ",
                            "--resume"));
    run.label += " (" + reached + ")";
  }
  set.runs.push_back(std::move(run));
}

std::vector<fs::path> sorted_run_folders(const fs::path& root) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(root))
    if (entry.is_directory() && is_run_folder(entry.path())) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

// Stream, held out, backbone, label, and how it was scored.
using GroupKey = std::tuple<std::string, std::string, std::string, std::string, std::string, std::string>;
using Identity = std::tuple<GroupKey, int64_t, int64_t>;  // seed, order

GroupKey group_of(const Run& run) {
  return {run.stream, run.held_out, run.backbone, run.label, run.scored_split(), run.answer_head()};
}

// The same label, seed and order in two OUT folders are two configurations: they keep their own rows, told apart by
// the folder. Within one folder they can only be a copy, which would count a run twice.
void tell_apart(RunSet& set, Damaged damaged) {
  std::set<Identity> met;
  const auto copied = [&](const Run& run) {
    if (met.insert(Identity{group_of(run), run.seed, run.order}).second) return false;
    const auto same = [&](const Run& other) {
      return other.root == run.root && &other != &run && group_of(other) == group_of(run) && other.seed == run.seed &&
             other.order == run.order;
    };
    const bool twice = std::any_of(set.runs.begin(), set.runs.end(), same);
    if (twice) set.skipped.push_back(cat(run.folder, ": another folder beside it is ", run.name(), " too"));
    return twice;
  };
  if (damaged == Damaged::is_skipped) {
    std::vector<Run> kept;
    for (const auto& run : set.runs)
      if (!copied(run)) kept.push_back(run);
    set.runs = std::move(kept);
  }
  std::map<Identity, const Run*> seen;
  std::set<GroupKey> shared;
  for (const auto& run : set.runs) {
    const auto [place, added] = seen.emplace(Identity{group_of(run), run.seed, run.order}, &run);
    if (added) continue;
    check(place->second->root != run.root, place->second->folder, " and ", run.folder, ": are both ", run.name(),
          "; remove one");
    shared.insert(group_of(run));
  }
  for (auto& run : set.runs)
    if (shared.count(group_of(run))) run.label += "@" + run.root;
  for (const auto& group : shared)
    set.notes.push_back(
        cat("'", printable(std::get<3>(group)),
            "' stands in several folders with the same seed and order: ", "its rows are told apart by folder"));
}

}  // namespace

std::map<std::string, std::string> dotted_options(const json& options) {
  std::map<std::string, std::string> out;
  for (const auto& [name, value] : options.items()) {
    if (!value.is_object()) {
      out[name] = value.is_string() ? value.get<std::string>() : value.dump();
      continue;
    }
    for (const auto& [inner, text] : dotted_options(value)) out[name + "." + inner] = text;
  }
  return out;
}

double Run::score(const std::string& metric) const {
  if (metric == "outside") return outside;
  const auto place = scores.find(metric);
  return place == scores.end() ? kUnknown : place->second;
}

std::string Run::option(const std::string& key) const {
  const auto place = options.find(key);
  return place == options.end() ? "" : place->second;
}

std::string Run::name() const {
  return cat(label, ", seed ", seed, ", order ", order);
}

namespace {

// Runs of earlier versions have no checksums.
void note_unchecked(RunSet& set) {
  std::vector<std::string> folders;
  for (const auto& run : set.runs)
    if (!run.from_table() && !Checksums(run.folder).exist()) folders.push_back(run.folder);
  if (folders.empty()) return;
  set.notes.push_back(cat(folders[0], folders.size() > 1 ? cat(" and ", folders.size() - 1, " more: have") : ": has",
                          " no checksums.json; the files are read unchecked"));
}

// The path as it is named in messages and beside which files are written: a trailing slash would make its last
// component empty, and with it the parent wrong.
fs::path normal_path(const std::string& given) {
  fs::path path = fs::path(given).lexically_normal();
  if (!path.has_filename() && path.has_parent_path() && path != path.root_path()) path = path.parent_path();
  check(path_exists(path), given, ": no such folder; name the output folder of asr run");
  check(fs::is_directory(path) || path.extension() == ".csv", given,
        ": is a file; name the output folder of asr run, or a table of runs (.csv)");
  return path;
}

}  // namespace

namespace {

std::vector<fs::path> folders_in(const fs::path& path) {
  if (!fs::is_directory(path)) return {};
  if (is_run_folder(path)) return {path};
  return sorted_run_folders(path);
}

void load_or_skip(const fs::path& folder, const fs::path& root, RunSet& set, Damaged damaged) {
  if (damaged == Damaged::is_an_error) return load_run(folder, root, set);
  try {
    load_run(folder, root, set);
  } catch (const Error& error) {
    set.skipped.push_back(cat(folder.string(), ": cannot be read: ", error.what()));
    set.damaged.push_back(set.skipped.back());
  }
}

}  // namespace

std::vector<std::string> run_folders(const std::vector<std::string>& paths) {
  std::set<std::string> out;
  for (const auto& given : paths)
    for (const auto& folder : folders_in(normal_path(runs_table(given).path))) out.insert(folder.string());
  return {out.begin(), out.end()};
}

RunSet load_runs(const std::vector<std::string>& paths, Damaged damaged) {
  RunSet set;
  std::set<fs::path> seen;
  bool only_out = paths.size() == 1;
  for (const auto& given : paths) {
    const auto table = runs_table(given);
    const fs::path path = normal_path(table.path);
    if (!fs::is_directory(path)) {
      only_out = false;
      if (!seen.insert(RunsTable{fs::canonical(path).string(), table.series}.name()).second) continue;
      for (auto& run : read_runs_csv({path.string(), table.series}, set.notes)) set.runs.push_back(std::move(run));
      continue;
    }
    const bool method = is_run_folder(path);
    const auto folders = folders_in(path);
    check(!folders.empty(), given, ": holds no runs; expected folders with a metrics.json, as asr run writes them");
    const fs::path above = path.has_parent_path() ? path.parent_path() : fs::path(".");
    for (const auto& folder : folders)
      if (seen.insert(fs::canonical(folder)).second) load_or_skip(folder, method ? above : path, set, damaged);
    only_out = only_out && !method;
    if (only_out) set.out = path.string();
  }
  check(!set.runs.empty(), "no run has finished a stage: ", join(set.skipped, "; "));
  tell_apart(set, damaged);
  note_unchecked(set);
  return set;
}

}  // namespace asr
