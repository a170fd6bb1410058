#include "train/adapter_io.h"

#include <set>

#include "base/atomic_file.h"
#include "tensor/tensor_io.h"
#include "train/checkpoint.h"

namespace asr {

void save_adapter(const std::string& folder, const NamedParameters& parameters, const RunOptions& run,
                  const std::string& base_model) {
  make_folders(folder);
  NamedTensors tensors;
  std::set<std::string> targets;
  for (const auto& [name, tensor] : parameters) {
    tensors.emplace_back("base_model.model." + name, tensor.detach().cpu().contiguous());
    const size_t lora = name.find(".lora_");
    if (lora != std::string::npos) targets.insert(name.substr(0, lora));
  }
  save_tensors(folder + "/adapter_model.safetensors", tensors, {{"format", "pt"}});
  const nlohmann::json config = {{"peft_type", "LORA"},
                                 {"task_type", "CAUSAL_LM"},
                                 {"base_model_name_or_path", base_model},
                                 {"r", run.lora_rank},
                                 {"lora_alpha", run.lora_alpha},
                                 {"lora_dropout", run.lora_dropout},
                                 {"target_modules", targets},
                                 {"bias", "none"},
                                 {"modules_to_save", nullptr},
                                 {"inference_mode", true},
                                 {"fan_in_fan_out", false},
                                 {"use_rslora", false},
                                 {"use_dora", false},
                                 {"init_lora_weights", true},
                                 {"rank_pattern", nlohmann::json::object()},
                                 {"alpha_pattern", nlohmann::json::object()}};
  write_file_atomically(folder + "/adapter_config.json", config.dump(2) + "\n");
}

}  // namespace asr
