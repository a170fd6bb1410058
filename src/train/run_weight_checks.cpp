// What a run stores of its weights and state: adapters, slots, checkpoints.
#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "io/safetensors_metadata.h"
#include "tensor/tensor_io.h"
#include "train/run_checks.h"
#include "train/run_identity.h"

namespace asr {
namespace {

using nlohmann::json;

const json& state_shape() {  // "config" and "kept" are compared with what the run's options give
  static const json shape = json_shape(R"({
    "global_step": "number", "stage": "number", "step": "number", "phase": "number", "phase_step": "number",
    "optimizer_steps": "number", "kept_apart": "flag", "trained": "flag", "train_seconds": "number",
    "other_seconds": "number", "model_steps": "number", "samples": "number", "prepare_seconds": "number",
    "most_parameters": "number",
    "eval_seconds": "number", "finish_seconds": "number", "scores": [["number"]], "novel": [["number"]],
    "outside": [["number"]],
    "skills": {"<skill>": ["number"]}, "log_bytes": "number", "log_sha256": "hash",
    "method": "text", "seed": "number", "order": "number",
    "changes": [{"option": "text", "before": "number", "after": "number", "stage": "number",
                 "current_steps": "number"}],
    "config": "anything", "kept": "anything", "slots": "anything", "fingerprint": "anything"})");
  return shape;
}

const json& adapter_config_shape() {
  static const json shape = json_shape(R"({
    "peft_type": "text", "task_type": "text", "base_model_name_or_path": "text", "revision": "number", "r": "number",
    "lora_alpha": "number", "lora_dropout": "number", "target_modules": ["text"], "bias": "text",
    "modules_to_save": "number", "inference_mode": "flag", "fan_in_fan_out": "flag", "use_rslora": "flag",
    "use_dora": "flag", "init_lora_weights": "flag", "rank_pattern": "anything", "alpha_pattern": "anything"})");
  return shape;
}

// Slots as the bank describes them, of a layout that the methods ask for; nothing else fits into the list.
void check_slot_layouts(RunChecks& checks, const std::string& name, const json& slots) {
  check(slots.is_array(), name, ": 'slots' is no list");
  for (const auto& stored : slots) {
    const auto layout = slot_layout_from(stored, name);
    const JsonFields fields(stored, name);
    const auto& frozen = fields.list("frozen");
    const auto known = checks.facts.slots.find(layout.name);
    if (known == checks.facts.slots.end()) {
      checks.violation(cat(name, ": adapter slot '", printable(layout.name), "' is undeclared"));
      continue;
    }
    auto written = to_json(layout);
    written["merged"] = fields.flag("merged");
    written["frozen"] = frozen;
    // A method may leave some of the declared sites out when it has seen a stage's data.
    const auto is_declared = [&](const SiteLayout& site) {
      return std::any_of(known->second.sites.begin(), known->second.sites.end(), [&](const SiteLayout& declared) {
        return site.site == declared.site && site.rank == declared.rank && site.experts == declared.experts &&
               site.scale == declared.scale && site.full == declared.full;
      });
    };
    bool same = written == stored && std::all_of(layout.sites.begin(), layout.sites.end(), is_declared);
    for (const auto& tensor : frozen)
      same = same && tensor.is_string() && checks.facts.adapter.count(tensor.get<std::string>()) > 0;
    if (!same) checks.violation(cat(name, ": adapter slot '", printable(layout.name), "' is not as declared"));
  }
}

void check_state(RunChecks& checks, const std::string& name, const json& state) {
  checks.match(state, state_shape(), name);
  const JsonFields fields(state, name);
  const auto& stored = fields.at("config");
  if (stored != with_changes_of(stored, checks.facts.config.manifest(methods_with_section(stored))))
    checks.violation(name + ": 'config' holds more than the run's options");
  if (fields.has("slots")) check_slot_layouts(checks, name, fields.list("slots"));
  if (fields.has("fingerprint")) checks.fingerprint(fields.at("fingerprint"), name + ": 'fingerprint'");
  for (const auto& [key, kind] : fields.at("kept").items()) {
    const auto declared =
        std::find_if(checks.facts.kept.begin(), checks.facts.kept.end(), [&key = key](const StateShape& shape) {
          const auto stem = shape.name.substr(0, shape.name.size() - 1);
          return shape.name == key || (ends_with(shape.name, "*") && key.rfind(stem, 0) == 0);
        });
    if (declared == checks.facts.kept.end() || kind != name_of(declared->kind))
      checks.violation(cat(name, ": keeps '", printable(key), "' as ", printable(kind.dump(), 40),
                           ", which its method does not declare"));
    else if (declared->lasts == Lasts::stage && fields.integer("step") == 0)
      checks.violation(cat(name, ": keeps '", printable(key), "' between stages, which its method needs within one"));
  }
}

}  // namespace

void check_adapter_config(RunChecks& checks, const std::string& name) {
  const auto stored = checks.json_file(name, adapter_config_shape(), 2);
  const JsonFields fields(stored, name);
  for (const char* pattern : {"rank_pattern", "alpha_pattern"}) {
    fields.object(pattern);
    for (const auto& [site, value] : fields.at(pattern).items())
      if (!value.is_number() || !checks.facts.plain.count(site + ".lora_A.weight"))
        checks.violation(cat(name, ": '", pattern, "' names '", printable(site), "', which the run does not adapt"));
  }
}

namespace {

std::vector<StateShape> declared_shapes(const std::map<std::string, std::vector<int64_t>>& known) {
  std::vector<StateShape> out;
  for (const auto& [name, shape] : known) out.push_back({name, StateKind::statistics, shape});
  return out;
}

// Of a teacher's copy, or of an adapter that the methods lay out.
std::string weight_kind(const std::string& name) {
  auto slot = name.substr(0, name.find(':'));
  if (slot.rfind("adapter.", 0) == 0) slot = slot.substr(8);
  return ends_with(slot, ".teacher") ? "teacher" : "weights";
}

}  // namespace

void check_adapter(RunChecks& checks, const std::string& name) {
  const auto file = checks.tensor_file(name, {"format"});
  checks.metadata(file, "format", "pt");
  for (const auto& view : file.tensors)
    checks.tensor(file, view, declared_shapes(checks.facts.plain), "base_model.model.", "weights");
}

void check_head(RunChecks& checks, const std::string& name) {
  const auto file = checks.tensor_file(name, {"format"});
  checks.metadata(file, "format", "pt");
  for (const auto& view : file.tensors) checks.tensor(file, view, declared_shapes(checks.facts.head), "", "weights");
}

void check_slot_list(RunChecks& checks, const std::string& name) {
  static const json shape = json_shape(R"({"format": "number", "why": "text", "method": "text", "stage": "number",
    "base_model": "text", "slots": "anything", "config": "anything"})");
  const auto stored = checks.json_file(name, shape, 1);
  const JsonFields fields(stored, name);
  check_slot_layouts(checks, name, fields.list("slots"));
  fields.object("config");
  const auto& options = fields.at("config");
  auto expected = checks.facts.config.manifest(methods_with_section(options));
  expected.erase("output_dir");
  if (options != with_changes_of(options, expected))
    checks.violation(name + ": 'config' holds more than the run's options");
}

void check_slots(RunChecks& checks, const std::string& name) {
  const auto file = checks.tensor_file(name, {"asr_adapter"});
  checks.metadata(file, "asr_adapter", "1");
  for (const auto& view : file.tensors) {
    const bool method = view.name.rfind("method.", 0) == 0;
    checks.tensor(file, view, method ? checks.facts.kept : declared_shapes(checks.facts.adapter), "",
                  method ? "statistics" : weight_kind(view.name));
  }
}

void check_kept_list(RunChecks& checks, const std::string& name) {
  static const json shape = json_shape(R"({"stage": "number", "items": [
    {"name": "text", "kind": "text", "shape": ["number"], "bytes": "number", "sha256": "hash"}]})");
  const auto stored = checks.json_file(name, shape, 1);
  const JsonFields fields(stored, name);
  for (const auto& item : fields.list("items"))
    for (const auto& declared : checks.facts.kept)
      if (declared.lasts == Lasts::stage && item.is_object() && item.contains("name") && item["name"] == declared.name)
        checks.violation(cat(name, ": lists '", declared.name, "', which its method needs within a stage alone"));
}

void check_trainer_state(RunChecks& checks, const std::string& name) {
  check_state(checks, name, checks.json_file(name, state_shape(), 1));
}

namespace {

// A tensor of a checkpoint that is no optimizer's: weights, the analysis, or what a method keeps, of the kind it says.
void check_stored_tensor(RunChecks& checks, const Safetensors& file, const TensorView& view, const json& kept) {
  const auto& facts = checks.facts;
  if (view.name.rfind("adapter.", 0) == 0)
    return checks.tensor(file, view, declared_shapes(facts.adapter), "adapter.", weight_kind(view.name));
  if (view.name.rfind("analysis.", 0) == 0) return checks.tensor(file, view, facts.memory, "analysis.", "analysis");
  const bool declared = kept.contains(view.name) && kept[view.name].is_string();
  for (const auto& shape : facts.kept)
    if (!declared && shape.lasts == Lasts::stage && shape.name == view.name)
      checks.violation(cat(file.path, ": holds '", view.name, "' beside a state that does not list it"));
  checks.tensor(file, view, facts.kept, "", declared ? kept[view.name].get<std::string>() : "undeclared");
}

}  // namespace

void check_checkpoint(RunChecks& checks, const std::string& name) {
  const auto file = checks.tensor_file(name, {"state"});
  const json state = metadata_json(file, "state");
  checks.metadata(file, "state", state.dump());
  checks.text(name + " (state)", "settings", file.metadata.at("state"));
  check_state(checks, name, state);
  const auto& facts = checks.facts;
  const auto& kept = state.at("kept");
  // Of adapters, head and the methods' own parameters.
  const int64_t trained = facts.sizes.parameters + facts.sizes.own_parameters;
  const std::vector<StateShape> moments = {{"first", StateKind::statistics, {trained}},
                                           {"second", StateKind::statistics, {trained}}};
  for (const auto& view : file.tensors) {
    if (view.name.rfind("optimizer.", 0) == 0)
      checks.tensor(file, view, moments, "optimizer.", "optimizer");
    else
      check_stored_tensor(checks, file, view, kept);
  }
}

// Beside a state that names the kinds of its items.
void check_kept_file(RunChecks& checks, const std::string& name) {
  const auto file = checks.tensor_file(name, {});
  const auto beside = name.substr(0, name.rfind('/')) + "/trainer_state.json";
  const auto state = read_json_object(checks.path_of(beside));
  const JsonFields fields(state, beside);
  fields.object("kept");
  for (const auto& view : file.tensors) check_stored_tensor(checks, file, view, state.at("kept"));
}

}  // namespace asr
