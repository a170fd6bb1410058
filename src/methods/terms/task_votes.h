// Which tasks samples are taken for by their errors, and what a batch makes of it by vote (D-MoLE). Tasks are counted
// from 0; everything is on the host.
#pragma once

#include <torch/types.h>

#include <limits>

namespace asr {

inline constexpr double kNoCandidate = std::numeric_limits<double>::infinity();  // as an error

// The candidate with the least error of each row [B, tasks], the earlier of equal ones; -1: none. [B]
torch::Tensor best_tasks(const torch::Tensor& errors);

torch::Tensor task_choices(const torch::Tensor& task, int64_t tasks);  // [B] to [B, tasks] in double; -1: no 1

// Tasks by their votes [tasks], the most first, the earlier of equal ones.
torch::Tensor by_votes(const torch::Tensor& counts);

// The tasks with the most votes [B, tasks], at most so many, for every row alike: each needs this share of the rows. Of
// several the first needs none.
torch::Tensor voted(const torch::Tensor& votes, int64_t most, double least_share);

}  // namespace asr
