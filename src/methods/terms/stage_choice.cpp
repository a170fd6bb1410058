#include "methods/terms/stage_choice.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "data/drawn_rows.h"

namespace asr {
namespace {

// Keys that moments are made of, and a tenth held out of them; the latter undefined where that is none.
struct PartedKeys {
  torch::Tensor inside, held_out;
};

PartedKeys parted(const torch::Tensor& keys, uint64_t draw) {
  const int64_t count = keys.size(0), apart = count / 10;
  if (apart == 0) return {keys, {}};
  const auto held = torch::tensor(drawn_rows(count, apart, draw), at::kLong);
  auto inside = at::ones({count}, at::kBool);
  inside.index_fill_(0, held, false);
  return {keys.index_select(0, inside.nonzero().flatten()), keys.index_select(0, held)};
}

}  // namespace

void StageChoice::visit(OptionVisitor& visitor) {
  visitor("covariance", covariance_, "of keys within stages; diagonal: without correlations, for comparison");
  visitor("ridge", ridge_, 0, 1, "part of the covariance that is the identity; more where samples are few");
  visitor("top", top_, 1, 64, "stages whose slots answer a sample together, weighed by probability; 1: the best");
  visitor("temperature", temperature_, 1e-3, 1e6, "of the probabilities of stages");
  visitor("fallback", fallback_, 0, 1,
          "the base answers a sample farther from every stage than this part of the stage's held-out samples; 0: "
          "never");
}

void StageChoice::state(StateVisitor& visitor, bool with_leading) {
  kept_.state(visitor, with_leading);
  readings_.clear();
}

bool StageChoice::add(const torch::Tensor& keys, const KeyGroups& groups, uint64_t draw, int64_t leading) {
  readings_.clear();
  kept_.set_groups(groups);
  const auto [inside, held_out] = fallback_ > 0 ? parted(keys, draw) : PartedKeys{keys, {}};
  kept_.add(key_moments_in_blocks(inside));
  if (fallback_ == 0) return true;
  const int64_t t = kept_.stages() - 1;
  for (const int64_t numbers : std::set<int64_t>{leading, keys.size(1)}) {
    if (!held_out.defined()) break;
    const auto& read = reading(numbers);
    const auto far = upper_quantile(read.distances(held_out.narrow(1, 0, numbers)).select(1, t), fallback_);
    if (std::isfinite(far)) kept_.set_reach(t, numbers, far / std::max(read.spread()[t].item<double>(), 1e-12));
  }
  return std::isfinite(kept_.reach(t, keys.size(1)));
}

std::optional<double> StageChoice::named(const torch::Tensor& keys, const KeyGroups& groups, uint64_t draw,
                                         int64_t numbers) const {
  const auto [inside, held_out] = parted(keys, draw);
  if (!held_out.defined()) return std::nullopt;
  auto with_others = kept_;
  with_others.set_groups(groups);
  with_others.add(key_moments_in_blocks(inside));
  const KeyReading read(with_others, ridge_, covariance_, numbers);
  const auto best = read.scores(read.distances(held_out.narrow(1, 0, numbers))).argmax(1);
  return best.eq(with_others.stages() - 1).to(at::kDouble).mean().item<double>();
}

StageFit StageChoice::of(const torch::Tensor& keys, const KeyGroups& groups) {
  if (readings_.empty()) kept_.set_groups(groups);
  const auto& read = reading(keys.size(1));
  const auto distances = read.distances(keys);
  const auto scores = read.scores(distances);
  const auto probabilities = (scores / (2 * temperature_)).softmax(1);
  auto weights = top_ == 1 ? among_the_best(scores) : probabilities;
  if (top_ > 1 && top_ < stages()) weights = weights * among_the_best(scores);
  weights = weights / weights.sum(1, true);
  if (fallback_ > 0) weights = weights * reached(distances, keys.size(1)).to(at::kDouble).unsqueeze(1);
  return {weights, probabilities};
}

const KeyReading& StageChoice::reading(int64_t numbers) {
  const auto known = readings_.find(numbers);
  if (known != readings_.end()) return known->second;
  check(numbers <= kept_.dimension(), "keys have ", numbers, " numbers and those of earlier stages ",
        kept_.dimension());
  return readings_.emplace(numbers, KeyReading(kept_, ridge_, covariance_, numbers)).first->second;
}

// The `top_` best stages of each row; of equal ones the earlier.
torch::Tensor StageChoice::among_the_best(const torch::Tensor& scores) const {
  const auto order = std::get<1>(at::sort(scores, /*stable=*/true, 1, /*descending=*/true)).narrow(1, 0, top_);
  return at::zeros_like(scores).scatter(1, order, 1.0);
}

// Whether any stage has held-out samples as far away, [B].
torch::Tensor StageChoice::reached(const torch::Tensor& distances, int64_t numbers) {
  std::vector<double> limit;
  const auto spread = reading(numbers).spread();
  for (int64_t t = 0; t < kept_.stages(); ++t) {
    const double reach = kept_.reach(t, numbers);
    limit.push_back(std::isfinite(reach) ? reach * spread[t].item<double>() : reach);  // a spread may be 0
  }
  return distances.le(torch::tensor(limit, at::kDouble)).any(1);
}

}  // namespace asr
