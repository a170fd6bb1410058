// All runs of a configuration: every method, seed and order, each in a folder of its own below the output folder, which
// carries the resolved configuration and a fingerprint of what runs that are compared must share.
#pragma once

#include <string>
#include <vector>

#include "parallel/team.h"
#include "train/run_options.h"

namespace asr {

struct RunRequest {
  RunConfig config;
  bool resume = false;
  std::string version;  // of the program, for the fingerprint
  // The processes that run it together, all with the same request but for the GPU of each. Null: this one alone.
  const Team* team = nullptr;
  int gpu = 0;
  bool announce = false;  // a header on stderr before the first run
  // Where hashes of large files are kept; several outputs may share one. Empty: hashes.json of data.cache, or of the
  // output folder.
  std::string hash_cache = {};
};

// Runs are done one after the other; those that are complete are skipped with --resume. Returns their folders.
std::vector<std::string> run_all(const RunRequest& request);

}  // namespace asr
