// Moments of stages' keys and their scores with plain loops: what route's own are compared with.
#pragma once

#include <torch/types.h>

#include <cmath>
#include <vector>

namespace asr {

inline double at_of(const torch::Tensor& t, int64_t i, int64_t j) {
  return t[i][j].item<double>();
}

// Means and scatters of stages with plain loops, scaled by total deviations, and the distance by Gauss elimination.
struct PlainStages {
  using Row = std::vector<double>;
  using Matrix = std::vector<Row>;
  std::vector<Matrix> keys;  // by stage
  size_t D;
  double ridge;
  std::vector<Row> mean;
  std::vector<Matrix> scatter;
  Row deviation;
  Matrix R;

  PlainStages(const std::vector<torch::Tensor>& stages, double the_ridge) : ridge(the_ridge) {
    for (const auto& t : stages) {
      Matrix rows;
      for (int64_t i = 0; i < t.size(0); ++i) {
        rows.emplace_back();
        for (int64_t d = 0; d < t.size(1); ++d) rows.back().push_back(at_of(t, i, d));
      }
      keys.push_back(rows);
    }
    D = keys[0][0].size();
    Row grand(D, 0.0);
    double N = 0;
    for (const auto& rows : keys) {
      Row m(D, 0.0);
      for (const auto& row : rows)
        for (size_t d = 0; d < D; ++d) {
          m[d] += row[d] / static_cast<double>(rows.size());
          grand[d] += row[d];
        }
      N += static_cast<double>(rows.size());
      mean.push_back(m);
    }
    deviation.assign(D, 0.0);
    for (const auto& rows : keys)
      for (const auto& row : rows)
        for (size_t d = 0; d < D; ++d) deviation[d] += std::pow(row[d] - grand[d] / N, 2) / N;
    for (auto& d : deviation) d = std::sqrt(d);
    R.assign(D, Row(D, 0.0));
    for (size_t t = 0; t < keys.size(); ++t) {
      Matrix c(D, Row(D, 0.0));
      for (const auto& row : keys[t])
        for (size_t i = 0; i < D; ++i)
          for (size_t j = 0; j < D; ++j)
            c[i][j] += (row[i] - mean[t][i]) * (row[j] - mean[t][j]) / (deviation[i] * deviation[j]);
      for (size_t i = 0; i < D; ++i)
        for (size_t j = 0; j < D; ++j)
          R[i][j] += (1 - ridge) * c[i][j] / std::max(1.0, N - static_cast<double>(keys.size()));
      scatter.push_back(c);
    }
    for (size_t i = 0; i < D; ++i) R[i][i] += ridge;
  }

  Row solved(Row b) const {  // R x = b
    auto a = R;
    for (size_t i = 0; i < D; ++i)
      for (size_t k = i + 1; k < D; ++k) {
        const double f = a[k][i] / a[i][i];
        for (size_t j = i; j < D; ++j) a[k][j] -= f * a[i][j];
        b[k] -= f * b[i];
      }
    for (size_t i = D; i-- > 0;) {
      for (size_t j = i + 1; j < D; ++j) b[i] -= a[i][j] * b[j];
      b[i] /= a[i][i];
    }
    return b;
  }
  double distance(const torch::Tensor& key, size_t stage) const {
    Row gap(D);
    for (size_t d = 0; d < D; ++d)
      gap[d] = (key[static_cast<int64_t>(d)].item<double>() - mean[stage][d]) / deviation[d];
    const auto x = solved(gap);
    double out = 0;
    for (size_t d = 0; d < D; ++d) out += gap[d] * x[d];
    return out;
  }
  double score(const torch::Tensor& key, size_t stage) const {
    const auto n = static_cast<double>(keys[stage].size());
    return -n / (n + 1) * distance(key, stage) - static_cast<double>(D) * std::log(1 + 1 / n);
  }
  double spread(size_t stage) const {  // the mean distance of the stage's own keys
    double out = 0;
    for (size_t d = 0; d < D; ++d) {
      Row column(D);
      for (size_t i = 0; i < D; ++i) column[i] = scatter[stage][i][d];
      out += solved(column)[d];
    }
    return out / static_cast<double>(keys[stage].size());
  }
  size_t best(const torch::Tensor& key) const {
    size_t out = 0;
    for (size_t t = 1; t < keys.size(); ++t)
      if (score(key, t) > score(key, out)) out = t;
    return out;
  }
};

}  // namespace asr
