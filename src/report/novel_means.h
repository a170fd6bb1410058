// VQACL's novel composition takes a run for each of five held-out concept groups, and the paper one figure for two
// benchmarks. Means over the groups of a benchmark, and over the benchmarks, as runs of their own: a run for every
// label, seed and order, so that spreads and differences over seeds are those of any table.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "report/run.h"

namespace asr {

struct NovelMeans {
  std::string over;                              // "mean over G1, G2 held out", "mean of vqacl:nextqa and vqacl:vqav2"
  std::vector<std::shared_ptr<const Run>> runs;  // without a folder
  std::vector<std::string> notes;                // whose mean is over fewer groups or benchmarks than others have
};

// First a table for every stream and backbone with runs that hold a group out: novel scores are means over the groups,
// the others are those of the standard runs of the same label, seed and order. Then, where two streams are variants of
// one (vqacl:vqav2, vqacl:nextqa), the unweighted mean of their tables. Unfinished runs take no part.
std::vector<NovelMeans> novel_means(const std::vector<Run>& runs);

}  // namespace asr
