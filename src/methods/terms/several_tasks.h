// For methods that choose among tasks.
#pragma once

#include "base/error.h"
#include "methods/method.h"

namespace asr {

// `chooses`: the method and what it chooses by, as a sentence begins.
inline void check_several_tasks(const PhasePlan& stage, const char* chooses) {
  check(stage.stages > 1, chooses, ", and this stream has one task; give it a stream of several");
}

// For those that choose by picture and question together.
inline void check_pictures(const PhasePlan& stage, const char* chooses) {
  check(!stage.pictured || stage.pictured(), chooses, ", and no sample of ", stage.task,
        " has a picture; use a method that routes by text, such as route");
}

}  // namespace asr
