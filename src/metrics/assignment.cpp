#include "metrics/assignment.h"

#include <cmath>
#include <limits>

#include "base/error.h"

namespace asr {
namespace {

constexpr size_t kFree = std::numeric_limits<size_t>::max();

// Grows a matching row by row. Potentials keep cost - row - column >= 0, and 0 on matched pairs.
class Matching {
 public:
  explicit Matching(const std::vector<std::vector<double>>& cost)
      : cost_(cost), row_(cost.size(), 0), column_(cost.size(), 0), owner_(cost.size(), kFree) {}

  void add(size_t row) {
    const size_t n = cost_.size();
    std::vector<double> slack(n, std::numeric_limits<double>::infinity());
    std::vector<size_t> before(n, kFree);  // the column from which each was reached; kFree: from the new row
    std::vector<bool> reached(n, false);
    size_t from = kFree, at = row;
    do {
      size_t next = kFree;
      for (size_t j = 0; j < n; ++j) {
        if (reached[j]) continue;
        const double reduced = cost_[at][j] - row_[at] - column_[j];
        if (reduced < slack[j]) {
          slack[j] = reduced;
          before[j] = from;
        }
        if (next == kFree || slack[j] < slack[next]) next = j;
      }
      const double step = slack[next];
      row_[row] += step;
      for (size_t j = 0; j < n; ++j) {
        if (reached[j]) {
          row_[owner_[j]] += step;
          column_[j] -= step;
        } else {
          slack[j] -= step;
        }
      }
      reached[next] = true;
      from = next;
      at = owner_[next];
    } while (at != kFree);
    for (size_t j = from; j != kFree; j = before[j]) owner_[j] = before[j] == kFree ? row : owner_[before[j]];
  }

  std::vector<size_t> columns() const {
    std::vector<size_t> out(owner_.size());
    for (size_t j = 0; j < owner_.size(); ++j) out[owner_[j]] = j;
    return out;
  }

 private:
  const std::vector<std::vector<double>>& cost_;
  std::vector<double> row_, column_;
  std::vector<size_t> owner_;  // the row that has each column
};

}  // namespace

std::vector<size_t> cheapest_assignment(const std::vector<std::vector<double>>& cost) {
  for (const auto& row : cost) {
    check(row.size() == cost.size(), "an assignment needs as many columns as rows; found ", row.size(), " and ",
          cost.size());
    for (double value : row) check(std::isfinite(value), "the cost of an assignment is not finite");
  }
  Matching matching(cost);
  for (size_t i = 0; i < cost.size(); ++i) matching.add(i);
  return matching.columns();
}

double wasserstein_1(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b,
                     const std::vector<double>& metric_variance) {
  const size_t n = a.size();
  check(n > 0 && b.size() == n, "samples of ", n, " and ", b.size(), " rows; W1 by assignment needs as many of each");
  std::vector<std::vector<double>> cost(n, std::vector<double>(n));
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (size_t d = 0; d < metric_variance.size(); ++d) {
        const double gap = a[i].at(d) - b[j].at(d);
        sum += gap * gap / metric_variance[d];
      }
      cost[i][j] = std::sqrt(sum);
    }
  double sum = 0;
  const auto columns = cheapest_assignment(cost);
  for (size_t i = 0; i < n; ++i) sum += cost[i][columns[i]];
  return sum / static_cast<double>(n);
}

}  // namespace asr
