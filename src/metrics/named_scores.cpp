#include "metrics/named_scores.h"

#include <cmath>
#include <limits>

namespace asr {
namespace {

double mean_of_known(const std::vector<double>& values) {
  double sum = 0;
  int count = 0;
  for (const double value : values)
    if (!std::isnan(value)) {
      sum += value;
      ++count;
    }
  return count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

NamedScores named_scores(const ScoreMatrix& matrix, bool joint) {
  NamedScores out = {{"zero_shot", mean_of_known(matrix.zero_shot)}};
  if (matrix.rows.empty()) return out;
  if (joint) {
    const double nothing = std::numeric_limits<double>::quiet_NaN(), final_score = mean_of_known(matrix.rows.back());
    for (const char* name : {"AP", "Last", "MFT"}) out[name] = final_score;
    for (const char* name : {"AF", "AF_vqacl", "Avg", "BWT"}) out[name] = nothing;
    return out;
  }
  const auto s = score(matrix);
  out["AP"] = s.ap;
  out["AF"] = s.af_paper;
  out["AF_vqacl"] = s.af_vqacl;
  out["Last"] = s.last;
  out["Avg"] = s.avg;
  out["BWT"] = s.bwt;
  out["MFT"] = s.mft;
  return out;
}

NamedScores novel_scores(const ScoreMatrix& matrix) {
  const auto s = score(matrix);
  return {{"AP_novel", s.ap}, {"AF_novel", s.af_paper}, {"AF_novel_vqacl", s.af_vqacl}};
}

}  // namespace asr
