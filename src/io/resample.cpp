#include "io/resample.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace asr {
namespace {

constexpr int64_t max_weighed_outputs = 1 << 16;
constexpr double pi = 3.14159265358979323846;

double sinc(double x) {
  return x == 0 ? 1 : std::sin(pi * x) / (pi * x);
}

double filter_value(ResampleFilter filter, double x) {
  x = std::abs(x);
  switch (filter) {
    case ResampleFilter::Lanczos:
      return x < 3 ? sinc(x) * sinc(x / 3) : 0;
    case ResampleFilter::Bilinear:
      return x < 1 ? 1 - x : 0;
    case ResampleFilter::Bicubic: {
      constexpr double a = -0.5;
      if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
      return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
    }
  }
  return 0;
}

double filter_radius(ResampleFilter filter) {
  return filter == ResampleFilter::Lanczos ? 3 : filter == ResampleFilter::Bilinear ? 1 : 2;
}

// For the outputs begin .. begin+count of one axis: which inputs each reads, and with which fixed-point weights.
struct Taps {
  std::vector<int64_t> first, count;
  std::vector<int32_t> weights;  // [outputs][stride]
  size_t stride = 0;
  int precision = 0;  // weights are multiples of 2^-precision

  const int32_t* of(int64_t output) const { return weights.data() + static_cast<size_t>(output) * stride; }
};

struct Axis {
  int64_t input, output;
  ResampleFilter filter;
  double scale = static_cast<double>(input) / static_cast<double>(output);
  double stretch = std::max(scale, 1.0);  // antialias: the filter widens where the image shrinks
  double radius = filter_radius(filter) * stretch;

  // Normalised weights of one output; returns the first input.
  int64_t weights(int64_t index, std::vector<double>& out) const {
    const double centre = scale * (static_cast<double>(index) + 0.5);
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(centre - radius + 0.5), 0);
    const int64_t last = std::min<int64_t>(static_cast<int64_t>(centre + radius + 0.5), input);
    out.clear();
    double sum = 0;
    for (int64_t i = first; i < last; ++i) {
      out.push_back(filter_value(filter, (static_cast<double>(i) - centre + 0.5) / stretch));
      sum += out.back();
    }
    if (sum != 0)
      for (double& weight : out) weight /= sum;
    return first;
  }
};

// As many bits as keep the largest weight of the whole axis within 16.
int choose_precision(double largest) {
  int precision = 0;
  while (precision < 22 && static_cast<int64_t>(0.5 + largest * (int64_t(1) << (precision + 1))) < (1 << 15))
    ++precision;
  return precision;
}

Taps make_taps(const Axis& axis, int64_t begin, int64_t count) {
  Taps taps;
  taps.stride = static_cast<size_t>(std::ceil(axis.radius)) * 2 + 1;
  std::vector<double> exact(static_cast<size_t>(count) * taps.stride), row;
  double largest = 0;
  // Every output is weighed, so that the precision does not depend on the window; only where that would take seconds,
  // on the strips that no other implementation resizes at all, the window must do.
  const bool all = axis.output <= max_weighed_outputs;
  for (int64_t i = all ? 0 : begin; i < (all ? axis.output : begin + count); ++i) {
    const int64_t first = axis.weights(i, row);
    for (double weight : row) largest = std::max(largest, weight);
    if (i < begin || i >= begin + count) continue;
    taps.first.push_back(first);
    taps.count.push_back(static_cast<int64_t>(row.size()));
    std::copy(row.begin(), row.end(), exact.begin() + (i - begin) * static_cast<int64_t>(taps.stride));
  }
  taps.precision = choose_precision(largest);
  taps.weights.resize(exact.size());
  for (size_t i = 0; i < exact.size(); ++i)
    taps.weights[i] = static_cast<int32_t>(exact[i] * (1 << taps.precision) + (exact[i] < 0 ? -0.5 : 0.5));
  return taps;
}

uint8_t rounded(int32_t sum, int precision) {
  return static_cast<uint8_t>(std::clamp(sum >> precision, 0, 255));
}

int32_t half(int precision) {
  return precision > 0 ? 1 << (precision - 1) : 0;
}

// Rows top .. top+height of the input, each resized to the window's columns.
Image8 resize_rows(const Image8& image, const Taps& taps, int64_t top, int64_t height) {
  const int64_t width = static_cast<int64_t>(taps.first.size());
  Image8 out{height, width, std::vector<uint8_t>(static_cast<size_t>(height * width) * 3)};
  uint8_t* target = out.rgb.data();
  for (int64_t y = top; y < top + height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      const uint8_t* source = &image.rgb[static_cast<size_t>(y * image.width + taps.first[x]) * 3];
      const int32_t* weights = taps.of(x);
      int32_t sum[3] = {half(taps.precision), half(taps.precision), half(taps.precision)};
      for (int64_t i = 0; i < taps.count[x]; ++i) {
        for (int c = 0; c < 3; ++c) sum[c] += source[c] * weights[i];
        source += 3;
      }
      for (int c = 0; c < 3; ++c) target[c] = rounded(sum[c], taps.precision);
      target += 3;
    }
  return out;
}

// `image` begins at row `top` of the source.
Image8 resize_columns(const Image8& image, const Taps& taps, int64_t top) {
  const int64_t height = static_cast<int64_t>(taps.first.size());
  const size_t row_bytes = static_cast<size_t>(image.width) * 3;
  Image8 out{height, image.width, std::vector<uint8_t>(static_cast<size_t>(height) * row_bytes)};
  std::vector<int32_t> sums(row_bytes);
  for (int64_t y = 0; y < height; ++y) {
    std::fill(sums.begin(), sums.end(), half(taps.precision));
    for (int64_t i = 0; i < taps.count[y]; ++i) {
      const uint8_t* source = &image.rgb[static_cast<size_t>(taps.first[y] + i - top) * row_bytes];
      const int32_t weight = taps.of(y)[i];
      for (size_t x = 0; x < row_bytes; ++x) sums[x] += source[x] * weight;
    }
    uint8_t* target = &out.rgb[static_cast<size_t>(y) * row_bytes];
    for (size_t x = 0; x < row_bytes; ++x) target[x] = rounded(sums[x], taps.precision);
  }
  return out;
}

// An axis that keeps its size is copied, not filtered.
Taps identity_taps(int64_t begin, int64_t count) {
  Taps taps;
  taps.stride = 1;
  taps.weights.assign(static_cast<size_t>(count), 1);
  taps.count.assign(static_cast<size_t>(count), 1);
  for (int64_t i = 0; i < count; ++i) taps.first.push_back(begin + i);
  return taps;
}

Taps axis_taps(int64_t input, int64_t output, ResampleFilter filter, int64_t begin, int64_t count) {
  return input == output ? identity_taps(begin, count) : make_taps({input, output, filter}, begin, count);
}

}  // namespace

Image8 resize(const Image8& image, int64_t height, int64_t width, ResampleFilter filter, const ImageWindow& window) {
  check(image.height > 0 && image.width > 0 && height > 0 && width > 0, "cannot resize ", image.width, "x",
        image.height, " pixels to ", width, "x", height);
  check(window.top >= 0 && window.left >= 0 && window.height > 0 && window.width > 0 &&
            window.top + window.height <= height && window.left + window.width <= width,
        "a window outside the resized image of ", width, "x", height);
  check(window.height * window.width <= ImageLimits().pixels, "a resized image of ", window.width, "x", window.height,
        " pixels is too large (at most ", ImageLimits().pixels, "); lower the size in preprocessor_config.json");
  const Taps columns = axis_taps(image.width, width, filter, window.left, window.width);
  const Taps rows = axis_taps(image.height, height, filter, window.top, window.height);
  const int64_t top = rows.first.front(), bottom = rows.first.back() + rows.count.back();
  return resize_columns(resize_rows(image, columns, top, bottom - top), rows, top);
}

Image8 resize(const Image8& image, int64_t height, int64_t width, ResampleFilter filter) {
  return resize(image, height, width, filter, {0, 0, height, width});
}

Image8 at_most(const Image8& image, int64_t side) {
  const int64_t longer = std::max(image.height, image.width);
  if (longer <= side) return image;
  const auto scaled = [&](int64_t length) { return std::max<int64_t>(1, (length * side + longer / 2) / longer); };
  return resize(image, scaled(image.height), scaled(image.width), ResampleFilter::Bicubic);
}

}  // namespace asr
