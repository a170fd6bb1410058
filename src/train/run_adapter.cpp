#include "train/run_adapter.h"

#include <algorithm>
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

constexpr const char* kSlotTensors = "asr_adapter.safetensors";
constexpr const char* kRouting = "route.safetensors";  // beside a folder a slot: what the methods choose by
constexpr const char* kHead = "answer_head.safetensors";

// As PEFT reads it.
std::vector<std::string> save_peft(const RunParts& parts, const PlainAdapter& plain, const std::string& folder) {
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

// Why no PEFT folder answers as the run did; empty: one does.
std::string why_not_peft(const RunParts& parts) {
  const auto gated = why_not_plain(parts.bank);
  if (!gated.empty()) return gated;
  for (const auto& method : parts.methods)
    if (const auto taken = method->answers_with(); !taken.empty()) return cat("answers are given with ", taken);
  return "";
}

// "stage-03" for slot "stage-3", so that folders stand in order.
std::string slot_folder(const std::string& slot) {
  const size_t digits = slot.find_last_not_of("0123456789") + 1;
  const auto number = slot.substr(digits);
  return slot.substr(0, digits) + (number.size() == 1 ? "0" + number : number);
}

// Whether every slot is one low-rank pair a site that is chosen or weighed as a whole: a PEFT adapter by itself.
bool slots_stand_alone(const AdapterBank& bank) {
  for (const auto& name : bank.slots()) {
    const auto& layout = bank.layout(name);
    if (layout.teacher || !layout.in_answering || bank.is_merged(name)) return false;
    for (const auto& site : layout.sites)
      if (site.full || site.experts != 1 || site.answering.kind != GateKind::given) return false;
  }
  return true;
}

PlainAdapter slot_alone(const AdapterBank& bank, const std::string& slot) {
  PlainAdapter out;
  for (const auto& site : bank.layout(slot).sites) {
    out.ranks[site.site] = site.rank;
    out.scales[site.site] = site.scale;
  }
  for (const auto& [name, tensor] : bank.tensors_of(slot))
    out.tensors.emplace_back(name.substr(name.find(':') + 1), tensor.detach());
  return out;
}

std::vector<std::string> save_slots(RunParts& parts, const std::string& folder) {
  NamedTensors tensors;
  std::vector<std::string> written = {kSlotsFile};
  const bool alone = slots_stand_alone(parts.bank);
  if (alone) {
    for (const auto& slot : parts.bank.slots()) {
      make_folders(folder + "/" + slot_folder(slot));
      for (const auto& name : save_peft(parts, slot_alone(parts.bank, slot), folder + "/" + slot_folder(slot)))
        written.push_back(slot_folder(slot) + "/" + name);
    }
  } else {
    for (const auto& [name, tensor] : parts.bank.tensors())
      tensors.emplace_back(name, tensor.detach().cpu().contiguous());
  }
  for (const auto& item : held_items(parts.key.composition, parts.methods))
    if (!is_of_samples(item.kind)) tensors.emplace_back(item.name, item.tensor.cpu().contiguous());
  auto options = parts.config.manifest();
  options.erase("output_dir");  // an adapter is the same wherever its run lies
  const nlohmann::json about = {{"format", 1},
                                {"why", why_not_peft(parts)},
                                {"method", parts.key.composition},
                                {"stage", parts.at.stage},
                                {"base_model", parts.config.run.model},
                                {"slots", parts.bank.describe()},
                                {"config", options}};
  written.push_back(alone ? kRouting : kSlotTensors);
  save_tensors(folder + "/" + written.back(), tensors, {{"asr_adapter", "1"}});
  write_file_atomically(folder + "/" + kSlotsFile, about.dump(1) + "\n");
  return written;
}

}  // namespace

std::vector<std::string> save_run_adapter(RunParts& parts) {
  const auto folder = parts.key.folder + "/adapter";
  make_folders(folder);
  auto written =
      why_not_peft(parts).empty() ? save_peft(parts, as_plain_adapter(parts.bank), folder) : save_slots(parts, folder);
  const auto head = parts.objective->parameters();
  if (head.empty()) return written;
  NamedTensors tensors;
  for (const auto& [name, tensor] : head) tensors.emplace_back(name, tensor.detach().cpu().contiguous());
  save_tensors(folder + "/" + kHead, tensors, {{"format", "pt"}});
  written.push_back(kHead);
  return written;
}

bool holds_slots(const std::string& folder) {
  return path_exists(folder + "/" + kSlotsFile);
}

void check_answers_in_words(const std::string& folder) {
  check_no_run_folder(folder);
  const auto head = folder + "/" + kHead;
  check(!path_exists(head), head,
        ": this adapter was trained to choose from a list of answers, not to answer in words; its run's predictions ",
        "hold its answers, and a method without a list of its own trains one for words with head: generate");
}

namespace {

void add_tensors(const std::string& path, const std::function<std::string(const std::string&)>& named,
                 NamedTensors& out) {
  check_if_listed(path);
  const auto file = read_safetensors(path);
  verify_checksum(file);
  for (const auto& view : file.tensors) out.emplace_back(named(view.name), load_tensor(file, view.name).clone());
}

// Slots and what the methods keep, from one file or from a folder a slot.
NamedTensors stored_tensors(const std::string& folder, const std::vector<std::string>& slots) {
  const auto same = [](const std::string& name) { return name; };
  NamedTensors out;
  if (!path_exists(folder + "/" + kRouting)) {
    add_tensors(folder + "/" + kSlotTensors, same, out);
    return out;
  }
  add_tensors(folder + "/" + kRouting, same, out);
  const std::string peft = "base_model.model.";
  for (const auto& slot : slots)
    add_tensors(
        folder + "/" + slot_folder(slot) + "/adapter_model.safetensors",
        [&](const std::string& name) {
          return slot + ":" + (name.rfind(peft, 0) == 0 ? name.substr(peft.size()) : name);
        },
        out);
  return out;
}

// What lies beside the description must be of its methods: folders get mixed up.
void check_of_methods(const NamedTensors& stored, const std::string& composition, const std::string& path) {
  const std::string prefix = "method.";
  const auto parts = method_parts(composition);
  for (const auto& [name, tensor] : stored) {
    if (name.rfind(prefix, 0) != 0) continue;
    const auto owner = name.substr(prefix.size(), name.find('.', prefix.size()) - prefix.size());
    check(std::find(parts.begin(), parts.end(), owner) != parts.end(), path, ": is of ", composition,
          ", and the tensors beside it are of ", owner, "; it is the adapter of another method");
  }
}

}  // namespace

SlotAdapter::SlotAdapter(Backbone& model, const std::string& folder) : model_(model), bank_(model.all_sites()) {
  const auto path = folder + "/" + kSlotsFile;
  check_if_listed(path);
  const auto about = read_json_object(path);
  const JsonFields fields(about, path);
  check(fields.integer("format") == 1, path, ": is of a newer version of this program");
  stage_ = static_cast<int>(fields.integer("stage"));
  bank_.rebuild(fields.at("slots"), path);
  const auto stored = stored_tensors(folder, bank_.slots());
  {
    at::NoGradGuard no_grad;
    const Checkpoint all{stored, nlohmann::json::object(), folder};
    for (auto& [name, tensor] : bank_.tensors()) {
      auto value = tensor;
      value.copy_(all.at(name, tensor.sizes()));
      value.requires_grad_(false);
    }
  }
  bank_.finish_rebuild();
  const auto composition = fields.text("method");
  check_of_methods(stored, composition, path);
  const auto config = resolve_run(parse_yaml_options(yaml_text(fields.at("config")), path));
  model_.configure(config.run.backbone_options());  // prompts, grid and pooled layer are the run's
  methods_ = make_methods(composition, config.method_assignments);
  for (auto& method : methods_) method->prepare(model_, config.options);
  load_kept_items(composition, methods_, stored, model_.device(), LoadSamples::no);
}

RoutedPass SlotAdapter::pass_for(const SampleBatch& batch) {
  RoutedPass out;
  out.how.answering = true;
  out.how.slots = bank_.answering();
  RouteContext context{model_, bank_, batch, stage_, true, out.how.slots, out.given, &out.choices, &out.inserted};
  for (auto& method : methods_) method->route(context);
  return out;
}

}  // namespace asr
