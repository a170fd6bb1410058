// The spectrum of an attention map: which scales and directions the attention of a question word has in a picture.
// Two maps are encoded, a single spot and vertical stripes, and their radial and angular spectra printed as bars.
//   build/examples/example_01_spectrum_of_a_map
#include <cmath>
#include <cstdio>

#include "spectral/descriptor.h"

namespace {

constexpr int64_t kSide = 16;  // the picture is 16 x 16 visual tokens

torch::Tensor spot() {
  auto map = torch::zeros({kSide, kSide});
  for (int64_t y = 0; y < kSide; ++y)
    for (int64_t x = 0; x < kSide; ++x) map[y][x] = std::exp(-0.2 * ((y - 5.0) * (y - 5.0) + (x - 9.0) * (x - 9.0)));
  return map;
}

torch::Tensor stripes() {
  auto map = torch::zeros({kSide, kSide});
  for (int64_t x = 0; x < kSide; ++x)
    map.select(1, x).fill_(1 + std::cos(2 * M_PI * 4 * static_cast<double>(x) / kSide));
  return map;
}

void print_bars(const char* name, const torch::Tensor& spectrum) {
  std::printf("  %s\n", name);
  for (int64_t k = 0; k < spectrum.numel(); ++k) {
    const double share = spectrum[k].item<double>();
    std::printf("    %lld %.3f %s\n", static_cast<long long>(k), share,
                std::string(static_cast<size_t>(std::lround(40 * share)), '#').c_str());
  }
}

}  // namespace

int main() {
  const asr::SpectralOptions options;  // the default preset, see docs/maths.md
  const asr::SpectralEncoder encoder(kSide, kSide, options);
  // One sample, one layer, one head, one question token: [B, L, heads, T, H, W].
  const auto weights = asr::token_weights(torch::ones({1, 1}), torch::ones({1, 1}));
  for (const auto& [name, map] : {std::pair("a spot", spot()), std::pair("four vertical stripes", stripes())}) {
    const auto descriptor = encoder.descriptor(map.view({1, 1, 1, 1, kSide, kSide}), weights);  // [1, D]
    std::printf("%s: a descriptor of %lld numbers\n", name, static_cast<long long>(descriptor.size(1)));
    print_bars("radial, coarse to fine", asr::radial_part(descriptor, options)[0]);
    print_bars("angular, by direction", asr::angular_part(descriptor, options)[0]);
  }
}
