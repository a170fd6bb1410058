#include "report/colors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace asr {
namespace {

// Piecewise linear between evenly spaced stops.
template <size_t N>
Rgb ramp(const Rgb (&stops)[N], double fraction) {
  const double place = std::clamp(std::isfinite(fraction) ? fraction : 0.0, 0.0, 1.0) * (N - 1);
  const size_t below = std::min(static_cast<size_t>(place), N - 2);
  const double weight = place - static_cast<double>(below);
  const auto mix = [weight](uint8_t a, uint8_t b) { return static_cast<uint8_t>(std::lround(a + weight * (b - a))); };
  const Rgb &a = stops[below], &b = stops[below + 1];
  return {mix(a.r, b.r), mix(a.g, b.g), mix(a.b, b.b)};
}

double linear(uint8_t channel) {
  const double c = channel / 255.0;
  return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
}

}  // namespace

std::string hex(Rgb color) {
  return fmt::format("#{:02x}{:02x}{:02x}", color.r, color.g, color.b);
}

Rgb cell_color(double fraction) {
  static const Rgb stops[] = {{245, 249, 252}, {172, 211, 234}, {70, 153, 205}, {0, 98, 158}, {0, 46, 84}};
  return ramp(stops, fraction);
}

Rgb loss_color(double fraction) {
  static const Rgb stops[] = {{89, 32, 0}, {160, 66, 0}, {222, 125, 50}, {247, 200, 156}, {253, 247, 242}};
  return ramp(stops, fraction);
}

const char* text_color_on(Rgb ground) {
  // Contrast ratios of WCAG 2: against white (1.05 / (L + 0.05)) and against black ((L + 0.05) / 0.05).
  const double luminance = 0.2126 * linear(ground.r) + 0.7152 * linear(ground.g) + 0.0722 * linear(ground.b) + 0.05;
  return 1.05 / luminance > luminance / 0.05 ? "#fff" : "#000";
}

Rgb heat_color(double fraction) {
  static const Rgb stops[] = {{40, 11, 84}, {140, 30, 100}, {213, 94, 0}, {245, 180, 40}, {252, 250, 180}};
  return ramp(stops, fraction);
}

}  // namespace asr
