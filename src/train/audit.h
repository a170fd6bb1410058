// What a run keeps between stages, byte by byte, read from its newest checkpoint: name, kind, size and hash of every
// item of method state, and a search of those bytes for the stream's own training samples. A method that declares
// itself replay-free must hold no sample, question, answer or teacher, whatever it calls its tensors.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace asr {

struct AuditItem {
  std::string name, kind, sha256;
  int64_t bytes = 0;
  std::string found;  // what of the training data was found in it; empty: nothing
};

struct Audit {
  std::string folder, label, method;
  int stage = 0;
  bool replay_free = false;         // as the method declares
  std::vector<AuditItem> kept;      // the method's state
  std::vector<AuditItem> adapter;   // the trained weights, which every method carries on
  std::vector<AuditItem> analysis;  // files for figures and scores, which no method reads
  std::vector<std::string> violations;
  int64_t searched = 0;  // training samples looked for

  bool passed() const { return violations.empty(); }
  int64_t kept_bytes() const;
  nlohmann::json to_json() const;
};

// `folder` is a run's own folder (OUT/asr-seed0). `samples` a task are looked for.
Audit audit_run(const std::string& folder, int64_t samples);

}  // namespace asr
