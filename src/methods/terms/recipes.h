// What the authors' code of several methods trains with, for Method::native.
#pragma once

#include <cstdint>
#include <vector>

#include "base/options.h"

namespace asr {

// The LLaVA family's: AdamW at 2e-4, cosine, warm-up 0.03, no decay, one epoch, every linear of the language model, the
// projector whole at 2e-5. `rank` is the total where experts share it. A step's samples, where they are published, are
// those of all devices: `batch` in a pass, and so many passes.
std::vector<Assignment> llava_recipe(int64_t rank, int64_t alpha, int64_t batch = 0, int64_t passes = 1);

}  // namespace asr
