// The scores of a run by the names that metrics.json and the tables use, always computed from its score matrices: what
// writes them and what reads them again cannot disagree.
#pragma once

#include <map>
#include <string>

#include "metrics/score_matrix.h"

namespace asr {

using NamedScores = std::map<std::string, double>;  // NaN where undefined

// AP, AF, AF_vqacl, Last, Avg, BWT, MFT and zero_shot. A joint run learns all tasks at once: its one row is the final
// score of every task, and forgetting is not defined. Without any row there is zero_shot alone.
NamedScores named_scores(const ScoreMatrix& matrix, bool joint);

// AP_novel, AF_novel and AF_novel_vqacl: the same over the questions on unseen compositions (matrix_novel.csv). Tasks
// without any are left out, so VQACL's figures begin at its second task.
NamedScores novel_scores(const ScoreMatrix& matrix);

}  // namespace asr
