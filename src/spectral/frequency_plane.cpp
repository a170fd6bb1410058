#include "spectral/frequency_plane.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace asr {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kOnEdge = 1e-9;  // in units of one bin

double frequency(int64_t index, int64_t size, Frequency mode) {
  const bool negative = mode == Frequency::centered && 2 * index >= size;  // Nyquist is -1/2
  return static_cast<double>(negative ? index - size : index) / static_cast<double>(size);
}

// Bin of a position measured in bins from the lower end, before wrapping or clamping: -1 .. bins.
int64_t bin_of(double position, BinEdge edge) {
  const double nearest = std::round(position);
  if (std::abs(position - nearest) < kOnEdge) return static_cast<int64_t>(nearest) - (edge == BinEdge::right);
  return static_cast<int64_t>(std::floor(position));
}

}  // namespace

double FrequencyPlane::radial_weight(int64_t i, const SpectralOptions& options) const {
  if (i == 0 && options.dc == Dc::drop) return 0;
  return options.bin_statistic == BinStatistic::sum ? 1 : 1 / radial_count[radial_bin[i]];
}

double FrequencyPlane::angular_weight(int64_t i, const SpectralOptions& options) const {
  if (i == 0 && options.dc == Dc::drop) return 0;
  return options.bin_statistic == BinStatistic::sum ? 1 : 1 / angular_count[angular_bin[i]];
}

FrequencyPlane make_frequency_plane(int64_t height, int64_t width, const SpectralOptions& options) {
  check(height >= 1 && width >= 1 && height <= 4096 && width <= 4096, "grid of ", height, "x", width,
        " is not between 1x1 and 4096x4096");
  check(height * width > 1, "grid of 1x1 has no frequencies; use a larger attention grid");
  const int64_t bins_r = options.radial_bins, bins_a = options.angular_bins;
  FrequencyPlane plane;
  plane.height = height;
  plane.width = width;
  plane.radial_count.assign(bins_r, 0);
  plane.angular_count.assign(bins_a, 0);
  for (int64_t u = 0; u < height; ++u)
    for (int64_t v = 0; v < width; ++v) {
      const double fu = frequency(u, height, options.frequency), fv = frequency(v, width, options.frequency);
      plane.radius.push_back(std::sqrt(fu * fu + fv * fv));
      plane.angle.push_back(std::atan2(fv, fu));
    }
  const double largest = *std::max_element(plane.radius.begin(), plane.radius.end());
  for (int64_t i = 0; i < height * width; ++i) {
    plane.radius[i] /= largest;
    const int64_t r = bin_of(plane.radius[i] * static_cast<double>(bins_r), options.bin_edge);
    const int64_t a = bin_of((plane.angle[i] + kPi) / (2 * kPi) * static_cast<double>(bins_a), options.bin_edge);
    plane.radial_bin.push_back(std::clamp<int64_t>(r, 0, bins_r - 1));  // the ends are closed
    plane.angular_bin.push_back((a + bins_a) % bins_a);                 // the circle wraps
    if (i == 0 && options.dc == Dc::drop) continue;
    ++plane.radial_count[plane.radial_bin[i]];
    ++plane.angular_count[plane.angular_bin[i]];
  }
  return plane;
}

}  // namespace asr
