#include "methods/terms/key_moments.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"

namespace asr {
namespace {

constexpr int64_t kRows = 64;  // of a block

torch::Tensor on_host(const torch::Tensor& keys) {
  return keys.to(at::kCPU, at::kDouble).contiguous();
}

// Its places in the flat matrix, row after row; of groups, those of numbers of one group.
torch::Tensor lower_triangle(int64_t dimension, const KeyGroups& groups) {
  auto kept = at::ones({dimension, dimension}, at::kBool).tril();
  if (!groups.empty()) {
    check(static_cast<int64_t>(groups.size()) == dimension, groups.size(), " numbers are in groups, but a key has ",
          dimension);
    const auto group = torch::tensor(groups, at::kLong);
    kept = kept.logical_and(group.unsqueeze(1).eq(group));
  }
  return kept.flatten().nonzero().flatten();
}

// `below` with one row more; the first makes it.
void append_row(torch::Tensor& below, const torch::Tensor& row) {
  below = below.defined() ? at::cat({below, row.unsqueeze(0)}) : row.unsqueeze(0).clone();
}

}  // namespace

KeyMoments key_moments(const torch::Tensor& keys) {
  const auto rows = on_host(keys);
  KeyMoments out;
  out.count = rows.size(0);
  out.mean = rows.mean(0);
  const auto gap = rows - out.mean;
  out.scatter = gap.t().mm(gap);
  return out;
}

KeyMoments merged(const KeyMoments& a, const KeyMoments& b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  KeyMoments out;
  out.count = a.count + b.count;
  const auto gap = b.mean - a.mean;
  const double part = static_cast<double>(b.count) / static_cast<double>(out.count);
  out.mean = a.mean + gap * part;
  out.scatter = a.scatter + b.scatter + at::outer(gap, gap) * (part * static_cast<double>(a.count));
  return out;
}

KeyMoments leading(const KeyMoments& of, int64_t numbers) {
  return {of.count, of.mean.narrow(0, 0, numbers), of.scatter.narrow(0, 0, numbers).narrow(1, 0, numbers)};
}

KeyMoments key_moments_in_blocks(const torch::Tensor& keys) {
  KeyMoments out;
  for (int64_t begin = 0; begin < keys.size(0); begin += kRows)
    out = merged(out, key_moments(keys.narrow(0, begin, std::min(kRows, keys.size(0) - begin))));
  return out;
}

void StageKeyMoments::add(const KeyMoments& stage) {
  const int64_t size = stage.mean.size(0);
  check(stages() == 0 || dimension() == size, "keys have ", size, " numbers and those of earlier stages ", dimension());
  append_row(count_, torch::full({}, stage.count, at::kLong));
  append_row(mean_, stage.mean.to(at::kFloat));
  append_row(scatter_, stage.scatter.flatten().index_select(0, lower_triangle(size, groups_)).to(at::kFloat));
  append_row(reach_, torch::zeros({}, at::kFloat));
  append_row(leading_reach_, torch::zeros({}, at::kFloat));
}

KeyMoments StageKeyMoments::of(int64_t stage) const {
  const int64_t size = dimension();
  KeyMoments out;
  out.count = count_[stage].item<int64_t>();
  out.mean = mean_[stage].to(at::kDouble);
  auto half = at::zeros({size * size}, at::kDouble);
  half.index_copy_(0, lower_triangle(size, groups_), scatter_[stage].to(at::kDouble));
  half = half.view({size, size});
  out.scatter = half + half.tril(-1).t();
  return out;
}

int64_t StageKeyMoments::widest_group(int64_t numbers) const {
  if (groups_.empty()) return numbers;
  std::map<int64_t, int64_t> sizes;
  int64_t widest = 0;
  for (int64_t i = 0; i < numbers; ++i) widest = std::max(widest, ++sizes[groups_[static_cast<size_t>(i)]]);
  return widest;
}

void StageKeyMoments::set_reach(int64_t stage, int64_t numbers, double ratio) {
  (numbers == dimension() ? reach_ : leading_reach_)[stage] = ratio;
}

double StageKeyMoments::reach(int64_t stage, int64_t numbers) const {
  const double ratio = (numbers == dimension() ? reach_ : leading_reach_)[stage].item<double>();
  return ratio > 0 ? ratio : std::numeric_limits<double>::infinity();
}

void StageKeyMoments::state(StateVisitor& visitor, bool with_leading) {
  visitor.tensor("count", StateKind::statistics, count_);
  visitor.tensor("mean", StateKind::statistics, mean_);
  visitor.tensor("scatter", StateKind::statistics, scatter_);
  visitor.tensor("reach", StateKind::statistics, reach_);
  if (with_leading) visitor.tensor("leading_reach", StateKind::statistics, leading_reach_);
  for (auto* tensor :
       {&count_, &mean_, &scatter_, &reach_, &leading_reach_})  // read on the host, wherever they were loaded to
    if (tensor->defined() && !tensor->device().is_cpu()) *tensor = tensor->cpu();
}

KeyReading::KeyReading(const StageKeyMoments& kept, double ridge, KeyCovariance covariance, int64_t numbers) {
  const int64_t stages = kept.stages(), size = numbers > 0 ? numbers : kept.dimension();
  check(stages > 0, "no stage has left moments of its keys");
  std::vector<KeyMoments> parts;
  KeyMoments total;
  auto within = at::zeros({size, size}, at::kDouble);
  std::vector<torch::Tensor> means;
  std::vector<double> counts;
  for (int64_t t = 0; t < stages; ++t) {
    parts.push_back(leading(kept.of(t), size));
    total = merged(total, parts.back());
    within = within + parts.back().scatter;
    means.push_back(parts.back().mean);
    counts.push_back(static_cast<double>(parts.back().count));
  }
  const auto all = static_cast<double>(total.count);
  deviation_ = (total.scatter.diagonal() / all).clamp_min(0).sqrt();
  const double widest = deviation_.max().item<double>();
  deviation_ = widest > 0 ? deviation_.clamp_min(1e-6 * widest) : at::ones_like(deviation_);
  const auto scale = at::outer(deviation_, deviation_);
  auto pooled = within / scale / std::max(1.0, all - static_cast<double>(stages));
  if (covariance == KeyCovariance::diagonal) pooled = at::diag(pooled.diagonal());
  // Few rows leave directions without variance that new rows have.
  ridge_ = std::min(1.0, ridge * std::max(1.0, 10.0 * static_cast<double>(kept.widest_group(size)) / all));
  torch::Tensor factor;
  for (;; ridge_ = std::clamp(ridge_ * 10, 1e-6, 1.0)) {
    const auto matrix = pooled * (1 - ridge_) + at::eye(size, at::kDouble) * ridge_;
    const auto [lower, info] = at::linalg_cholesky_ex(matrix);
    factor = lower;
    if (info.item<int>() == 0) break;
    check(ridge_ < 1,
          "the covariance of the stages' keys has no Cholesky factor; are there numbers that are not "
          "finite among them?");
  }
  whitening_ = at::linalg_solve_triangular(factor, at::eye(size, at::kDouble), /*upper=*/false);
  means_ = (at::stack(means) / deviation_).mm(whitening_.t());
  counts_ = torch::tensor(counts, at::kDouble);
  std::vector<double> spread;
  for (const auto& part : parts) {
    const auto scatter = part.scatter / scale;
    const auto trace = whitening_.mm(scatter).mul(whitening_).sum().item<double>();
    spread.push_back(trace / static_cast<double>(part.count));
  }
  spread_ = torch::tensor(spread, at::kDouble);
}

torch::Tensor KeyReading::distances(const torch::Tensor& keys) const {
  const auto z = (on_host(keys) / deviation_).mm(whitening_.t());  // [B, D]
  std::vector<torch::Tensor> columns;
  for (int64_t t = 0; t < means_.size(0); ++t) columns.push_back((z - means_[t]).square().sum(1));
  return at::stack(columns, 1);
}

torch::Tensor KeyReading::scores(const torch::Tensor& distances) const {
  const auto size = static_cast<double>(deviation_.size(0));
  return -(counts_ / (counts_ + 1)) * distances - size * at::log1p(1 / counts_);
}

double upper_quantile(const torch::Tensor& values, double quantile) {
  const auto ordered = std::get<0>(values.to(at::kDouble).flatten().sort());
  const int64_t count = ordered.size(0);
  const auto place = static_cast<int64_t>(std::ceil(quantile * static_cast<double>(count + 1)));
  if (place > count) return std::numeric_limits<double>::infinity();
  return ordered[std::max<int64_t>(place, 1) - 1].item<double>();
}

}  // namespace asr
