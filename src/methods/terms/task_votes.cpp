#include "methods/terms/task_votes.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace asr {

torch::Tensor best_tasks(const torch::Tensor& errors) {
  const auto [least, task] = errors.min(1);
  return task.masked_fill(least.isinf(), -1);
}

torch::Tensor task_choices(const torch::Tensor& task, int64_t tasks) {
  return at::arange(tasks, at::kLong).unsqueeze(0).eq(task.unsqueeze(1)).to(at::kDouble);
}

torch::Tensor by_votes(const torch::Tensor& counts) {
  return std::get<1>(at::sort(counts, /*stable=*/true, 0, /*descending=*/true));
}

torch::Tensor voted(const torch::Tensor& votes, int64_t most, double least_share) {
  const auto counts = votes.sum(0);
  const auto order = by_votes(counts);
  auto out = at::zeros_like(votes);
  for (int64_t i = 0; i < std::min(most, order.size(0)); ++i) {
    const auto task = order[i].item<int64_t>();
    const double share = counts[task].item<double>() / static_cast<double>(votes.size(0));
    const bool first_of_several = most > 1 && i == 0;
    if (share > 0 && (first_of_several || share >= least_share)) out.select(1, task).fill_(1);
  }
  return out;
}

}  // namespace asr
