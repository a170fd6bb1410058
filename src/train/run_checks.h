// The forms of a run's files, one function a kind of file; run_format.cpp says which file has which.
#pragma once

#include "train/run_format.h"

namespace asr {

// Where the checks of one folder put what they saw.
class RunChecks {
 public:
  RunChecks(const RunFacts& run, const SampleSearch& samples, FolderFindings& out)
      : facts(run), search(samples), findings(out) {}

  std::string path_of(const std::string& name) const { return facts.folder + "/" + name; }
  void violation(const std::string& text) { findings.violations.push_back(text); }

  // JSON that has the members of `shape` and is written as the program writes it, so that neither spaces nor a key that
  // stands twice say more than the values do. `indent`: as for dump().
  nlohmann::json json_file(const std::string& name, const nlohmann::json& shape, int indent);
  void match(const nlohmann::json& value, const nlohmann::json& shape, const std::string& where);

  // A file with its checksum right, its header as the program writes it, and no other metadata than `keys`.
  Safetensors tensor_file(const std::string& name, const std::vector<std::string>& keys);
  // A tensor that was declared so, searched for samples.
  void tensor(const Safetensors& file, const TensorView& view, const std::vector<StateShape>& shapes,
              const std::string& prefix, const std::string& kind);
  void metadata(const Safetensors& file, const std::string& key, const std::string& expected);
  void text(const std::string& name, const std::string& kind, const std::string& content);  // searched, too

  // What a run was made of must be what its options and data give, and hashes.
  void fingerprint(const nlohmann::json& stored, const std::string& where);

  const RunFacts& facts;
  const SampleSearch& search;
  FolderFindings& findings;
};

void check_config(RunChecks& checks, const std::string& name);
void check_fingerprint(RunChecks& checks, const std::string& name);
void check_checksums(RunChecks& checks, const std::string& name);
void check_log(RunChecks& checks, const std::string& name);
void check_events(RunChecks& checks, const std::string& name);
void check_metrics(RunChecks& checks, const std::string& name);
void check_matrix(RunChecks& checks, const std::string& name);
void check_routing(RunChecks& checks, const std::string& name);
void check_memory(RunChecks& checks, const std::string& name);
void check_adapter_config(RunChecks& checks, const std::string& name);
void check_adapter(RunChecks& checks, const std::string& name);
void check_head(RunChecks& checks, const std::string& name);
void check_slot_list(RunChecks& checks, const std::string& name);
void check_slots(RunChecks& checks, const std::string& name);
void check_analysis(RunChecks& checks, const std::string& name);
void check_kept_list(RunChecks& checks, const std::string& name);
void check_predictions(RunChecks& checks, const std::string& name);
void check_checkpoint(RunChecks& checks, const std::string& name);
void check_kept_file(RunChecks& checks, const std::string& name);
void check_trainer_state(RunChecks& checks, const std::string& name);

}  // namespace asr
