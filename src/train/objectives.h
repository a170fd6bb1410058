// The two things that are learnt: the next token at answer positions, and the right one of a closed list of answers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/objective.h"

namespace asr {

std::unique_ptr<Objective> language_objective();

// The state before the answer, scored against a fixed list. A row starts as the mean embedding of its answer's tokens,
// so that the untrained head already follows the language model. An answer that is not in the list teaches nothing
// wrong: it is an error in training.
std::unique_ptr<Objective> closed_objective(const Backbone& model, std::vector<std::string> answers);

}  // namespace asr
