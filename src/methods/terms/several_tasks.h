// For methods that choose among tasks.
#pragma once

#include "base/error.h"
#include "methods/method.h"

namespace asr {

// `chooses`: the method and what it chooses by, as a sentence begins.
inline void check_several_tasks(const PhasePlan& stage, const char* chooses) {
  check(stage.stages > 1, chooses, ", and this stream has one task; give it a stream of several");
}

}  // namespace asr
