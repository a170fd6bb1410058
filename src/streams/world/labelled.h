// The questions of the built-in world with their skills, to train and measure the skill parser. No image is drawn.
#pragma once

#include <vector>

#include "skills/labelled_questions.h"
#include "streams/world/world.h"

namespace asr::world {

// `per_task` questions of every task of every stream in this split (but for streams made of cues, whose questions are
// those of others with a word added) and, for the training split, ten times as many of
// the pretraining mixture. Distinct splits share no scene, but short questions recur.
std::vector<LabelledQuestion> labelled_questions(Split split, int64_t per_task);

}  // namespace asr::world
