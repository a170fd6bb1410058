// What a run saves and restores, and the list of what its methods keep between stages.
#include <fmt/format.h>

#include <algorithm>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/log.h"
#include "train/kept_state.h"
#include "train/run_folder.h"
#include "train/run_identity.h"
#include "train/trainer.h"

namespace asr {
namespace {

constexpr const char* kAdapter = "adapter.";

}  // namespace

nlohmann::json Trainer::state_json() const {
  nlohmann::json skills = nlohmann::json::object();
  for (const auto& [name, values] : at_.skills) {
    auto list = nlohmann::json::array();
    for (const auto& value : values) list.push_back(value ? nlohmann::json(*value) : nlohmann::json());
    skills[name] = list;
  }
  return {{"global_step", at_.global_step},
          {"stage", at_.stage},
          {"step", at_.step},
          {"trained", at_.trained},
          {"train_seconds", at_.train_seconds},
          {"eval_seconds", at_.eval_seconds},
          {"finish_seconds", at_.finish_seconds},
          {"scores", at_.rows},
          {"novel", at_.novel},
          {"skills", skills},
          {"log_bytes", log_bytes_},
          {"log_sha256", Sha256(log_hash_).hex()},
          {"changes", at_.changes},
          {"fingerprint", key_.fingerprint},
          {"method", key_.composition},
          {"seed", key_.seed},
          {"order", key_.order},
          {"config", config_.manifest()}};
}

NamedTensors Trainer::state_tensors() {
  NamedTensors out;
  for (const auto& [name, tensor] : parameters_) out.emplace_back(kAdapter + name, tensor.detach().cpu().clone());
  if (optimizer_) {
    out.emplace_back("optimizer.first", optimizer_->first.cpu().clone());
    out.emplace_back("optimizer.second", optimizer_->second.cpu().clone());
  }
  for (auto& item : kept_items(key_.composition, methods_)) out.emplace_back(item.name, item.tensor);
  StateSaver analysis("analysis.");
  visit_memory(analysis_memory_, analysis);
  for (auto& item : analysis.items) out.emplace_back(item.name, item.tensor);
  return out;
}

// A checkpoint is where people go back to: it must not hold what no training can lead out of.
void Trainer::check_finite(const NamedTensors& tensors) const {
  for (const auto& [name, tensor] : tensors) {
    if (name.rfind(kAdapter, 0) != 0 && name.rfind("optimizer.", 0) != 0) continue;
    if (!tensor.isfinite().all().item<bool>())
      fail_system("after step ", at_.step, " of stage ", at_.stage, " '", name,
                  "' holds what is no number, and is not saved; the last checkpoint is of step ", saved_step_,
                  ": go on from there with --resume and a lower learning_rate");
  }
}

void Trainer::save() {
  if (!team_.leads()) return;
  Checkpoint checkpoint{state_tensors(), state_json()};
  auto kinds = nlohmann::json::object();
  for (const auto& item : listed_items(key_.composition, methods_)) kinds[item.name] = name_of(item.kind);
  checkpoint.state["kept"] = kinds;
  check_finite(checkpoint.tensors);
  files_->commit();
  sync_to_disk(log_path());  // the checkpoint counts on its lines
  save_checkpoint(key_.folder + "/checkpoints", checkpoint, config_.run.keep_checkpoints);
  files_->cover_beginning("log.jsonl", log_bytes_, Sha256(log_hash_).hex());
  files_->save();
  saved_step_ = at_.global_step;
  last_save_ = now();
}

void Trainer::restore(const Checkpoint& checkpoint) {
  const auto& state = checkpoint.state;
  const JsonFields fields(state, key_.folder + ": the checkpoint's state");
  fields.object("config");
  at_.global_step = fields.integer("global_step"), at_.stage = fields.integer("stage");
  at_.step = fields.integer("step"), at_.trained = fields.flag("trained");
  at_.rows = fields.number_rows("scores"), at_.novel = fields.number_rows("novel");
  at_.train_seconds = fields.number("train_seconds"), at_.eval_seconds = fields.number("eval_seconds");
  at_.finish_seconds = fields.number("finish_seconds");
  const auto skills = fields.object("skills");
  for (const auto& [name, values] : fields.at("skills").items())
    for (const auto& value : skills.list(name.c_str())) {
      check(value.is_number() || value.is_null(), skills.where(), ": '", name, "' holds something else than numbers");
      at_.skills[name].push_back(value.is_null() ? std::nullopt : std::optional<double>(value.get<double>()));
    }
  {
    at::NoGradGuard no_grad;
    for (auto& [name, tensor] : parameters_) tensor.copy_(checkpoint.at(kAdapter + name, tensor.sizes()));
  }
  load_kept_items(key_.composition, methods_, checkpoint.tensors, model_.device());
  StateLoader analysis("analysis.", checkpoint.tensors, at::kCPU);
  visit_memory(analysis_memory_, analysis);
  if (at_.step > 0 && !at_.trained) restored_ = checkpoint;
  saved_step_ = at_.global_step;
  at_.changes = state.at("changes");
  if (team_.leads()) restore_log(state);
  note_changes(state.at("config"));
}

// Lines that were logged after the checkpoint will be logged again.
void Trainer::restore_log(const nlohmann::json& state) {
  const auto text = path_exists(log_path()) ? read_file(log_path()) : std::string();
  const auto bytes = state.at("log_bytes").get<size_t>();
  if (text.size() >= bytes) return start_log(text.substr(0, bytes));
  const auto left = whole_log_lines(text, at_.global_step);
  start_log(text.substr(0, left.bytes));
  log({{"stage", at_.stage}, {"note", left.missing}});
}

// Of the options, those that may change on the way; which they are says train/run_identity.h.
void Trainer::note_changes(const nlohmann::json& before) {
  for (const auto& change : option_changes(before, config_.manifest())) {
    const nlohmann::json note = {{"option", change.key},
                                 {"before", change.before},
                                 {"after", change.after},
                                 {"stage", at_.stage},
                                 {"current_steps", at_.global_step}};
    at_.changes.push_back(note);
    log({{"stage", at_.stage}, {"changed", note}});
    if (team_.leads())
      log_warn(cat(key_.folder, ": from step ", at_.global_step, " on ", change.key, " is ", change.after.dump(),
                   ", before it was ", change.before.dump(), "; log.jsonl and metrics.json note it"));
  }
}

// The list covers what is left of the log before the rest goes.
void Trainer::start_log(const std::string& text) {
  log_bytes_ = static_cast<int64_t>(text.size());
  log_hash_ = Sha256();
  log_hash_.update(text);
  files_->cover_beginning("log.jsonl", log_bytes_, sha256_of(text));
  files_->save();
  write_file_atomically(log_path(), text);
}

void Trainer::open_files() {
  files_.emplace(key_.folder);
  if (!files_->exist()) files_->adopt(text_files_of_run(key_.folder));
  files_->settle();
  files_->stage("config.yaml", with_checksum_line(yaml_text(config_.manifest())));
  files_->commit();
}

void Trainer::write_kept_state() {
  if (!team_.leads()) return;
  nlohmann::json items = nlohmann::json::array();
  for (const auto& item : listed_items(key_.composition, methods_, ListHashes::yes)) items.push_back(item.to_json());
  files_->stage(fmt::format("stages/{:02d}/kept.json", at_.stage),
                nlohmann::json{{"stage", at_.stage}, {"items", items}}.dump(1) + "\n");
}

}  // namespace asr
