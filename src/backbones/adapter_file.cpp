#include "backbones/adapter_file.h"

#include <cmath>
#include <map>
#include <set>

#include "backbones/model_folder.h"
#include "backbones/pretrained.h"
#include "base/atomic_file.h"
#include "base/checksums.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/text.h"
#include "tensor/tensor_io.h"

namespace asr {
namespace {

using nlohmann::json;

constexpr const char* kPrefix = "base_model.model.";

struct Scaling {
  json config;
  std::string path;

  // PEFT's patterns are regular expressions for the end of a module's name; plain names are what it writes.
  double of(const char* pattern_key, const char* key, const std::string& module) const {
    check(config.contains(key) && config[key].is_number(), path, ": '", key, "' is missing or no number");
    double value = config[key].get<double>();
    if (!config.contains(pattern_key) || !config[pattern_key].is_object()) return value;
    for (const auto& [name, other] : config[pattern_key].items()) {
      check(name.find_first_of("^$*+?()[]{}|\\") == std::string::npos, path, ": '", pattern_key,
            "' holds the regular expression '", name, "'; only plain module names are supported");
      const bool ends = module.size() >= name.size() &&
                        module.compare(module.size() - name.size(), name.size(), name) == 0 &&
                        (module.size() == name.size() || module[module.size() - name.size() - 1] == '.');
      if (ends && other.is_number()) value = other.get<double>();
    }
    return value;
  }
};

bool is_adapter(const std::string& folder) {
  return path_exists(folder + "/adapter_config.json") || path_exists(folder + "/" + kSlotsFile);
}

Scaling read_config(const std::string& folder) {
  Scaling out{{}, folder + "/adapter_config.json"};
  check_no_run_folder(folder);
  check(path_exists(out.path) || !path_exists(folder + "/" + kSlotsFile), folder,
        ": holds adapters that are chosen or weighed sample by sample, which 'asr generate' alone can use");
  check_if_listed(out.path);
  out.config = read_json_object(out.path);
  const auto& c = out.config;
  const auto is_on = [&](const char* key) { return c.contains(key) && c[key].is_boolean() && c[key].get<bool>(); };
  check(c.contains("peft_type") && c["peft_type"].is_string() && c["peft_type"].get<std::string>() == "LORA", out.path,
        ": peft_type must be LORA");
  check(!is_on("use_dora"), out.path, ": DoRA adapters (use_dora) are not supported");
  check(!is_on("lora_bias"), out.path, ": lora_bias is not supported");
  check(!c.contains("bias") || !c["bias"].is_string() || c["bias"].get<std::string>() == "none", out.path,
        ": trained biases are not supported; bias must be none");
  check(!c.contains("modules_to_save") || c["modules_to_save"].empty(), out.path,
        ": whole trained modules (modules_to_save) are not supported");
  return out;
}

// "<module>.lora_A.weight", also with an adapter's name in it, as older files have: "<module>.lora_A.default.weight".
struct Key {
  std::string module;
  char which = 'A';
};
Key split_key(std::string name, const std::string& path) {
  if (name.rfind(kPrefix, 0) == 0) name = name.substr(std::string(kPrefix).size());
  for (const char which : {'A', 'B'}) {
    const auto mark = cat(".lora_", which, ".");
    const auto place = name.find(mark);
    if (place == std::string::npos) continue;
    const auto rest = name.substr(place + mark.size());
    check(rest == "weight" || rest == "default.weight", path, ": tensor '", name, "' has an ending that is not known");
    return {name.substr(0, place), which};
  }
  fail(path, ": tensor '", name, "' is no part of a LoRA adapter (lora_A or lora_B)");
}

using Pairs = std::map<std::string, std::pair<torch::Tensor, torch::Tensor>>;  // A and B of a module

// An adapter of a module that holds several linears is one of each: they share A and have their own rows of B.
void take_apart(const PretrainedBackbone& model, const std::string& path, Pairs& pairs) {
  const Pairs given = pairs;
  for (const auto& [module, pair] : given) {
    const auto packed = model.packed_module(module);
    if (packed.parts.empty()) continue;
    pairs.erase(module);
    int64_t rows = 0, begin = 0;
    for (const auto& part : packed.parts) rows += part.second;
    const auto& [a, b] = pair;
    check(a.defined() && b.defined(), path, ": '", module, "' has only one of lora_A and lora_B");
    check(b.dim() == 2 && b.size(0) == packed.groups * rows, path, ": lora_B of '", module, "' has shape ",
          shape_text(b.sizes()), " where the model has ", packed.groups * rows, " rows");
    const auto grouped = b.view({packed.groups, rows, b.size(1)});
    for (const auto& [name, count] : packed.parts) {
      const bool fresh =
          pairs.emplace(name, std::make_pair(a.clone(), grouped.narrow(1, begin, count).flatten(0, 1))).second;
      check(fresh, path, ": '", name, "' has an adapter of its own and one in '", module, "'");
      begin += count;
    }
  }
}

}  // namespace

void check_no_run_folder(const std::string& folder) {
  check(is_adapter(folder) || !is_adapter(folder + "/adapter"), folder, ": is the folder of a run; its adapter is ",
        folder, "/adapter");
}

NamedParameters load_adapter(Backbone& model, const std::string& folder) {
  const auto scaling = read_config(folder);
  const auto path = folder + "/adapter_model.safetensors";
  check(path_exists(path), folder,
        ": holds no adapter_model.safetensors (pickled adapter_model.bin "
        "files are not read; save the adapter again with safetensors)");
  const auto file = read_safetensors(path);
  if (file.metadata.count("sha256")) verify_checksum(file);  // other programs write none
  check_if_listed(path);
  std::map<std::string, Linear*> places;
  std::vector<std::string> names;
  for (const auto& site : model.adaptable()) {
    places[site.name] = site.linear;
    names.push_back(site.name);
  }
  const auto* pretrained = dynamic_cast<const PretrainedBackbone*>(&model);
  Pairs pairs;
  for (const auto& view : file.tensors) {
    const auto key = split_key(view.name, path);
    const auto module = model.current_name(key.module);
    const auto parts = pretrained ? pretrained->packed_module(module).parts : Weights::Parts{};
    check(places.count(parts.empty() ? module : parts[0].first), path, ": '", key.module, "' is no linear of ",
          model.name(), did_you_mean(module, names));
    auto& pair = pairs[module];
    auto& half = key.which == 'A' ? pair.first : pair.second;
    check(!half.defined(), path, ": lora_", key.which, " of '", module, "' is there twice");
    half = load_real(file, view.name).to(at::kFloat).clone();
  }
  check(!pairs.empty(), path, ": holds no adapter");
  if (pretrained) take_apart(*pretrained, path, pairs);
  NamedParameters out;
  for (const auto& site : model.adaptable()) {
    const auto found = pairs.find(site.name);
    if (found == pairs.end()) continue;
    auto& [a, b] = found->second;
    check(a.defined() && b.defined(), path, ": '", site.name, "' has only one of lora_A and lora_B");
    const auto& weight = site.linear->weight;
    check(a.dim() == 2 && b.dim() == 2 && a.size(1) == weight.size(1) && b.size(0) == weight.size(0) &&
              a.size(0) == b.size(1),
          path, ": the adapter of '", site.name, "' has shapes ", shape_text(a.sizes()), " and ", shape_text(b.sizes()),
          ", which do not fit its weight ", shape_text(weight.sizes()));
    const double rank = scaling.of("rank_pattern", "r", site.name);
    check(static_cast<double>(a.size(0)) == rank, path, ": the adapter of '", site.name, "' has rank ", a.size(0),
          " where adapter_config.json says ", rank);
    const double alpha = scaling.of("alpha_pattern", "lora_alpha", site.name);
    const auto& c = scaling.config;
    const bool root = c.contains("use_rslora") && c["use_rslora"].is_boolean() && c["use_rslora"].get<bool>();
    a = a.to(weight.device()).requires_grad_();
    b = b.to(weight.device()).requires_grad_();
    site.linear->slots.push_back({{{a, b, root ? alpha / std::sqrt(rank) : alpha / rank}}, {}, {}, {}});
    out.emplace_back(site.name + ".lora_A.weight", a);
    out.emplace_back(site.name + ".lora_B.weight", b);
  }
  return out;
}

void save_adapter(const std::string& folder, const NamedParameters& parameters, const AdapterConfig& adapter) {
  make_folders(folder);
  NamedTensors tensors;
  std::set<std::string> targets;
  for (const auto& [name, tensor] : parameters) {
    tensors.emplace_back(kPrefix + name, tensor.detach().cpu().contiguous());
    const size_t lora = name.find(".lora_");
    if (lora != std::string::npos) targets.insert(name.substr(0, lora));
  }
  save_tensors(folder + "/adapter_model.safetensors", tensors, {{"format", "pt"}});
  const json config = {{"peft_type", "LORA"},
                       {"task_type", "CAUSAL_LM"},
                       {"base_model_name_or_path", adapter.base_model},
                       {"revision", nullptr},
                       {"r", adapter.rank},
                       {"lora_alpha", adapter.alpha},
                       {"lora_dropout", adapter.dropout},
                       {"target_modules", targets},
                       {"bias", "none"},
                       {"modules_to_save", nullptr},
                       {"inference_mode", true},
                       {"fan_in_fan_out", false},
                       {"use_rslora", false},
                       {"use_dora", false},
                       {"init_lora_weights", true},
                       {"rank_pattern", json(adapter.rank_pattern)},
                       {"alpha_pattern", json(adapter.alpha_pattern)}};
  write_file_atomically(folder + "/adapter_config.json", config.dump(2) + "\n");
}

}  // namespace asr
