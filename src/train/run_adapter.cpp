#include "train/run_adapter.h"

#include <cmath>

#include "backbones/adapter_file.h"
#include "base/atomic_file.h"
#include "base/checksums.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"
#include "tensor/tensor_io.h"
#include "train/checkpoint.h"
#include "train/kept_state.h"

namespace asr {
namespace {

constexpr const char* kSlots = "asr_adapter.json";
constexpr const char* kSlotTensors = "asr_adapter.safetensors";
constexpr const char* kHead = "answer_head.safetensors";

std::vector<std::string> save_plain(RunParts& parts, const std::string& folder) {
  const auto plain = as_plain_adapter(parts.bank);
  const auto& run = parts.config.run;
  AdapterConfig config{plain.ranks.begin()->second, 0, run.lora_dropout, run.model};
  const auto alpha_of = [&](const std::string& site) {
    const double alpha = plain.scales.at(site) * static_cast<double>(plain.ranks.at(site));
    return std::abs(alpha - std::round(alpha)) < 1e-9 ? std::round(alpha) : alpha;
  };
  config.alpha = alpha_of(plain.ranks.begin()->first);
  for (const auto& [site, rank] : plain.ranks) {
    if (rank != config.rank) config.rank_pattern[site] = rank;
    if (alpha_of(site) != config.alpha) config.alpha_pattern[site] = alpha_of(site);
  }
  save_adapter(folder, plain.tensors, config);
  return {"adapter_config.json", "adapter_model.safetensors"};
}

std::vector<std::string> save_slots(RunParts& parts, const std::string& folder) {
  NamedTensors tensors;
  for (const auto& [name, tensor] : parts.bank.tensors())
    tensors.emplace_back(name, tensor.detach().cpu().contiguous());
  for (const auto& item : held_items(parts.key.composition, parts.methods))
    tensors.emplace_back(item.name, item.tensor.cpu().contiguous());
  auto options = parts.config.manifest();
  options.erase("output_dir");  // an adapter is the same wherever its run lies
  const nlohmann::json about = {{"format", 1},
                                {"why", why_not_plain(parts.bank)},
                                {"method", parts.key.composition},
                                {"stage", parts.at.stage},
                                {"base_model", parts.config.run.model},
                                {"slots", parts.bank.describe()},
                                {"config", options}};
  save_tensors(folder + "/" + kSlotTensors, tensors, {{"asr_adapter", "1"}});
  write_file_atomically(folder + "/" + kSlots, about.dump(1) + "\n");
  return {kSlots, kSlotTensors};
}

}  // namespace

std::vector<std::string> save_run_adapter(RunParts& parts) {
  const auto folder = parts.key.folder + "/adapter";
  make_folders(folder);
  auto written = why_not_plain(parts.bank).empty() ? save_plain(parts, folder) : save_slots(parts, folder);
  const auto head = parts.task->parameters();
  if (head.empty()) return written;
  NamedTensors tensors;
  for (const auto& [name, tensor] : head) tensors.emplace_back(name, tensor.detach().cpu().contiguous());
  save_tensors(folder + "/" + kHead, tensors, {{"format", "pt"}});
  written.push_back(kHead);
  return written;
}

bool holds_slots(const std::string& folder) {
  return path_exists(folder + "/" + kSlots);
}

SlotAdapter::SlotAdapter(Backbone& model, const std::string& folder) : model_(model), bank_(model.all_sites()) {
  const auto path = folder + "/" + kSlots, stored_at = folder + "/" + kSlotTensors;
  check_if_listed(path);
  const auto about = read_json_object(path);
  const JsonFields fields(about, path);
  check(fields.integer("format") == 1, path, ": is of a newer version of this program");
  stage_ = static_cast<int>(fields.integer("stage"));
  bank_.rebuild(fields.at("slots"), path);
  const auto file = read_safetensors(stored_at);
  verify_checksum(file);
  NamedTensors stored;
  for (const auto& view : file.tensors) stored.emplace_back(view.name, load_tensor(file, view.name).clone());
  {
    at::NoGradGuard no_grad;
    const Checkpoint all{stored, nlohmann::json::object(), {}};
    for (auto& [name, tensor] : bank_.tensors()) {
      auto value = tensor;
      value.copy_(all.at(name, tensor.sizes()));
      value.requires_grad_(false);
    }
  }
  bank_.finish_rebuild();
  const auto composition = fields.text("method");
  const auto config = resolve_run(parse_yaml_options(yaml_text(fields.at("config")), path));
  methods_ = make_methods(composition, config.method_assignments);
  for (auto& method : methods_) method->prepare(model_, config.options);
  load_kept_items(composition, methods_, stored, model_.device());
}

RoutedPass SlotAdapter::pass_for(const SampleBatch& batch) {
  RoutedPass out;
  out.how.answering = true;
  out.how.slots = bank_.answering();
  RouteContext context{model_, bank_, batch, stage_, true, out.how.slots, out.given};
  for (auto& method : methods_) method->route(context);
  return out;
}

}  // namespace asr
