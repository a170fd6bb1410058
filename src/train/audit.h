// What a run keeps between stages and whether that is what its method claims. The list is closed: every file of the
// folder, every tensor with its shape, every metadata key and JSON member is one that the method or the run's format
// declares (run_format.h), or it is a violation; and all of it is searched for the stream's own training samples.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/run_format.h"

namespace asr {

struct Audit {
  std::string folder, label, method;
  int64_t stage = 0;
  bool replay_free = false;      // as the method declares
  std::vector<SeenPart> kept;    // the method's state in the newest checkpoint
  std::vector<SeenPart> others;  // everything else in the folder
  std::vector<std::string> violations;
  int64_t files = 0, bytes = 0;       // of the folder
  int64_t searched = 0, samples = 0;  // training samples looked for, and all there are
  double bytes_a_sample = 0;          // picture and texts, as a replay buffer would keep them

  bool passed() const { return violations.empty(); }
  int64_t kept_bytes() const;
  int64_t bytes_of(const std::string& kind) const;  // among the others
  double samples_that_fit(int64_t room) const;      // at most so many could be hidden there
  nlohmann::json to_json() const;
};

// `folder` is a run's own folder (OUT/asr-seed0). At most `samples` of each task are looked for.
Audit audit_run(const std::string& folder, int64_t samples = INT64_MAX);

}  // namespace asr
