#include "report/potential_field.h"

#include <algorithm>
#include <cmath>

namespace asr {
namespace {

double deviation_of(const std::vector<FieldPoint>& points, double FieldPoint::*axis) {
  const auto n = static_cast<double>(points.size());
  double mean = 0, sum = 0;
  for (const auto& point : points) mean += point.*axis / n;
  for (const auto& point : points) sum += (point.*axis - mean) * (point.*axis - mean);
  return n > 1 ? std::sqrt(sum / (n - 1)) : 0;
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// Where between two corners the level lies.
std::pair<double, double> crossing(double level, const FieldPoint& a, const FieldPoint& b) {
  const double part = (level - a.value) / (b.value - a.value);
  return {a.x + part * (b.x - a.x), a.y + part * (b.y - a.y)};
}

}  // namespace

PotentialField::PotentialField(std::vector<FieldPoint> points) : points_(std::move(points)) {
  const double factor = points_.empty() ? 0 : std::pow(static_cast<double>(points_.size()), -1.0 / 6);
  width_x_ = factor * deviation_of(points_, &FieldPoint::x);
  width_y_ = factor * deviation_of(points_, &FieldPoint::y);
}

double PotentialField::at(double x, double y) const {
  // Relative to the nearest point, so that far from all of them the weights do not vanish together.
  double nearest = INFINITY;
  std::vector<double> exponents;
  for (const auto& point : points_) {
    const double u = (x - point.x) / width_x_, v = (y - point.y) / width_y_;
    exponents.push_back((u * u + v * v) / 2);
    nearest = std::min(nearest, exponents.back());
  }
  double sum = 0, weights = 0;
  for (size_t i = 0; i < points_.size(); ++i) {
    const double weight = std::exp(nearest - exponents[i]);
    sum += weight * points_[i].value;
    weights += weight;
  }
  return sum / weights;
}

std::pair<double, double> PotentialField::slope(double x, double y) const {
  const double dx = 0.05 * width_x_, dy = 0.05 * width_y_;
  return {(at(x + dx, y) - at(x - dx, y)) / (2 * dx), (at(x, y + dy) - at(x, y - dy)) / (2 * dy)};
}

std::vector<double> PotentialField::residuals() const {
  std::vector<double> out;
  for (const auto& point : points_) out.push_back(point.value - at(point.x, point.y));
  return out;
}

std::vector<bool> PotentialField::atypical() const {
  const auto off = residuals();
  const double middle = median_of(off);
  std::vector<double> distances;
  for (const double value : off) distances.push_back(std::abs(value - middle));
  const double limit = 2 * median_of(distances);
  std::vector<bool> out;
  for (const double distance : distances) out.push_back(distance > limit);
  return out;
}

std::vector<std::pair<std::pair<double, double>, std::pair<double, double>>> contour(
    const std::vector<std::vector<double>>& grid, double level) {
  std::vector<std::pair<std::pair<double, double>, std::pair<double, double>>> out;
  for (size_t row = 0; row + 1 < grid.size(); ++row)
    for (size_t column = 0; column + 1 < grid[row].size(); ++column) {
      const auto corner = [&](size_t right, size_t down) {
        return FieldPoint{static_cast<double>(column + right), static_cast<double>(row + down),
                          grid[row + down][column + right]};
      };
      const FieldPoint corners[4] = {corner(0, 0), corner(1, 0), corner(1, 1), corner(0, 1)};
      std::vector<std::pair<double, double>> crossings;
      for (size_t i = 0; i < 4; ++i) {
        const auto &a = corners[i], &b = corners[(i + 1) % 4];
        if ((a.value < level) != (b.value < level)) crossings.push_back(crossing(level, a, b));
      }
      for (size_t i = 0; i + 1 < crossings.size(); i += 2) out.emplace_back(crossings[i], crossings[i + 1]);
    }
  return out;
}

}  // namespace asr
