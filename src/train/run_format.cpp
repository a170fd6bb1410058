#include "train/run_format.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "nn/linear.h"
#include "skills/taxonomy.h"
#include "train/run_checks.h"
#include "train/run_model.h"
#include "train/run_parts.h"
#include "train/task_order.h"

namespace asr {
namespace {

namespace fs = std::filesystem;

struct KnownFile {
  const char* pattern;  // a star stands for digits
  void (*check)(RunChecks& checks, const std::string& path);
};

// One line a kind of file that a run writes.
constexpr KnownFile known_files[] = {
    {"config.yaml", check_config},
    {"fingerprint.json", check_fingerprint},
    {"checksums.json", check_checksums},
    {"log.jsonl", check_log},
    {"events.out.tfevents.*.*.0", check_events},
    {"metrics.json", check_metrics},
    {"matrix.csv", check_matrix},
    {"matrix_novel.csv", check_matrix},
    {"routing.csv", check_routing},
    {"answers_outside.csv", check_matrix},
    {"memory.safetensors", check_memory},
    {"adapter/adapter_config.json", check_adapter_config},
    {"adapter/adapter_model.safetensors", check_adapter},
    {"adapter/answer_head.safetensors", check_head},
    {"adapter/asr_adapter.json", check_slot_list},
    {"adapter/asr_adapter.safetensors", check_slots},
    {"adapter/route.safetensors", check_slots},
    {"adapter/stage-*/adapter_config.json", check_adapter_config},
    {"adapter/stage-*/adapter_model.safetensors", check_adapter},
    {"stages/*/memory.safetensors", check_memory},
    {"stages/*/analysis.safetensors", check_analysis},
    {"stages/*/kept.json", check_kept_list},
    {"predictions/stage-*-task-*.jsonl", check_predictions},
    {"predictions/novel-stage-*-task-*.jsonl", check_predictions},
    {"checkpoints/checkpoint-*/state.safetensors", check_checkpoint},
    {"checkpoints/checkpoint-*/kept.safetensors", check_kept_file},
    {"checkpoints/checkpoint-*/trainer_state.json", check_trainer_state},
};
constexpr const char* known_folders[] = {"adapter",     "adapter/stage-*",         "stages", "stages/*", "predictions",
                                         "checkpoints", "checkpoints/checkpoint-*"};

bool fits_pattern(const char* pattern, const char* name) {
  for (; *pattern; ++pattern) {
    if (*pattern != '*') {
      if (*name++ != *pattern) return false;
      continue;
    }
    if (!is_digit(*name)) return false;
    while (is_digit(*name)) ++name;
  }
  return *name == '\0';
}

// What of the stored options this version knows; the rest is a violation of its own, when the files are looked at.
nlohmann::json known_options(const nlohmann::json& stored, const nlohmann::json& known) {
  if (!stored.is_object() || !known.is_object()) return stored;
  auto out = nlohmann::json::object();
  for (const auto& [key, value] : stored.items())
    if (known.contains(key)) out[key] = known_options(value, known[key]);
  return out;
}

// The slots that the methods lay out, stage by stage, each with the largest shapes of its tensors.
void add_slots(RunFacts& facts, const std::vector<std::unique_ptr<Method>>& methods) {
  const auto& run = facts.config.run;
  const auto plain = plain_layout(facts.model->all_sites(), run);
  AdapterBank bank(facts.model->all_sites());
  for (int stage = 1; stage <= static_cast<int>(facts.order.size()); ++stage)
    for (const auto& slot : stage_layout(methods, method_parts(facts.method), bank.sites(), plain, stage))
      bank.ensure(slot, 0);
  for (const auto& [name, tensor] : bank.tensors()) {
    facts.adapter[name] = tensor.sizes().vec();
    facts.sizes.parameters += tensor.numel();
  }
  for (const auto& name : bank.slots()) facts.slots[name] = bank.layout(name);
  const auto parts = method_parts(facts.method);
  for (size_t m = 0; m < methods.size(); ++m) {
    if (methods[m]->keeps() != Keeps::teacher || !bank.has(kTrainedSlot)) continue;
    const auto teacher = parts[m] + ".teacher";
    facts.slots[teacher] = bank.layout(kTrainedSlot);
    for (const auto& [name, tensor] : bank.tensors_of(kTrainedSlot))
      facts.adapter[teacher + ":" + name] = tensor.sizes().vec();
  }
  facts.sizes.widest_site = facts.model->width();
  // What is summed up goes into one pair a site.
  for (const auto& site : bank.sites()) {
    facts.sizes.widest_site = std::max(facts.sizes.widest_site, site.linear->weight.size(1));
    facts.sizes.site_names += static_cast<int64_t>(site.name.size()) + 1;
    int64_t rank = 0;
    for (const auto& slot : site.linear->slots)
      for (const auto& expert : slot.experts) rank += expert.a.size(0);
    facts.plain[site.name + ".lora_A.weight"] = {rank, site.linear->weight.size(1)};
    facts.plain[site.name + ".lora_B.weight"] = {site.linear->weight.size(0), rank};
  }
}

void add_head(RunFacts& facts, const std::vector<std::unique_ptr<Method>>& methods) {
  const auto answers = [&] {
    std::map<std::string, int64_t> out;
    for (size_t task = 0; task < facts.stream->tasks().size(); ++task)
      for (int64_t i = 0; i < facts.stream->size(task, DataSplit::train); ++i)
        ++out[facts.stream->text(task, DataSplit::train, i).answer];
    return out;
  };
  const ObjectiveContext context{*facts.model, answers};
  auto objective = methods_objective(methods, method_parts(facts.method), context);
  if (!objective) objective = usual_objective(facts.config.run, context);
  for (const auto& [name, tensor] : objective->parameters()) facts.head[name] = tensor.sizes().vec();
  for (const auto& [name, sizes] : facts.head) {
    facts.adapter[name] = sizes;
    facts.sizes.parameters += std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
  }
}

}  // namespace

bool is_run_file(const std::string& name) {
  return std::any_of(std::begin(known_files), std::end(known_files),
                     [&](const KnownFile& file) { return fits_pattern(file.pattern, name.c_str()); });
}

RunFacts facts_of(const std::string& folder, const nlohmann::json& state) {
  const JsonFields fields(state, folder + ": the checkpoint's state");
  RunFacts out;
  out.folder = folder;
  out.method = fields.text("method");
  fields.object("config");
  // The manifest is nested; YAML text brings it back to assignments.
  const auto stored = known_options(fields.at("config"), RunConfig().manifest(method_names()));
  out.config = resolve_run(parse_yaml_options(yaml_text(stored), folder + " (stored config)"));
  const auto& run = out.config.run;
  if (!run.taxonomy.empty()) use_taxonomy(read_taxonomy(run.taxonomy));
  out.seed = fields.integer("seed");
  out.stream = make_stream(with_run_seed(run.stream, out.seed));
  out.model = load_backbone(find_model(run.model));
  out.order_number = fields.integer("order");
  out.order = task_order(out.stream->tasks().size(), out.order_number);
  for (const auto& name : skill_names()) out.names.skills.insert(name);
  for (const auto& task : out.stream->tasks()) out.names.tasks.insert(task.name);
  const auto& spectral = out.config.options.spectral;
  out.sizes.stages = static_cast<int64_t>(out.stream->tasks().size());
  out.sizes.prototypes = static_cast<int64_t>(std::max(skill_names().size(), out.stream->tasks().size()));
  constexpr int64_t kMostHeads = 256;  // of a layer
  const bool kept = spectral.heads == Heads::kept;
  out.sizes.descriptor = spectral.dim() + (kept ? run.tap_layers * kMostHeads * spectral.head_dim() : 0);
  out.sizes.angular = spectral.angular_bins;
  constexpr int64_t kLargestMap = 1 << 12;  // cells
  out.sizes.map = out.config.options.asr.spectrum == Spectrum::raw ? kLargestMap : 0;
  const auto parts = method_parts(out.method);
  const auto methods = make_methods(out.method, out.config.method_assignments);
  add_slots(out, methods);
  add_head(out, methods);
  out.memory = memory_shapes(out.sizes);
  for (const auto& method : methods)
    for (const auto& shape : method->kept(out.sizes)) {
      if (shape.kind != StateKind::adapter) continue;
      int64_t numbers = 1;
      for (const int64_t size : shape.most) numbers *= size;
      out.sizes.own_parameters += numbers;
    }
  for (size_t i = 0; i < methods.size(); ++i) {
    out.replay_free = out.replay_free && methods[i]->keeps() == Keeps::statistics;
    for (auto& shape : methods[i]->kept(out.sizes)) {
      shape.name = "method." + parts[i] + "." + shape.name;
      out.kept.push_back(std::move(shape));
    }
  }
  return out;
}

FolderFindings check_folder(const RunFacts& facts, const SampleSearch& search) {
  FolderFindings out;
  RunChecks checks(facts, search, out);
  std::error_code error;
  for (fs::recursive_directory_iterator entry(facts.folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto name = fs::path(entry->path()).lexically_relative(facts.folder).string();
    const auto fits = [&](const char* pattern) { return fits_pattern(pattern, name.c_str()); };
    const bool link = entry->is_symlink(error), folder = !link && entry->is_directory(error);
    if (folder && std::any_of(std::begin(known_folders), std::end(known_folders), fits)) continue;
    const auto known = std::find_if(std::begin(known_files), std::end(known_files),
                                    [&](const KnownFile& file) { return fits(file.pattern); });
    if (link || folder || known == std::end(known_files) || !entry->is_regular_file(error)) {
      out.violations.push_back(cat(printable(name, 200), ": is no file that a run writes"));
      continue;
    }
    ++out.files;
    out.bytes += static_cast<int64_t>(entry->file_size(error));
    try {
      known->check(checks, name);
    } catch (const Error& problem) {  // damaged, or in another form: what it holds is not known
      out.violations.push_back(problem.what());
    }
  }
  check(!error, facts.folder, ": cannot be listed: ", error.message());
  return out;
}

}  // namespace asr
