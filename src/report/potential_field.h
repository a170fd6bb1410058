// Forgetting over the plane of drift: a smooth surface through single observations (Nadaraya-Watson with a Gaussian
// kernel, bandwidth h_j = sigma_j n^(-1/6) on each axis), its slope, and which observations it does not explain.
#pragma once

#include <utility>
#include <vector>

#include "report/svg.h"

namespace asr {

struct FieldPoint {
  double x, y, value;
};

class PotentialField {
 public:
  // At least three points that differ on both axes; `usable` says so.
  explicit PotentialField(std::vector<FieldPoint> points);
  bool usable() const { return width_x_ > 0 && width_y_ > 0 && points_.size() >= 3; }
  double at(double x, double y) const;
  std::pair<double, double> slope(double x, double y) const;  // along which the value rises
  double width_x() const { return width_x_; }
  double width_y() const { return width_y_; }
  // Observed less smoothed, one a point, and whether that is further than 2 median absolute deviations from their
  // median.
  std::vector<double> residuals() const;
  std::vector<bool> atypical() const;

 private:
  std::vector<FieldPoint> points_;
  double width_x_ = 0, width_y_ = 0;
};

// Where a grid of values crosses a level, as line segments in grid units (column, row).
std::vector<std::pair<std::pair<double, double>, std::pair<double, double>>> contour(
    const std::vector<std::vector<double>>& grid, double level);

}  // namespace asr
