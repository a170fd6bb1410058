// What a method may keep, declared apart from the code that keeps it (Method::kept beside Method::state): the audit
// takes anything else for smuggled.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/state.h"

namespace asr {

// The sizes of a run, which bound what its methods keep.
struct StateSizes {
  int64_t parameters = 0;                        // trained weights of adapters and head
  int64_t own_parameters = 0;                    // of the methods: routers, keys
  int64_t stages = 0;                            // tasks of the stream
  int64_t prototypes = 0;                        // skills or tasks, whichever are more
  int64_t descriptor = 0, angular = 0, map = 0;  // numbers a prototype
  int64_t widest_site = 0;                       // inputs of a linear that may be adapted, or the model's width
  int64_t site_names = 0;                        // bytes of their names, a line each
};

inline constexpr int64_t kAnySize = INT64_MAX;  // of samples and teachers, which no method without replay keeps

// How long an item may be there: from stage to stage, or in checkpoints within one alone.
enum class Lasts { run, stage };

struct StateShape {
  std::string name;  // as in the method's `state`; "teacher.*" stands for all that begin so
  StateKind kind;
  std::vector<int64_t> most;  // of each size
  Lasts lasts = Lasts::run;
};

std::vector<StateShape> memory_shapes(const StateSizes& sizes);  // of a prototype memory
std::vector<StateShape> replay_shapes();                         // of a replay buffer

}  // namespace asr
