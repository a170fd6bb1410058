#include "report/run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <tuple>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/text.h"
#include "report/intervals.h"
#include "report/json_file.h"
#include "report/matrix_file.h"

namespace asr {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const char* const kScores[] = {"AP", "AF", "AF_vqacl", "Last", "Avg", "BWT", "MFT", "zero_shot"};

bool is_run_folder(const fs::path& folder) {
  for (const char* name : {"metrics.json", "matrix.csv", "log.jsonl", "predictions", "stages", "checkpoints"})
    if (path_exists(folder / name)) return true;
  return false;
}

// Which scores a complete run must have: those that its number of stages defines.
void read_scores(const JsonFields& scores, Run& run) {
  for (const char* name : kScores) run.scores[name] = scores.number_or_nan(name);
  std::vector<const char*> needed = {"AP"};
  if (!run.joint()) needed.insert(needed.end(), {"Avg", "MFT"});
  if (!run.joint() && run.tasks.size() > 1) needed.insert(needed.end(), {"AF", "BWT"});
  for (const char* name : needed)
    check(std::isfinite(run.scores[name]), scores.where(), ": '", name,
          "' is null in a complete run; evaluate the run again");
  const double ap = run.scores["AP"];
  check(ap >= 0 && ap <= 100, scores.where(), ": AP ", ap, " is outside 0..100");
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
  run.label = fields.text("label"), run.method = fields.text("method");
  run.stream = fields.text("stream"), run.backbone = fields.text("backbone");
  run.seed = fields.integer("seed"), run.order = fields.integer("order");
  run.replay_free = fields.flag("replay_free");
  run.tasks = fields.texts("tasks");
  check(!run.label.empty(), fields.where(), ": 'label' is empty");
  check(!run.tasks.empty(), fields.where(), ": 'tasks' is empty");
  read_scores(fields.object("scores"), run);
  const auto cost = fields.object("cost");
  run.cost = {cost.number_or_nan("step_ms"), cost.number_or_nan("train_seconds"), cost.number_or_nan("eval_seconds"),
              cost.number_or_nan("stored_bytes"), cost.number_or_nan("adapter_parameters")};
  read_skills(fields.list("skills"), fields.where(), run);
}

void read_matrix(Run& run, std::vector<std::string>& notes) {
  const std::string path = run.folder + "/matrix.csv", text = read_file(path, 64 << 20);
  std::vector<std::string> warnings;
  run.matrix = run.joint() ? parse_joint_csv(text, path) : parse_score_csv(text, path, warnings);
  if (!warnings.empty()) notes.push_back(cat(path, ": ", warnings.size(), " scores of unseen tasks ignored"));
  check(run.matrix.tasks == run.tasks, path, ": names tasks ", printable(join(run.matrix.tasks, ", "), 200),
        " but metrics.json names ", printable(join(run.tasks, ", "), 200));
  check(run.joint() || run.matrix.stages() == static_cast<int>(run.tasks.size()), path, ": has ", run.matrix.stages(),
        " of ", run.tasks.size(), " stages, yet metrics.json says the run is complete; resume the run");
  double sum = 0;
  for (double value : run.matrix.rows.back()) sum += value;
  const double ap = sum / static_cast<double>(run.tasks.size());
  if (std::abs(ap - run.score("AP")) > 0.05)
    notes.push_back(cat(run.folder, ": metrics.json has AP ", run.score("AP"), ", its matrix.csv gives ", ap,
                        "; the tables show metrics.json"));
}

void load_run(const fs::path& folder, const fs::path& root, RunSet& set) {
  const std::string path = (folder / "metrics.json").string();
  if (!path_exists(path)) {
    set.skipped.push_back(folder.string() + ": no metrics.json; still running, or cut short");
    return;
  }
  const json content = read_json(path);
  const JsonFields fields(content, path);
  if (!fields.flag("complete")) {
    set.skipped.push_back(folder.string() + ": not complete; finish it with asr run --resume");
    return;
  }
  Run run;
  run.folder = folder.string(), run.root = root.string();
  read_metrics(fields, run);
  read_matrix(run, set.notes);
  set.runs.push_back(std::move(run));
}

std::vector<fs::path> sorted_run_folders(const fs::path& root) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(root))
    if (entry.is_directory() && is_run_folder(entry.path())) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

using GroupKey = std::tuple<std::string, std::string, std::string>;  // stream, backbone, label
using Identity = std::tuple<GroupKey, int64_t, int64_t>;             // seed, order

GroupKey group_of(const Run& run) {
  return {run.stream, run.backbone, run.label};
}

// The same label, seed and order in two OUT folders are two configurations: they keep their own rows, told apart by
// the folder. Within one folder they can only be a copy, which would count a run twice.
void tell_apart(RunSet& set) {
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
    set.notes.push_back(cat("'", std::get<2>(group), "' stands in several folders with the same seed and order: ",
                            "its rows are told apart by folder"));
}

}  // namespace

double Run::score(const std::string& metric) const {
  const auto place = scores.find(metric);
  return place == scores.end() ? kUnknown : place->second;
}

std::string Run::name() const {
  return cat(label, ", seed ", seed, ", order ", order);
}

RunSet load_runs(const std::vector<std::string>& paths) {
  RunSet set;
  std::set<fs::path> seen;
  bool only_out = paths.size() == 1;
  for (const auto& given : paths) {
    // A trailing slash would make the last component empty, and with it the parent wrong.
    fs::path path = fs::path(given).lexically_normal();
    if (!path.has_filename() && path.has_parent_path() && path != path.root_path()) path = path.parent_path();
    check(path_exists(path), given, ": no such folder; name the output folder of asr run");
    check(fs::is_directory(path), given, ": is a file; name the output folder of asr run");
    std::vector<fs::path> folders = {path};
    const bool method = is_run_folder(path);
    if (!method) folders = sorted_run_folders(path);
    check(!folders.empty(), given, ": holds no runs; expected folders with a metrics.json, as asr run writes them");
    const fs::path above = path.has_parent_path() ? path.parent_path() : fs::path(".");
    for (const auto& folder : folders)
      if (seen.insert(fs::canonical(folder)).second) load_run(folder, method ? above : path, set);
    only_out = only_out && !method;
    if (only_out) set.out = path.string();
  }
  check(!set.runs.empty(), "no run is complete: ", join(set.skipped, "; "));
  tell_apart(set);
  return set;
}

}  // namespace asr
