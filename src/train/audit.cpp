#include "train/audit.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/checksums.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/progress.h"
#include "train/checkpoint.h"

namespace asr {
namespace {

using nlohmann::json;

SampleSearch search_for(const RunFacts& facts, int64_t samples, Audit& audit) {
  SampleSearch out;
  const auto& stream = *facts.stream;
  std::vector<int64_t> counts;
  for (size_t task = 0; task < stream.tasks().size(); ++task) {
    const int64_t all = stream.size(task, DataSplit::train);
    audit.samples += all;
    counts.push_back(std::min(samples, all));
    audit.searched += counts.back();
  }
  Progress progress("training samples", audit.searched);
  for (size_t task = 0; task < counts.size(); ++task)
    for (int64_t i = 0; i < counts[task]; ++i) {
      out.add(stream.sample(task, DataSplit::train, i), facts.model->tokenizer());
      progress.advance();
    }
  progress.finish();
  audit.bytes_a_sample = out.bytes_a_sample();
  return out;
}

// Samples may stand where a method says that it keeps samples, and nowhere else.
bool may_hold_samples(const SeenPart& part, bool replay_free) {
  static const std::set<std::string> declared = {"sample", "question", "answer", "teacher"};
  return !replay_free && declared.count(part.kind) > 0;
}

void judge(const SeenPart& part, Audit& audit) {
  static const std::set<std::string> forbidden = {"sample", "question", "answer", "teacher"};
  const auto name = part.file == part.name ? part.file : cat(part.file, ": ", part.name);
  if (audit.replay_free && forbidden.count(part.kind)) audit.violations.push_back(cat(name, " is a ", part.kind));
  if (!part.found.empty() && !may_hold_samples(part, audit.replay_free))
    audit.violations.push_back(cat(name, " contains the ", part.found));
}

}  // namespace

int64_t Audit::kept_bytes() const {
  int64_t sum = 0;
  for (const auto& item : kept) sum += item.bytes;
  return sum;
}

int64_t Audit::bytes_of(const std::string& kind) const {
  int64_t sum = 0;
  for (const auto& item : others)
    if (item.kind == kind) sum += item.bytes;
  return sum;
}

double Audit::samples_that_fit(int64_t room) const {
  return bytes_a_sample > 0 ? static_cast<double>(room) / bytes_a_sample : 0;
}

json Audit::to_json() const {
  const auto list = [](const std::vector<SeenPart>& items) {
    json out = json::array();
    for (const auto& item : items) {
      json entry = {{"file", item.file},
                    {"name", item.name},
                    {"kind", item.kind},
                    {"bytes", item.bytes},
                    {"sha256", item.sha256}};
      if (!item.found.empty()) entry["found"] = item.found;
      out.push_back(entry);
    }
    return out;
  };
  const int64_t stages = std::max<int64_t>(1, stage);
  return {{"folder", folder},
          {"label", label},
          {"method", method},
          {"stage", stage},
          {"replay_free", replay_free},
          {"passed", passed()},
          {"kept", list(kept)},
          {"kept_bytes", kept_bytes()},
          {"others", list(others)},
          {"files", files},
          {"bytes", bytes},
          {"violations", violations},
          {"searched", searched},
          {"samples", samples},
          {"bytes_a_sample", bytes_a_sample},
          {"samples_that_fit",
           {{"kept", samples_that_fit(kept_bytes())},
            {"kept_a_stage", samples_that_fit(kept_bytes() / stages)},
            {"weights", samples_that_fit(bytes_of("weights"))}}}};
}

Audit audit_run(const std::string& folder, int64_t samples) {
  const auto checkpoint = load_latest_checkpoint(folder + "/checkpoints");
  check(checkpoint.has_value(), folder, ": holds no readable checkpoint; there is nothing to audit");
  const JsonFields state(checkpoint->state, folder + ": the checkpoint's state");
  state.object("kept");
  const auto facts = facts_of(folder, checkpoint->state);
  if (!Checksums(folder).exist()) log_warn(cat(folder, ": has no checksums.json; its text files are read unchecked"));
  Audit out;
  out.folder = folder;
  out.label = std::filesystem::path(folder).filename().string();
  out.method = facts.method;
  out.stage = state.integer("stage");
  out.replay_free = facts.replay_free;
  const auto search = search_for(facts, samples, out);
  auto findings = check_folder(facts, search);
  out.violations = std::move(findings.violations);
  out.files = findings.files;
  out.bytes = findings.bytes;
  const auto newest = cat("checkpoints/checkpoint-", state.integer("global_step"), "/");
  for (auto& part : findings.parts) {
    judge(part, out);
    const bool kept = part.file.rfind(newest, 0) == 0 && (part.name.rfind("method.", 0) == 0 || part.kind == "teacher");
    (kept ? out.kept : out.others).push_back(std::move(part));
  }
  return out;
}

}  // namespace asr
