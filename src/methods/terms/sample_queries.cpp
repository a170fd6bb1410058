#include "methods/terms/sample_queries.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "data/walk.h"

namespace asr {
namespace {

torch::Tensor of_length_one(const torch::Tensor& rows) {
  return rows / rows.norm(2, 1, true).clamp_min(1e-12);
}

}  // namespace

torch::Tensor SampleQueries::normalised(const torch::Tensor& rows) const {
  return at::cat({of_length_one(rows.narrow(1, 0, text_width)),
                  of_length_one(rows.narrow(1, text_width, rows.size(1) - text_width))},
                 1);
}

torch::Tensor SampleQueries::of(const Backbone& model, const SampleBatch& batch) const {
  at::NoGradGuard no_grad;
  Want want;
  want.loss = false;
  want.early = true;
  const auto out = model.forward(batch.input, Pass{0, nullptr}, want);
  const auto text = out.text_input.to(at::kFloat);
  const auto& state = picture == QueryPicture::first ? out.tower_first : out.tower_mean;
  return normalised(at::cat({text, state.to(at::kFloat)}, 1));
}

torch::Tensor SampleQueries::mean_of(const Backbone& model, const SampleSet& set, const Team& team) const {
  std::vector<torch::Tensor> sums;
  each_block({cat("queries of ", set.name), set.size(), set.pass_samples()}, team, [&](Part rows, Part) {
    sums.push_back(of(model, set.rows(range(rows.begin, rows.end))).to(at::kDouble).sum(0, true).cpu());
  });
  // Block by block, so that the sum does not depend on who took which.
  const auto all = team.gather(sums.empty() ? at::empty({0}, at::kDouble) : at::cat(sums));
  return (all.sum(0, true) / static_cast<double>(set.size())).to(at::kFloat).to(model.device());
}

}  // namespace asr
