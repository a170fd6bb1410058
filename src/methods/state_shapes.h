// What a method may keep, declared apart from the code that keeps it: the audit takes anything else for smuggled. A
// method with a state has its items here, with the largest shape that each can have.
#pragma once

#include "methods/method.h"

namespace asr {

// The sizes of a run, which bound what its methods keep.
struct StateSizes {
  int64_t parameters = 0;                        // trained weights
  int64_t prototypes = 0;                        // skills or tasks, whichever are more
  int64_t descriptor = 0, angular = 0, map = 0;  // numbers a prototype
};

struct StateShape {
  std::string name;  // as in the method's `state`; "teacher.*" stands for all that begin so
  StateKind kind;
  std::vector<int64_t> most;  // of each size
};

std::vector<StateShape> memory_shapes(const StateSizes& sizes);  // of a prototype memory
std::vector<StateShape> state_shapes(const std::string& method, const StateSizes& sizes);

}  // namespace asr
