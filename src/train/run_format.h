// What the folder of a run may hold, as a closed list: every file, every tensor with its shape, every metadata key and
// every JSON member, all in the form in which the program writes it. What is not declared here is a violation of the
// audit: it could be anything, training data too. A new file is one line of `known_files` in run_format.cpp.
#pragma once

#include <functional>
#include <memory>

#include "io/safetensors.h"
#include "methods/state_shapes.h"
#include "train/json_shape.h"
#include "train/run_options.h"
#include "train/sample_search.h"

namespace asr {

// What a run's files depend on, from its own options and the data: nothing of it is read from those files.
struct RunFacts {
  std::string folder, method;
  RunConfig config;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Backbone> model;
  int64_t seed = 0, order_number = 0;
  std::vector<size_t> order;                            // of the tasks
  std::map<std::string, std::vector<int64_t>> adapter;  // shapes of the trained weights, of all slots
  std::map<std::string, std::vector<int64_t>> plain;    // of the same as one low-rank pair a site
  std::map<std::string, std::vector<int64_t>> head;     // of the closed head
  std::map<std::string, SlotLayout> slots;              // that the methods lay out, and teachers' copies
  std::vector<StateShape> kept, memory;                 // of the methods, named "method.ewc.fisher"; of a memory
  StateSizes sizes;
  JsonNames names;
  bool replay_free = true;
};
RunFacts facts_of(const std::string& folder, const nlohmann::json& state);

// One tensor, text or file that was looked at.
struct SeenPart {
  std::string file, name;
  std::string kind;  // of a method's state; "weights", "analysis", "settings", ...
  int64_t bytes = 0;
  std::string sha256;
  std::string found;  // what of the training data was found in it; empty: nothing
};

struct FolderFindings {
  std::vector<SeenPart> parts;
  std::vector<std::string> violations;
  int64_t files = 0, bytes = 0;
};

bool is_run_file(const std::string& name);  // relative to the folder

// Goes through every file of the folder. `search` may look for nothing.
FolderFindings check_folder(const RunFacts& facts, const SampleSearch& search);

}  // namespace asr
