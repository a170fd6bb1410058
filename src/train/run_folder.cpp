#include "train/run_folder.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/atomic_file.h"
#include "base/checksums.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/text.h"
#include "io/safetensors.h"
#include "train/checkpoint.h"
#include "train/run_identity.h"

namespace asr {
namespace {

using nlohmann::json;

constexpr const char* kLog = "log.jsonl";

// What the last checkpoint is enough to write again.
bool is_derived(const std::string& name) {
  for (const char* known : {"config.yaml", "matrix.csv", "matrix_novel.csv", "answers_outside.csv", "metrics.json"})
    if (name == known) return true;
  return name.rfind("adapter/", 0) == 0;
}

// "predictions/novel-stage-03-task-01.jsonl", "stages/03/kept.json" -> 3; 0 for any other name.
int64_t stage_of_file(const std::string& name) {
  int64_t stage = 0;
  if (name.rfind("adapter/", 0) == 0) return 0;  // its folders are slots'
  for (const char* mark : {"/stage-", "/novel-stage-", "stages/"}) {
    const auto place = name.find(mark);
    if (place == std::string::npos) continue;
    const auto begin = place + std::string(mark).size();
    if (parse_int(name.substr(begin, name.find_first_not_of("0123456789", begin) - begin), stage)) return stage;
  }
  return 0;
}

[[noreturn]] void refuse_file(const std::string& path, const std::string& problem) {
  fail(path, ": ", problem, "; restore it from a copy, or delete it to go on without it, then --resume");
}

// The checksum that a safetensors file carries; "" where it is right or the file is absent.
std::string tensor_file_problem(const std::string& path) {
  if (!path_exists(path)) return "";
  try {
    verify_checksum(read_safetensors(path));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class Examination {
 public:
  Examination(const std::string& folder, const json& wanted)
      : folder_(folder),
        checksums_(folder),
        latest_(find_latest_checkpoint(folder + "/checkpoints", CheckpointPart::state)) {
    if (!find_identity()) return;
    const auto changed = check_same(out.fingerprint, wanted, folder_);
    if (latest_.checkpoint) check_same(stored_identity(), wanted, folder_);
    out.complete = is_complete();
    check_checkpoints();
    check(changed.empty() || (latest_.checkpoint && !out.complete), folder_, ": holds a run with another '",
          changed.empty() ? "" : changed[0], "'; that may change only where a run goes on from a checkpoint, and this ",
          out.complete ? "one is complete" : "has none", "; choose another output_dir");
    if (latest_.checkpoint) find_position();
    if (!checksums_.exist())
      out.notes.push_back(folder_ + ": has no checksums.json; what lies there is taken as it is");
    for (const auto& name : checksums_.names()) look_at(name);
    if (out.complete)
      for (const auto& damaged : latest_.damaged)
        out.notes.push_back(damaged.reason + "; the run is complete without it");
    look_at_log();
    look_at_stages();
    look_at_results();
  }

  FoundRun out;

 private:
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  const json& stored_identity() const { return latest_.checkpoint->state.at("fingerprint"); }

  // Whether a run has begun here at all.
  bool find_identity() {
    std::string problem;
    const auto stored = read_fingerprint(path("fingerprint.json"), problem);
    if (stored) {
      out.fingerprint = *stored;
      if (latest_.checkpoint && !latest_.checkpoint->state.contains("fingerprint"))
        fail(folder_, ": its checkpoint is of another version of asr; choose another output_dir");
      return true;
    }
    const bool begun = latest_.checkpoint || !latest_.damaged.empty() || path_exists(path("metrics.json"));
    if (!begun && problem.empty()) return false;
    if (problem.empty()) problem = path("fingerprint.json") + ": is missing";
    check(latest_.checkpoint && latest_.checkpoint->state.contains("fingerprint"), problem,
          ", and no checkpoint tells what the run was made of; choose another output_dir");
    out.fingerprint = stored_identity();
    out.notes.push_back(problem + "; it is written again from the checkpoint");
    return true;
  }

  bool is_complete() const {
    if (!path_exists(path("metrics.json"))) return false;
    json metrics;
    JsonProblem ignored;
    if (!try_parse_json(read_file(path("metrics.json")), metrics, ignored)) return false;
    return metrics.is_object() && metrics.contains("complete") && metrics["complete"] == true;
  }

  // To begin anew where work was done would overwrite what is left of it.
  void check_checkpoints() const {
    if (latest_.checkpoint || out.complete) return;
    check(latest_.damaged.empty(), folder_,
          ": no checkpoint is whole: ", latest_.damaged.empty() ? "" : latest_.damaged[0].reason,
          "; restore one from a copy, or remove the folder to begin anew");
    if (!path_exists(path("matrix.csv"))) return;
    const auto text = read_file(path("matrix.csv"));
    check(std::count(text.begin(), text.end(), '\n') <= 2, folder_,
          ": has scores of trained stages but no checkpoint; restore one from a copy, or remove the folder to begin "
          "anew");
  }

  void find_position() {
    const auto& state = latest_.checkpoint->state;
    const bool within = state.at("trained").get<bool>() || state.at("step").get<int64_t>() > 0;
    stages_done_ = state.at("stage").get<int64_t>() - (within ? 1 : 0);
  }

  void look_at(const std::string& name) {
    if (name == kLog && !out.complete) return;  // the checkpoint knows more of it
    const bool done_again = !out.complete && stage_of_file(name) > stages_done_;
    if (!path_exists(path(name))) {
      if (!done_again && (out.complete || !is_derived(name))) note_lost(name, "is missing");
      return;
    }
    const auto problem = checksums_.problem(name, read_file(path(name)));
    if (problem.empty() || done_again) return;
    if (!is_derived(name)) refuse_file(path(name), problem);
    note_lost(name, problem);
  }

  // A result that the last checkpoint brings back, or a file that stays away.
  void note_lost(const std::string& name, const std::string& problem) {
    if (!is_derived(name)) {
      out.notes.push_back(cat(path(name), ": ", problem, "; the run goes on without it"));
      return;
    }
    check(latest_.checkpoint || !out.complete, path(name), ": ", problem,
          ", and no checkpoint is left to write it from");
    out.notes.push_back(cat(path(name), ": ", problem, "; it is written again"));
    out.complete = false;
  }

  void look_at_log() {
    if (!latest_.checkpoint || out.complete) return;
    const auto& state = latest_.checkpoint->state;
    const auto bytes = state.at("log_bytes").get<int64_t>();
    const auto text = path_exists(path(kLog)) ? read_file(path(kLog)) : std::string();
    if (static_cast<int64_t>(text.size()) < bytes) {
      const auto left = whole_log_lines(text, state.at("global_step").get<int64_t>());
      out.notes.push_back(cat(path(kLog), ": is shorter than the checkpoint says; ", left.missing));
      return;
    }
    if (sha256_of(text.substr(0, static_cast<size_t>(bytes))) != state.at("log_sha256").get<std::string>())
      refuse_file(path(kLog), "does not match the checksum in the checkpoint: it was damaged or edited");
  }

  void look_at_stages() {
    for (int64_t stage = 1; stage <= stages_done_; ++stage) {
      const auto stage_folder = fmt::format("stages/{:02d}", stage);
      for (const char* name : {"/analysis.safetensors", "/memory.safetensors"}) {
        const auto problem = tensor_file_problem(path(stage_folder + name));
        check(problem.empty(), problem, "; restore it from a copy, or delete it to go on without it, then --resume");
      }
      if (!path_exists(path(stage_folder + "/analysis.safetensors")))
        out.notes.push_back(cat(path(stage_folder), "/analysis.safetensors: is missing; figures and drift of stage ",
                                stage, " are left out"));
    }
  }

  // A run that measured no prototypes (analysis.memory: no) has no memory to bring back.
  bool measures_prototypes() const {
    static const json::json_pointer option("/config/analysis/memory");
    const auto last = fmt::format("stages/{:02d}/memory.safetensors", stages_done_);
    return out.fingerprint.value(option, std::string("yes")) != "no" || path_exists(path(last));
  }

  void look_at_results() {
    if (!out.complete) return;
    const char* const memory = "memory.safetensors";
    const auto slots = path("adapter/asr_adapter.json");
    const auto adapter = path_exists(slots) ? slots : path("adapter/adapter_model.safetensors");
    auto problem = tensor_file_problem(path(memory));
    for (const auto& file : {path(memory), adapter}) {
      const bool wanted = file == adapter || measures_prototypes();
      if (problem.empty() && wanted && !path_exists(file)) problem = file + ": is missing";
    }
    if (problem.empty()) return;
    check(latest_.checkpoint.has_value(), problem, ", and no checkpoint is left to write it from");
    out.notes.push_back(problem + "; it is written again from the checkpoint");
    out.complete = false;
  }

  std::string folder_;
  Checksums checksums_;
  LatestCheckpoint latest_;
  int64_t stages_done_ = 0;
};

}  // namespace

FoundRun examine_run(const std::string& folder, const json& wanted) {
  return path_exists(folder) ? Examination(folder, wanted).out : FoundRun{};
}

std::vector<std::string> text_files_of_run(const std::string& folder) {
  std::vector<std::string> out;
  for (const char* name :
       {"config.yaml", "matrix.csv", "matrix_novel.csv", "answers_outside.csv", "routing.csv", "metrics.json"})
    out.emplace_back(name);
  for (const auto& name : list_folder(folder + "/predictions")) out.push_back("predictions/" + name);
  for (const auto& stage : list_folder(folder + "/stages")) out.push_back("stages/" + stage + "/kept.json");
  out.erase(std::remove_if(out.begin(), out.end(), [&](const auto& name) { return !path_exists(folder + "/" + name); }),
            out.end());
  return out;
}

LogRemains whole_log_lines(const std::string& text, int64_t last_step) {
  LogRemains out;
  out.bytes = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  int64_t step = 0;
  for (size_t begin = 0; begin < out.bytes;) {
    const size_t end = text.find('\n', begin);
    json line;
    JsonProblem ignored;
    if (try_parse_json(text.substr(begin, end - begin), line, ignored) && line.is_object() &&
        line.contains("current_steps") && line["current_steps"].is_number_integer())
      step = line["current_steps"].get<int64_t>();
    begin = end + 1;
  }
  out.missing = step < last_step ? cat("lines of steps ", step + 1, " to ", last_step, " are missing")
                                 : std::string("lines after the last step are missing");
  return out;
}

}  // namespace asr
