// The polar coordinates of a grid's frequencies and the bin of each (paper, "2D Fourier spectrum"; docs/maths.md).
// Always computed in double: in float32 a few frequencies of a 24x24 grid land in the wrong bin.
#pragma once

#include <cstdint>
#include <vector>

#include "spectral/options.h"

namespace asr {

struct FrequencyPlane {
  int64_t height = 0, width = 0;
  std::vector<double> radius, angle;                // [H*W], unshifted DFT order; radius divided by its maximum
  std::vector<int64_t> radial_bin, angular_bin;     // [H*W]
  std::vector<double> radial_count, angular_count;  // frequencies a bin, without (0, 0) where it is dropped
  // Weight of frequency i in its radial (angular) bin: 0 for a dropped DC, 1/count for bin means.
  double radial_weight(int64_t i, const SpectralOptions& options) const;
  double angular_weight(int64_t i, const SpectralOptions& options) const;
};

FrequencyPlane make_frequency_plane(int64_t height, int64_t width, const SpectralOptions& options);

}  // namespace asr
