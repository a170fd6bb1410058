// The scores of a run are those of its score matrices, wherever these stand: in a folder's files or in a row of a
// table.
#pragma once

#include <string>

#include "report/run.h"

namespace asr {

// Checks the matrix against what the run says of itself and computes its scores. `path` opens error messages.
void take_matrix(Run& run, ScoreMatrix matrix, const std::string& path);
void take_novel_matrix(Run& run, ScoreMatrix matrix, const std::string& path);  // after take_matrix

// "AP 55 instead of 10, ...": where scores that were written down are not those of the matrices, up to `tolerance`
// times the score. Empty: they agree. A score that only one of the two has says nothing.
std::string contradictions(const NamedScores& written, const Run& run, double tolerance);

}  // namespace asr
