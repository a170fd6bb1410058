// The score matrix of a joint run: it has one stage in which all tasks are learnt, so the rules of a continual matrix
// (one row a stage, unseen cells empty) do not hold for it.
#pragma once

#include <string>

#include "metrics/score_matrix.h"

namespace asr {

// First row zero-shot if its stage is 0; the last row is the final score of every task, whatever its stage says.
ScoreMatrix parse_joint_csv(const std::string& text, const std::string& path);
// By its rows, where nothing else says it (tables, runs of earlier versions): one stage has scores of all tasks.
bool is_joint_csv(const std::string& text, const std::string& path);

}  // namespace asr
