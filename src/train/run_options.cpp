#include "train/run_options.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/assets.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/text.h"
#include "io/task_names.h"
#include "train/run_presets.h"

namespace asr {

void RunOptions::visit(OptionVisitor& v) {
  v("method", method, "one that 'asr methods' lists, or several joined by +; a list makes a run each");
  v("label", label, "name of the run in tables and folders; empty: the method");
  v("seeds", seeds, 0, 1000000, "a run each");
  v("orders", orders, 1, 1000, "task orders: the stream's own, then random ones, a run each");
  v("model_name_or_path", model, "a model file, or the name of one that ships: tiny-S, tiny_cross-S, ...");
  v("output_dir", output_dir, "where the run is written");
  v("device", device, "cpu or cuda");
  v("stream.name", stream.name, "which stream; see 'asr streams'");
  v("stream.path", stream.path, "folder of a prepared stream or of a manifest; the built-in world reads none");
  v("stream.train", stream.train, 0, 100000000, "training samples a task; 0: all (1600 of the built-in world)");
  v("stream.val", stream.val, 0, 100000000, "validation samples a task; 0: all (300 of the built-in world)");
  v("stream.tasks", stream.tasks, 0, 1000, "only the first so many tasks; 0: all");
  v("stream.groups", stream.groups,
    "where tasks have groups with an order (VQACL): each trained in turn, or all of a task mixed");
  v("stream.seed", stream.seed, StreamOptions::kRunSeed, 1000000,
    "which training and test samples are drawn (built-in world); -1: each run's own seed says");
  v("stream.image_size", stream.image_size, 8, 4096, "pixels a side (built-in world)");
  v("preset", preset,
    "values of options that nothing else sets: none, of the methods' own authors (native), of the ASR paper, or this "
    "project's one setting for all streams, its method too (asr-best: see configs/asr-best.yaml)");
  v("learning_rate", learning_rate, 0, 10, "peak rate of AdamW");
  v("num_train_epochs", num_train_epochs, 0.01, 10000, "passes over a stage's data");
  v("task_epochs", task_epochs, "passes over the data of single tasks instead, as in [TextVQA=5, OCR-VQA=5]");
  v("max_stage_steps", max_stage_steps, 0, 1000000000,
    "no stage takes more steps than this (joint has no stages); 0: as its epochs say");
  v("per_device_train_batch_size", batch, 1, 1000000, "samples of a forward pass, over all processes");
  v("gradient_accumulation_steps", accumulation, 1, 100000, "forward passes a step");
  v("lr_scheduler_type", schedule, "cosine to 0 over a stage, or constant");
  v("warmup_ratio", warmup_ratio, 0, 1, "part of a stage's steps with a rising rate; 0: none");
  v("weight_decay", weight_decay, 0, 10, "of AdamW; 0: none");
  v("max_grad_norm", max_grad_norm, 0, 1e6, "gradients are scaled down to this norm; 0: never");
  v("lora_rank", lora_rank, 1, 4096, "of the adapters");
  v("lora_alpha", lora_alpha, 0, 1e6, "adapters are scaled by lora_alpha / lora_rank");
  v("lora_dropout", lora_dropout, 0, 0.9, "on what adapters read, in multiples of 1/256; 0: none");
  v("lora_sites", lora_sites,
    "linears with adapters: queries and values (with those of cross-attention and of a Q-Former), or all of the "
    "language model; and the projector");
  v("projector", projector, "an adapter like the others, its whole weights, or neither");
  v("projector_learning_rate", projector_learning_rate, 0, 10,
    "peak rate of a projector that is trained whole; 0: learning_rate");
  v("head", head, "answers are generated token by token, or chosen from a closed list of the stream's answers");
  v("attention.layers", tap_layers, 1, 1000, "how many of the last fusion layers are tapped");
  v("attention.grid", backbone.grid, 2, 1024, "cells a side of attention maps where pictures differ in shape");
  v("attention.qformer_rows", query_rows, "a Q-Former's queries count alike, or by the question's attention to them");
  v("geometry.layer", backbone.geometry_layer, 0, 1000, "decoder layer whose states are pooled; 0: the last");
  v("geometry.batch", geometry_batch,
    "similarities among the samples of a forward pass, or of a whole step: all its passes, each run forward twice");
  v("gradient_checkpointing", recompute, "layers run again in the backward pass instead of keeping their insides");
  v("base_precision", base_precision,
    "frozen weights of the language model as stored (plain), in float8 for speed, where the GPU has it (fp8), or in "
    "four bits for memory (nf4)");
  v("recipe", recipe,
    "prompt and image size: each model family's own, or the paper's (256 text tokens, 512 pixels, flips and crops)");
  v("dataloader_num_workers", workers, 0, 256, "batches read ahead, where pictures come from files; 0: none");
  v("memory.samples", memory_samples, 0, 1000000000,
    "samples a stage that prototypes are measured on, drawn at random; 0: all");
  v("analysis.memory", analysis_memory,
    "prototypes of every stage are measured for every method; no: only for methods that need them, which saves a pass");
  v("analysis.samples", analysis_samples, 1, 1000000,
    "validation samples a task for spectra per skill, drawn at random, the same in all runs");
  v("analysis.premise", analysis_premise,
    "what 'asr premise' reads beyond the rest: spectra of the base (stages/00), and of every layer and head");
  v("analysis.overlays", overlays, 0, 64, "attention maps a stage kept as pictures");
  v("eval_split", eval_split, "which split is scored; tune is for choosing settings and never reported");
  v("per_device_eval_batch_size", eval_batch, 1, 1000000, "samples generated together");
  v("answers.merge", answer_merge,
    "while answering, adapters without a gate are added to a copy of the weights they change: a few roundings fewer or "
    "more; auto: on a GPU; no: never");
  v("skills.parser", parser,
    "the skill parser: a file, or the name of one that ships; empty: parser-world for the built-in world, else "
    "parser-small");
  v("skills.taxonomy", taxonomy,
    "YAML file of skills and aliases, see configs/taxonomy.yaml; empty: the built-in ones");
  v("skills.lexicon", lexicon,
    "parts of speech for functional tokens: WordNet where installed, WordNet, or lists alone");
  v("data.cache", data_cache,
    "folder where drawn pictures, on a CPU vision features of built-in models, and hashes of model files are kept for "
    "later runs of the same samples or models, which read them instead; any number of runs may share it; empty: none");
  v("full_determinism", same_bits,
    "on a GPU, sums in a fixed order: the same seed gives the same bits, also after --resume; no: faster");
  v("save_steps", save_steps, 0, 1000000000, "steps between checkpoints; 0: by time alone");
  v("save_minutes", save_minutes, 0, 100000, "minutes between checkpoints; 0: by steps alone");
  v("save_total_limit", keep_checkpoints, 1, 1000, "checkpoints kept; older ones are deleted");
  v("logging_steps", logging_steps, 1, 1000000, "steps between lines of log.jsonl");
  v("report_to", report_to, "[tensorboard]: an event file beside log.jsonl with the same numbers; empty: none");
}

BackboneOptions RunOptions::backbone_options() const {
  auto out = backbone;
  out.text_weighted_queries = query_rows == QueryRows::text;
  out.recompute = recompute == Switch::yes;
  out.recipe = recipe == Recipe::asr_paper ? "asr-paper" : "native";
  out.ends_at_answers = device == "cuda";  // on a CPU it would change the bits of results that are kept
  return out;
}

std::string RunOptions::parser_path() const {
  const bool world = stream.name.compare(0, 5, "world") == 0;
  const auto name = !parser.empty() ? parser : world ? "parser-world.safetensors" : "parser-small.safetensors";
  if (name.find('/') == std::string::npos) return find_asset(name);
  check(path_exists(name), "skills.parser: ", name,
        " is not there; train one of the paper's size on your own questions with 'asr parser train --size paper "
        "--source ",
        stream.path.empty() ? "FOLDER" : stream.path, " --source templates -o ", name,
        "' (--device cuda: minutes), or use the small one that ships: --set skills.parser=parser-small.safetensors");
  return name;
}

DataSplit RunOptions::scored_split() const {
  return eval_split == EvalSplit::val    ? DataSplit::val
         : eval_split == EvalSplit::test ? DataSplit::test
                                         : DataSplit::tune;
}

namespace {

// "NAME=NUMBER" in its parts.
std::pair<std::string, double> task_epoch(const std::string& text) {
  const auto place = text.rfind('=');
  std::pair<std::string, double> out;
  const bool good = place != std::string::npos && place > 0 && parse_double(text.substr(place + 1), out.second);
  check(good && out.second >= 0.01 && out.second <= 10000, "task_epochs: '", printable(text),
        "' must be NAME=NUMBER with a number from 0.01 to 10000, as in [TextVQA=5]");
  out.first = text.substr(0, place);
  return out;
}

}  // namespace

double RunOptions::epochs_of(const std::string& task) const {
  for (const auto& entry : task_epochs)
    if (const auto [name, epochs] = task_epoch(entry); name == task) return epochs;
  return num_train_epochs;
}

int64_t RunOptions::all_steps(double epochs, int64_t samples, double rows) const {
  const double each = rows * static_cast<double>(accumulation), all = epochs * static_cast<double>(samples);
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(all / each - 1e-9)));
}

int64_t RunOptions::stage_steps(double epochs, int64_t samples, double rows) const {
  const int64_t steps = all_steps(epochs, samples, rows);
  return max_stage_steps > 0 ? std::min(steps, max_stage_steps) : steps;
}

void check_task_names(const RunOptions& run, const Stream& stream) {
  if (run.stream.tasks > 0) return;  // a stream cut short need not have them all
  std::vector<std::string> names;
  for (const auto& task : stream.tasks()) names.push_back(task.name);
  for (const auto& entry : run.task_epochs) {
    const auto name = task_epoch(entry).first;
    check(std::find(names.begin(), names.end(), name) != names.end(), "task_epochs: ", stream.name(), " has no task '",
          printable(name), "'", did_you_mean(name, names));
  }
}

std::string batch_warning(const RunOptions& run, const Stream& stream) {
  const bool stages =
      std::any_of(run.method.begin(), run.method.end(), [](const auto& m) { return !trains_jointly(m); });
  const int64_t step = run.batch * run.accumulation;
  std::string smallest;
  int64_t fewest = step, count = 0;
  const auto look = [&](const std::string& name, int64_t samples) {
    if (samples >= step) return;
    ++count;
    if (samples < fewest) {
      fewest = samples;
      smallest = name;
    }
  };
  for (size_t task = 0; stages && task < stream.tasks().size(); ++task) {
    const auto name = cat("task '", printable(stream.tasks()[task].name), "'");
    const auto phases = stream.phases(task);
    if (phases.empty()) look(name, stream.size(task, DataSplit::train));
    for (const auto& phase : phases)
      look(cat("group '", printable(phase.name), "' of ", name), static_cast<int64_t>(phase.rows.size()));
  }
  if (count == 0) return "";
  return cat("a step takes ", step, " samples (per_device_train_batch_size=", run.batch,
             " x gradient_accumulation_steps=", run.accumulation, "), but ", smallest, " has ", fewest,
             count > 1 ? cat(", and ", count - 1, " more have too few") : "",
             ": samples come several times in one step; lower the batch");
}

namespace {

std::string section_of(const std::string& key) {
  return key.substr(0, key.find('.'));
}

// Whether the option is no method's alone: the analysis of every run reads it. `memory.` is a section of both, so that
// a name there that nobody knows is the run's.
bool is_of_analysis(const std::string& key) {
  const auto keys = Options().table().keys();
  const auto section = key.substr(0, key.find('.'));
  return std::any_of(keys.begin(), keys.end(), [&](const std::string& known) {
    return known == key || (section != "memory" && section != key && section_of(known) == section);
  });
}

using MethodSet = std::vector<std::pair<std::string, std::unique_ptr<Method>>>;

// The options of every registered method, bound to `methods`.
OptionTable method_table(MethodSet& methods) {
  OptionTable table;
  for (auto& [name, method] : methods) table.add(name, *method);
  return table;
}

// Whether `key` is one of the table's; setting it fails on a bad value.
bool set_if_known(OptionTable& table, const Assignment& assignment) {
  const auto keys = table.keys();
  if (std::find(keys.begin(), keys.end(), assignment.key) == keys.end()) return false;
  table.set(assignment);
  return true;
}

[[noreturn]] void unknown_key(const Assignment& a, const std::vector<std::string>& keys) {
  for (const auto& key : keys)  // the section was left out
    check(key.size() <= a.key.size() || key.compare(key.rfind('.') + 1, std::string::npos, a.key) != 0, a.origin,
          ": option '", printable(a.key), "' is unknown; did you mean '", key, "'?");
  fail(a.origin, ": option '", printable(a.key), "' is unknown", did_you_mean(a.key, keys));
}

// A label is the name of a folder beside the files of output_dir, and stands in tables.
void check_label(const std::string& label) {
  if (label.empty()) return;
  const auto problem = name_problem(label);
  check(problem.empty(), "label: '", printable(label), "' ", problem);
  check(label.find('/') == std::string::npos && label[0] != '.', "label: '", printable(label),
        "' cannot be the name of a folder; use one without '/' and without a leading '.'");
  const bool temporary = label.find(".tmp-") != std::string::npos;  // cleared away after a killed process
  for (const char* file : {"config.yaml", "fingerprint.json", "compare.md", "compare.csv", "report.html", "report.md",
                           "report.tex", "tune.csv", "tuned.yaml"})
    check(label != file && !temporary, "label: '", printable(label), "' is the name of a file of output_dir",
          temporary ? " while it is written" : "", "; choose another");
}

void check_run(const RunOptions& run) {
  check(!run.method.empty(), "method: the list is empty");
  check(std::set<std::string>(run.method.begin(), run.method.end()).size() == run.method.size(),
        "method: one stands twice");
  check(!run.seeds.empty(), "seeds: the list is empty");
  check(std::set<int64_t>(run.seeds.begin(), run.seeds.end()).size() == run.seeds.size(), "seeds: one stands twice");
  check(run.label.empty() || run.method.size() == 1, "label: names one method, but ", run.method.size(), " are to run");
  check_label(run.label);
  check(run.lora_alpha > 0, "lora_alpha=0: adapters scaled by 0 change nothing and never learn; try 32");
  check(run.device == "cpu" || run.device == "cuda", "device: '", printable(run.device),
        "' is unknown; use cpu or cuda");
  for (const auto& target : run.report_to)
    check(target == "tensorboard", "report_to: '", printable(target), "' is unknown",
          did_you_mean(target, {"tensorboard"}));
  std::set<std::string> named;
  for (const auto& entry : run.task_epochs)
    check(named.insert(task_epoch(entry).first).second, "task_epochs: '", printable(task_epoch(entry).first),
          "' stands twice");
  for (const auto& composition : run.method) method_parts(composition);
}

}  // namespace

RunConfig resolve_run(const std::vector<Assignment>& assignments) {
  RunConfig config;
  auto methods = all_methods();
  OptionTable run_table, methods_table = method_table(methods);
  run_table.add("", config.run);
  std::vector<Assignment> spectral;
  const auto apply = [&](const Assignment& a) {
    if (is_of_analysis(a.key)) {
      spectral.push_back(a);
    } else if (set_if_known(methods_table, a)) {
      config.method_assignments.push_back(a);
    } else if (!set_if_known(run_table, a)) {
      auto keys = run_table.keys();
      for (const auto& key : methods_table.keys()) keys.push_back(key);
      for (const auto& key : config.options.table().keys()) keys.push_back(key);
      unknown_key(a, keys);
    }
  };
  for (const auto& a : assignments) apply(a);
  const auto preset = values_of_preset(config.run, assignments);
  for (const auto& a : preset.taken) apply(a);
  config.preset_note = preset.note();
  config.options = resolve_options("sound", spectral);
  check_run(config.run);
  return config;
}

std::vector<std::string> method_names() {
  std::vector<std::string> out;
  for (const auto& info : method_infos()) out.push_back(info.name);
  return out;
}

std::vector<std::string> methods_with_section(const nlohmann::json& stored) {
  std::vector<std::string> out;
  for (const auto& name : method_names())
    if (stored.is_object() && stored.contains(name)) out.push_back(name);
  return out;
}

nlohmann::json RunConfig::manifest(const std::vector<std::string>& beside) const {
  std::set<std::string> shown(beside.begin(), beside.end());
  for (const auto& composition : run.method)
    for (const auto& part : method_parts(composition)) shown.insert(part);
  auto methods = all_methods();
  auto methods_table = method_table(methods);
  for (const auto& a : method_assignments) methods_table.set(a);
  RunOptions copy = run;
  OptionTable run_table;
  run_table.add("", copy);
  auto out = run_table.manifest();
  const auto sections = methods_table.manifest();
  for (const auto& [name, values] : sections.items())
    if (shown.count(name)) out[name] = values;
  out.merge_patch(options.manifest());  // a section may be of both
  return out;
}

nlohmann::json RunConfig::shared_manifest() const {
  RunOptions copy = run;
  OptionTable table;
  table.add("", copy);
  auto out = table.manifest();
  for (const char* key : {"method", "label", "seeds", "orders", "output_dir", "data", "save_steps", "save_minutes",
                          "save_total_limit", "logging_steps", "report_to", "full_determinism", "preset"})
    out.erase(key);
  return out;
}

std::string run_options_help() {
  RunOptions run;
  auto methods = all_methods();
  Options options;
  OptionTable table;
  table.add("", run);
  return table.help() + method_table(methods).help() + options.table().help();
}

std::vector<std::unique_ptr<Method>> make_methods(const std::string& composition,
                                                  const std::vector<Assignment>& assignments) {
  auto methods = all_methods();
  {
    auto table = method_table(methods);
    for (const auto& a : assignments) table.set(a);
  }
  std::vector<std::unique_ptr<Method>> out;
  for (const auto& part : method_parts(composition))
    for (auto& [name, method] : methods)
      if (name == part) out.push_back(std::move(method));
  return out;
}

}  // namespace asr
