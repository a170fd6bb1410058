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

void Trainer::save() {
  if (!team_.leads()) return;
  Checkpoint checkpoint{state_tensors(), state_json()};
  auto kinds = nlohmann::json::object();
  for (const auto& item : kept_items(key_.composition, methods_)) kinds[item.name] = name_of(item.kind);
  checkpoint.state["kept"] = kinds;
  sync_to_disk(log_path());  // the checkpoint counts on its lines
  save_checkpoint(key_.folder + "/checkpoints", checkpoint, config_.run.keep_checkpoints);
  last_save_ = now();
}

void Trainer::restore(const Checkpoint& checkpoint) {
  const auto& state = checkpoint.state;
  const JsonFields fields(state, key_.folder + ": the checkpoint's state");
  fields.object("config");
  auto before = fields.at("config"), after = config_.manifest();
  for (auto* config : {&before, &after})
    for (const char* key : {"output_dir", "seeds", "orders", "method", "label", "save_steps", "save_minutes",
                            "save_total_limit", "logging_steps", "report_to", "full_determinism", "device"})
      config->erase(key);
  for (const auto& [key, value] : after.items())
    check(before.contains(key) && before[key] == value, key_.folder, ": was made with another '", key,
          "'; resume with the same options or choose another output_dir");
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
    for (auto& [name, tensor] : parameters_) tensor.copy_(checkpoint.at(kAdapter + name));
  }
  load_kept_items(key_.composition, methods_, checkpoint.tensors, model_.device());
  StateLoader analysis("analysis.", checkpoint.tensors, at::kCPU);
  visit_memory(analysis_memory_, analysis);
  if (at_.step > 0 && !at_.trained) restored_ = checkpoint;
  if (!team_.leads()) return;
  // Lines that were logged after the checkpoint will be logged again.
  const auto text = path_exists(log_path()) ? read_file(log_path()) : std::string();
  const auto logged = static_cast<int64_t>(text.size());
  log_bytes_ = std::min(fields.integer("log_bytes"), logged);
  if (log_bytes_ < fields.integer("log_bytes"))
    log_warn(cat(log_path(), ": is shorter than the checkpoint says; lines of earlier steps are missing in it"));
  write_file_atomically(log_path(), text.substr(0, static_cast<size_t>(log_bytes_)));
}

void Trainer::write_kept_state() {
  if (!team_.leads()) return;
  nlohmann::json items = nlohmann::json::array();
  for (const auto& item : kept_items(key_.composition, methods_)) items.push_back(item.to_json());
  write_file_atomically(fmt::format("{}/stages/{:02d}/kept.json", key_.folder, at_.stage),
                        nlohmann::json{{"stage", at_.stage}, {"items", items}}.dump(1) + "\n");
}

}  // namespace asr
