// What the authors' code of several methods trains with, for Method::native.
#pragma once

#include <cstdint>
#include <vector>

#include "base/options.h"

namespace asr {

// The LLaVA family's: AdamW at 2e-4, cosine, warm-up 0.03, no decay, one epoch, every linear of the language model, the
// projector whole at 2e-5. `rank` is the total where experts share it.
std::vector<Assignment> llava_recipe(int64_t rank, int64_t alpha);

}  // namespace asr
