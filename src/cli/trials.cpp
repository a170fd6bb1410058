#include "cli/trials.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <set>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/processes.h"
#include "streams/stream.h"
#include "tensor/runtime.h"
#include "train/run_folder.h"

namespace asr {
namespace {

// Analyses that no table of a plan needs; they change no score, and a user's own --set comes after them.
const std::vector<std::string>& cheaper() {
  static const std::vector<std::string> list = {"analysis.memory=no", "analysis.samples=1", "analysis.overlays=0"};
  return list;
}

std::string shell_word(const std::string& text) {
  const std::string plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:@%,";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// The last line that a run printed, without the name of the program.
std::string last_line(const std::string& path) {
  if (!path_exists(path)) return "";
  auto text = trimmed(read_file(path));
  text = text.substr(text.rfind('\n') + 1);
  return text.rfind("asr: ", 0) == 0 ? text.substr(5) : text;
}

// What the trainer says where the loss or the gradient stops being a number.
bool tells_of_a_divergence(const std::string& message) {
  return message.rfind("the loss is", 0) == 0 || message.rfind("the gradient's norm is", 0) == 0;
}

// Before any training: a stream on which nothing can be chosen or forgotten is refused. Returns the split to report.
std::string check_plan_stream(const std::string& command, const RunOptions& run) {
  const auto stream = make_stream(run.stream);
  check(stream->tasks().size() > 1, command, ": ", stream->name(),
        " has one task, so nothing can be forgotten; name a stream of several");
  bool tested = true;
  for (size_t task = 0; task < stream->tasks().size(); ++task) {
    check(stream->size(task, DataSplit::tune) > 0, command, ": ", stream->name(), " has no samples of task '",
          printable(stream->tasks()[task].name),
          "' in the split tune, on which settings are chosen; prepare it with one");
    tested = tested && stream->size(task, DataSplit::test) > 0;
  }
  return tested ? "test" : "val";
}

}  // namespace

std::string point_name(const std::vector<Assignment>& values) {
  std::string out;
  for (const auto& a : values) out += (out.empty() ? "" : ",") + a.key + "=" + a.value;
  for (char& c : out)
    if (!std::isalnum(static_cast<unsigned char>(c)) && std::string("._=,+-").find(c) == std::string::npos) c = '_';
  return out;
}

Trials::Trials(std::string command, TrialArguments arguments)
    : command_(std::move(command)), arguments_(std::move(arguments)) {
  for (const auto& path : arguments_.configs)
    for (auto& a : parse_yaml_options(read_file(path, 1 << 20), path)) base_.push_back(std::move(a));
  for (const auto& text : cheaper()) base_.push_back(parse_assignment(text, command_));
  for (const auto& text : arguments_.sets) base_.push_back(parse_assignment(text, "--set"));
  config_ = resolve_run(base_);
  check(!root().empty(), "output_dir is not set; say where the runs are to be written, with --set output_dir=DIR");
  check(arguments_.resume || arguments_.list_only || is_unused_folder(root()), root(),
        ": exists already; use --resume to keep what is done, or another output_dir");
  reported_ = check_plan_stream(command_, config_.run);
}

std::vector<std::string> Trials::arguments_of(const Trial& trial) const {
  auto out = arguments_.configs;
  const auto set = [&](const std::string& text) { out.insert(out.end(), {"--set", text}); };
  for (const auto& text : cheaper()) set(text);
  for (const auto& text : arguments_.sets) set(text);
  for (const auto& a : trial.sets) set(a.key + "=" + a.value);
  set("output_dir=" + root() + "/" + trial.folder);
  return out;
}

std::string Trials::line(const Trial& trial) const {
  std::string out;
  for (const auto& word : arguments_of(trial)) out += (out.empty() ? "" : " ") + shell_word(word);
  return out;
}

std::string Trials::log_of(const Trial& trial) const {
  auto name = trial.folder;
  std::replace(name.begin(), name.end(), '/', '_');
  return root() + "/logs/" + name + ".log";
}

RunConfig Trials::resolved(const Trial& trial) const {
  auto assignments = base_;
  assignments.insert(assignments.end(), trial.sets.begin(), trial.sets.end());
  return resolve_run(assignments);
}

void Trials::check_trial(const Trial& trial) const {
  resolved(trial);
}

void Trials::know(const std::string& table) {
  const auto stream = make_stream(config_.run.stream)->name();
  const auto set = load_runs({table});
  for (const auto& note : set.notes) log_warn(printable(note, 2000));
  std::set<std::string> backbones;
  size_t count = 0;
  for (const auto& run : set.runs) {
    if (!run.complete || run.stream != stream) continue;
    backbones.insert(run.backbone);
    known_.push_back(run);
    ++count;
  }
  check(count > 0, table, ": has no complete run of ", stream, "; name a table that has");
  check(backbones.size() == 1, table, ": has runs of ", stream, " on several backbones (",
        printable(join({backbones.begin(), backbones.end()}, ", ")), "); name a series of one");
  log_info(cat(command_, ": ", count, " runs of ", table, ", on ", *backbones.begin(),
               ", count as done where they are of this plan"));
}

std::optional<Run> Trials::known(const Trial& trial) const {
  const auto is_of = [&trial](const Run& run) {
    const auto strength = run.strength.find('=');
    for (const auto& set : trial.sets) {
      double wanted = 0, found = 0;
      const bool number = parse_double(set.value, wanted);
      if (set.key == "method" && run.method != set.value) return false;
      if (set.key == "label" && run.label != set.value) return false;
      if (set.key == "seeds" && cat("[", run.seed, "]") != set.value) return false;
      if (set.key == "eval_split" && run.scored_split() != set.value) return false;
      if (set.key == "learning_rate" && !(number && run.rate == wanted)) return false;
      if (set.key == "num_train_epochs" && !(number && run.epochs == wanted)) return false;
      if (strength == std::string::npos || run.strength.substr(0, strength) != set.key) continue;
      const auto text = run.strength.substr(strength + 1);
      if (number ? !parse_double(text, found) || found != wanted : text != set.value) return false;
    }
    return true;
  };
  const auto place = std::find_if(known_.begin(), known_.end(), is_of);
  return place == known_.end() ? std::nullopt : std::optional<Run>(*place);
}

std::optional<Run> Trials::result(const Trial& trial) const {
  const auto folder = root() + "/" + trial.folder;
  if (!path_exists(folder)) return known(trial);
  std::string place;
  for (const auto& name : list_folder(folder))
    if (path_exists(folder + "/" + name + "/metrics.json")) place = folder + "/" + name;
  if (place.empty() || !path_exists(place + "/matrix.csv")) return std::nullopt;
  RunSet set;
  try {
    set = load_runs({place});
  } catch (const Error&) {  // no stage is done; `asr run --resume` says what is damaged
    return std::nullopt;
  }
  if (set.runs.empty() || !set.runs[0].complete) return std::nullopt;
  const auto now = dotted_options(resolved(trial).manifest());
  for (const auto& [key, value] : set.runs[0].options) {
    const auto wanted = now.find(key);
    check(wanted == now.end() || wanted->second == value, place, ": was made with ", key, "=", printable(value),
          ", now it is ", wanted == now.end() ? "" : printable(wanted->second), "; choose another output_dir");
  }
  return set.runs[0];
}

bool Trials::diverged(const Trial& trial) const {
  return tells_of_a_divergence(last_line(log_of(trial)));
}

bool Trials::settle(const std::vector<Trial>& trials) const {
  std::vector<Trial> todo;
  for (const auto& trial : trials)
    if (!settled(trial)) todo.push_back(trial);
  if (arguments_.list_only)
    for (const auto& trial : todo) std::cout << line(trial) << "\n";
  else if (!todo.empty())
    run(todo, trials.size());
  return todo.empty() || !arguments_.list_only;
}

void Trials::run(const std::vector<Trial>& todo, size_t of) const {
  make_folders(root() + "/logs");
  const int64_t jobs = std::min<int64_t>(arguments_.jobs, static_cast<int64_t>(todo.size()));
  const auto threads = std::max<int64_t>(1, compute_threads() / jobs);
  std::vector<ProcessJob> list;
  for (const auto& trial : todo) {
    auto arguments = arguments_of(trial);
    arguments.insert(arguments.begin(), {"--threads", cat(threads), "run"});
    arguments.push_back("--resume");
    make_folders(root() + "/" + trial.folder.substr(0, trial.folder.rfind('/')));
    list.push_back({std::move(arguments), log_of(trial)});
  }
  log_info(cat(command_, ": ", todo.size(), " runs to do of ", of, ", ", jobs, " at a time"));
  const auto start = std::chrono::steady_clock::now();
  size_t done = 0;
  std::vector<std::string> failed;
  run_processes(list, jobs, [&](size_t job, int status) {
    ++done;
    const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const bool bad = status != 0, apart = bad && diverged(todo[job]);
    if (bad && !apart) failed.push_back(cat(todo[job].folder, ": ", last_line(list[job].log)));
    log_info(cat(command_, ": ", done, " of ", todo.size(), " ",
                 apart ? "diverged"
                 : bad ? "FAILED"
                       : "done",
                 ", ", todo[job].folder, "; about ",
                 human_duration(spent / static_cast<double>(done) * static_cast<double>(todo.size() - done)), " left"));
  });
  if (!failed.empty())
    fail_system(failed.size(), " of ", todo.size(), " runs failed, ", printable(failed[0], 1000), "; see ", root(),
                "/logs, then go on with --resume");
}

}  // namespace asr
