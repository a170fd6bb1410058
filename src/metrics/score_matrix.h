// The score matrix of a continual run and what is read off it (paper, "Metric Definitions").
// m[a][b] is the score on task b after stage a: 0..100, but a caption score may be higher; row 0 is zero-shot; cells of
// tasks not yet seen are empty (NaN), so that no mean picks them up. A task without any score has no questions of this
// kind (novel compositions, of which VQACL's first task has none) and is left out of every mean.
#pragma once

#include <string>
#include <vector>

namespace asr {

struct ScoreMatrix {
  std::vector<std::string> tasks;
  std::vector<double> zero_shot;          // row 0; empty when the file has none
  std::vector<std::vector<double>> rows;  // rows[a-1][b-1] for stage a; NaN where b > a
  int stages() const { return static_cast<int>(rows.size()); }
  bool asked(int b) const;                          // task b has a score, or is still to be learnt
  std::vector<std::string> tasks_left_out() const;  // those not asked
};

// Over the tasks asked. A figure that nothing defines is NaN: forgetting with a single stage, say.
struct MatrixScores {
  double ap = 0;        // mean of the last row
  double af_paper = 0;  // mean over b < M of the best score from stage b on minus the final one; >= 0
  double af_vqacl = 0;  // the best over the rows before the last, so it can be negative
  double last = 0;      // = ap, under the name of instruction tuning
  double avg = 0;       // mean over stages of the mean over seen tasks
  double bwt = 0;       // mean over b < M of final minus just-learnt
  double mft = 0;       // mean just-learnt score
  std::vector<double> plasticity, stability;      // m[a][a]; mean of row a
  std::vector<std::vector<double>> interference;  // m[a][b] - best of column b; NaN where b > a
};

// Header "stage,task,...", then one row a stage, from 0 (or 1, without zero-shot); empty cells where
// unseen. `warnings` receives what was ignored. Errors name path and line.
ScoreMatrix parse_score_csv(const std::string& text, const std::string& path, std::vector<std::string>& warnings);

// Scores over the stages present; a run cut short counts the tasks it reached.
MatrixScores score(const ScoreMatrix& matrix);

}  // namespace asr
