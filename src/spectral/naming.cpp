#include "spectral/naming.h"

#include <torch/types.h>

#include <algorithm>
#include <map>

#include "base/error.h"

namespace asr {
namespace {

constexpr int64_t kHeldOut = 4;  // one of so many is tested
constexpr double kRidge = 1e-3;

struct NamingSplit {
  torch::Tensor fitted, tested;               // [n, D]
  std::vector<int64_t> fitted_of, tested_of;  // number of the group
};

torch::Tensor table_of_rows(const std::vector<const std::vector<double>*>& rows) {
  const auto width = static_cast<int64_t>(rows[0]->size());
  auto out = at::empty({static_cast<int64_t>(rows.size()), width}, at::kDouble);
  for (size_t i = 0; i < rows.size(); ++i)
    std::copy(rows[i]->begin(), rows[i]->end(), out.data_ptr<double>() + static_cast<int64_t>(i) * width);
  return out;
}

// Groups too small to hold one out are left out.
NamingSplit split_of(const std::vector<std::vector<double>>& samples, const std::vector<int64_t>& group) {
  std::map<int64_t, std::vector<size_t>> rows;
  for (size_t i = 0; i < group.size(); ++i) rows[group[i]].push_back(i);
  NamingSplit out;
  std::vector<const std::vector<double>*> fitted, tested;
  int64_t number = 0;
  for (const auto& [name, mine] : rows) {
    if (static_cast<int64_t>(mine.size()) < kHeldOut) continue;
    for (size_t i = 0; i < mine.size(); ++i) {
      const bool held = static_cast<int64_t>(i) % kHeldOut == kHeldOut - 1;
      (held ? tested : fitted).push_back(&samples[mine[i]]);
      (held ? out.tested_of : out.fitted_of).push_back(number);
    }
    ++number;
  }
  if (number < 2) return {};
  out.fitted = table_of_rows(fitted);
  out.tested = table_of_rows(tested);
  return out;
}

// Squared distances of the tested rows to the groups' means, over some of the columns. [n, groups]
torch::Tensor distances_of(const NamingSplit& split, int64_t groups, int64_t first, int64_t width) {
  const auto fitted = split.fitted.narrow(1, first, width), tested = split.tested.narrow(1, first, width);
  const auto deviation = fitted.var(0, /*unbiased=*/false).sqrt();
  const auto scale = at::where(deviation.gt(1e-12), deviation, at::ones_like(deviation));
  const auto of = torch::tensor(split.fitted_of, at::kLong);
  const auto member = at::arange(groups, at::kLong).unsqueeze(1).eq(of).to(at::kDouble);  // [groups, n]
  const auto rows = fitted / scale;
  const auto means = member.matmul(rows) / member.sum(1, true);
  const auto gap = rows - means.index_select(0, of);
  const auto covariance =
      gap.t().matmul(gap) / static_cast<double>(rows.size(0)) + kRidge * at::eye(width, at::kDouble);
  const auto factor = at::linalg_cholesky(covariance);
  const auto whiten = [&](const torch::Tensor& x) {
    return at::linalg_solve_triangular(factor, x.t().contiguous(), /*upper=*/false).t();
  };
  const auto way = whiten(tested / scale).unsqueeze(1) - whiten(means).unsqueeze(0);
  return way.square().sum(2);
}

}  // namespace

Naming naming_accuracy(const std::vector<std::vector<double>>& samples, const std::vector<int64_t>& group,
                       int64_t parts) {
  check(samples.size() == group.size(), "there are ", group.size(), " groups for ", samples.size(), " samples");
  Naming out;
  if (samples.empty()) return out;
  const auto split = split_of(samples, group);
  if (!split.fitted.defined()) return out;
  const int64_t groups = *std::max_element(split.fitted_of.begin(), split.fitted_of.end()) + 1;
  const int64_t width = split.fitted.size(1) / parts;
  torch::Tensor distances;
  for (int64_t part = 0; part < parts; ++part) {
    const auto more = distances_of(split, groups, part * width, width);
    distances = distances.defined() ? distances + more : more;
  }
  const auto named = distances.argmin(1);
  std::vector<int64_t> size(static_cast<size_t>(groups));
  int64_t right = 0;
  out.tested = static_cast<int64_t>(split.tested_of.size());
  for (int64_t i = 0; i < out.tested; ++i) {
    const int64_t mine = split.tested_of[static_cast<size_t>(i)];
    right += named[i].item<int64_t>() == mine;
    ++size[static_cast<size_t>(mine)];
  }
  out.accuracy = static_cast<double>(right) / static_cast<double>(out.tested);
  out.chance = static_cast<double>(*std::max_element(size.begin(), size.end())) / static_cast<double>(out.tested);
  return out;
}

}  // namespace asr
