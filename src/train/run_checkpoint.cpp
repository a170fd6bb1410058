#include "train/run_checkpoint.h"

#include <algorithm>
#include <set>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/log.h"
#include "data/measure.h"
#include "train/kept_state.h"
#include "train/run_identity.h"

namespace asr {
namespace {

constexpr const char* kAdapter = "adapter.";

}  // namespace

nlohmann::json RunCheckpoint::state() const {
  const auto& at = parts_.at;
  nlohmann::json skills = nlohmann::json::object();
  for (const auto& [name, values] : at.skills) {
    auto list = nlohmann::json::array();
    for (const auto& value : values) list.push_back(value ? nlohmann::json(*value) : nlohmann::json());
    skills[name] = list;
  }
  const auto mark = recorder_.log_mark();
  return {{"global_step", at.global_step},
          {"stage", at.stage},
          {"step", at.step},
          {"phase", at.phase},
          {"phase_step", at.phase_step},
          {"optimizer_steps", loop_.optimizer() ? loop_.optimizer()->steps : 0},
          {"trained", at.trained},
          {"most_parameters", at.most_parameters},
          {"prepare_seconds", at.prepare_seconds},
          {"train_seconds", at.train_seconds},
          {"other_seconds", at.other_seconds},
          {"model_steps", at.model_steps},
          {"samples", at.samples},
          {"eval_seconds", at.eval_seconds},
          {"finish_seconds", at.finish_seconds},
          {"scores", at.rows},
          {"novel", at.novel},
          {"outside", at.outside},
          {"skills", skills},
          {"slots", parts_.bank.describe()},
          {"log_bytes", mark.bytes},
          {"log_sha256", mark.sha256},
          {"changes", at.changes},
          {"fingerprint", parts_.key.fingerprint},
          {"method", parts_.key.composition},
          {"seed", parts_.key.seed},
          {"order", parts_.key.order},
          {"config", parts_.config.manifest()}};
}

NamedTensors RunCheckpoint::moving() const {
  NamedTensors out;
  for (const auto& [name, tensor] : parts_.bank.trained())
    out.emplace_back(kAdapter + name, tensor.detach().cpu().clone());
  for (const auto& [name, tensor] : parts_.objective->parameters())
    out.emplace_back(kAdapter + name, tensor.detach().cpu().clone());
  if (const auto* optimizer = loop_.optimizer()) {
    out.emplace_back("optimizer.first", optimizer->first.cpu().clone());
    out.emplace_back("optimizer.second", optimizer->second.cpu().clone());
  }
  return out;
}

NamedTensors RunCheckpoint::tensors() {
  auto out = moving();
  for (const auto& item : held_items(parts_)) out.emplace_back(item.name, item.tensor.cpu().contiguous());
  return out;
}

RunCheckpoint::Written RunCheckpoint::written(const HeldItem& item) {
  const auto& t = item.tensor;
  return {t.storage().getWeakStorageImpl(),
          t.data_ptr(),
          t.sizes().vec(),
          t.scalar_type(),
          item.version,
          t.nbytes(),
          hash_of(t)};
}

bool RunCheckpoint::is_written(const HeldItem& item) {
  const auto place = written_.find(item.name);
  if (place == written_.end()) return false;
  auto& known = place->second;
  const auto& t = item.tensor;
  const bool untouched = !known.storage.expired() && known.data == t.data_ptr() && known.sizes == t.sizes() &&
                         known.version == item.version && item.version != HeldItem::kTrained &&
                         known.type == t.scalar_type();
  if (untouched) return true;
  // Items that are made for every visit are equal by what they hold.
  if (t.nbytes() != known.bytes) return false;
  auto now = written(item);
  if (now.sha256 != known.sha256) return false;
  known = std::move(now);
  return true;
}

// The larger part unchanged: that file serves on, and what has changed goes beside what changes with every step.
KeptPart RunCheckpoint::kept_part(NamedTensors& changing) {
  KeptPart out;
  const auto items = held_items(parts_);
  std::vector<const HeldItem*> changed;
  std::set<std::string> held;
  size_t bytes = 0, changed_bytes = 0;
  for (const auto& item : items) {
    held.insert(item.name);
    bytes += item.tensor.nbytes();
    if (is_written(item)) continue;
    changed.push_back(&item);
    changed_bytes += item.tensor.nbytes();
  }
  // An item that is gone must not come back out of the file.
  const bool all_held =
      std::all_of(written_.begin(), written_.end(), [&](const auto& w) { return held.count(w.first); });
  if (written_at_ && all_held && 2 * changed_bytes < bytes) {
    for (const auto* item : changed) changing.emplace_back(item->name, item->tensor.cpu().contiguous());
    out.same_as = written_at_;
    return out;
  }
  written_.clear();
  for (const auto& item : items) {
    out.tensors.emplace_back(item.name, item.tensor.cpu().contiguous());
    written_.insert_or_assign(item.name, written(item));
  }
  return out;
}

// A checkpoint is where people go back to: it must not hold what no training can lead out of.
void RunCheckpoint::check_finite(const NamedTensors& list) const {
  for (const auto& [name, tensor] : list) {
    if (name.rfind(kAdapter, 0) != 0 && name.rfind("optimizer.", 0) != 0) continue;
    if (!tensor.isfinite().all().item<bool>())
      fail_system("after step ", parts_.at.step, " of stage ", parts_.at.stage, " '", name,
                  "' holds what is no number, and is not saved; the last checkpoint is of step ", loop_.saved_step,
                  ": go on from there with --resume and a lower learning_rate");
  }
}

void RunCheckpoint::start_clock() {
  last_save_ = now();
}

bool RunCheckpoint::due() const {
  const auto& run = parts_.config.run;
  return run.save_minutes > 0 && now() - last_save_ > run.save_minutes * 60;
}

void RunCheckpoint::save() {
  if (!parts_.team.leads()) return;
  Checkpoint checkpoint{moving(), state()};
  auto kinds = nlohmann::json::object();
  for (const auto& item : listed_items(parts_.key.composition, parts_.methods)) kinds[item.name] = name_of(item.kind);
  checkpoint.state["kept"] = kinds;
  check_finite(checkpoint.tensors);
  auto& files = recorder_.files();
  files.commit();
  sync_to_disk(recorder_.log_path());  // the checkpoint counts on its lines
  // Somebody may have tidied up.
  if (written_at_ &&
      !path_exists(cat(parts_.key.folder, "/checkpoints/checkpoint-", *written_at_, "/kept.safetensors")))
    written_at_.reset();
  const auto kept = kept_part(checkpoint.tensors);
  save_checkpoint(parts_.key.folder + "/checkpoints", checkpoint, kept, parts_.config.run.keep_checkpoints);
  written_at_ = parts_.at.global_step;
  const auto mark = recorder_.log_mark();
  files.cover_beginning("log.jsonl", mark.bytes, mark.sha256);
  files.save();
  loop_.saved_step = parts_.at.global_step;
  last_save_ = now();
}

// Checkpoints of one plain adapter need not describe it.
void RunCheckpoint::restore_adapters(const Checkpoint& checkpoint) {
  const auto where = parts_.key.folder + ": the checkpoint's slots";
  if (checkpoint.state.contains("slots")) parts_.bank.rebuild(checkpoint.state["slots"], where);
  at::NoGradGuard no_grad;
  for (const auto& list : {parts_.bank.tensors(), parts_.objective->parameters()})
    for (const auto& [name, tensor] : list) {
      auto value = tensor;
      value.copy_(checkpoint.at(kAdapter + name, tensor.sizes()));
    }
  parts_.bank.finish_rebuild();
}

void RunCheckpoint::restore(Checkpoint checkpoint, const NamedTensors& apart) {
  const auto& stored = checkpoint.state;
  auto& at = parts_.at;
  const JsonFields fields(stored, parts_.key.folder + ": the checkpoint's state");
  fields.object("config");
  at.global_step = fields.integer("global_step");
  at.stage = static_cast<int>(fields.integer("stage"));
  at.step = fields.integer("step");
  if (fields.has("phase")) {
    at.phase = fields.integer("phase");
    at.phase_step = fields.integer("phase_step");
  } else if (at.stage > 0) {  // of a version that counted steps alone
    const auto phases = parts_.phases(at.stage);
    while (at.phase + 1 < static_cast<int64_t>(phases.size()) && at.step >= phases[static_cast<size_t>(at.phase)].end())
      ++at.phase;
    at.phase_step = phases[static_cast<size_t>(at.phase)].first;
  }
  at.trained = fields.flag("trained");
  at.rows = fields.number_rows("scores");
  at.novel = fields.number_rows("novel");
  if (fields.has("outside")) at.outside = fields.number_rows("outside");
  at.train_seconds = fields.number("train_seconds");
  if (fields.has("model_steps")) {
    at.other_seconds = fields.number("other_seconds");
    at.model_steps = fields.integer("model_steps");
    at.samples = fields.integer("samples");
    at.prepare_seconds = fields.number("prepare_seconds");
    at.most_parameters = fields.integer("most_parameters");
  } else {  // of a version that counted steps alone
    at.model_steps = at.global_step;
    at.samples = at.global_step * parts_.config.run.batch * parts_.config.run.accumulation;
  }
  at.eval_seconds = fields.number("eval_seconds");
  at.finish_seconds = fields.number("finish_seconds");
  const auto skills = fields.object("skills");
  for (const auto& [name, values] : fields.at("skills").items())
    for (const auto& value : skills.list(name.c_str())) {
      check(value.is_number() || value.is_null(), skills.where(), ": '", name, "' holds something else than numbers");
      at.skills[name].push_back(value.is_null() ? std::nullopt : std::optional<double>(value.get<double>()));
    }
  restore_adapters(checkpoint);
  load_method_items(parts_, checkpoint.tensors);
  StateLoader analysis("analysis.", checkpoint.tensors, at::kCPU);
  visit_memory(parts_.analysis_memory, analysis);
  for (const auto& [name, tensor] : apart)
    written_.insert_or_assign(name, written({name, StateKind::statistics, tensor}));
  if (!apart.empty()) written_at_ = at.global_step;
  loop_.saved_step = at.global_step;
  at.changes = stored.at("changes");
  if (parts_.team.leads()) recorder_.restore_log(stored);
  note_changes(stored.at("config"));
  if (at.step > 0 && !at.trained) waiting_ = std::move(checkpoint);
}

// Of the options, those that may change on the way; which they are says train/run_identity.h.
void RunCheckpoint::note_changes(const nlohmann::json& before) {
  auto& at = parts_.at;
  for (const auto& change : option_changes(before, parts_.config.manifest())) {
    const nlohmann::json note = {{"option", change.key},
                                 {"before", change.before},
                                 {"after", change.after},
                                 {"stage", at.stage},
                                 {"current_steps", at.global_step}};
    at.changes.push_back(note);
    recorder_.log({{"stage", at.stage}, {"changed", note}});
    if (parts_.team.leads())
      log_warn(cat(parts_.key.folder, ": from step ", at.global_step, " on ", change.key, " is ", change.after.dump(),
                   ", before it was ", change.before.dump(), "; log.jsonl and metrics.json note it"));
  }
}

}  // namespace asr
