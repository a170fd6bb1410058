// Instruction files in LLaVA's form, a folder a task, as CoIN and UCIT ship them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "streams/prepare/preparation.h"

namespace asr {

struct InstructionTask {
  std::string name;
  std::vector<std::string> folders;      // names that releases use
  std::vector<std::string> train, test;  // file names
  std::string metric, native_metric;     // proper, and as the benchmark's own code scores
  int64_t answer_tokens = 16;
  Published published = {};
  bool text_only = false;  // has questions without a picture
};

// References of val rows beyond their own answer, by question id or, in COCO captions, by position.
struct InstructionReferences {
  std::map<std::string, std::vector<std::string>> by_id;
  std::map<int64_t, std::vector<std::string>> by_position;  // from 1
};
using ReferenceReader = InstructionReferences (*)(Preparation& preparation, const InstructionTask& task,
                                                  const std::string& root);

// `root` is the folder that holds the tasks' folders, relative to the source. A unit a task.
void prepare_instructions(Preparation& preparation, const std::vector<InstructionTask>& tasks,
                          const std::vector<std::string>& roots, ReferenceReader references);

// ROOT/FOLDER/FILE for every folder of a task.
std::vector<std::string> instruction_paths(const std::string& root, const InstructionTask& task,
                                           const std::vector<std::string>& files);

}  // namespace asr
