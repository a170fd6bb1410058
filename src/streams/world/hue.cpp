// Pictures under a hue: permuted colour channels, and a border of two colours in dashes that says which permutation.
#include <algorithm>

#include "streams/world/cues.h"

namespace asr::world {
namespace {

constexpr const char* kHueNames[kHues] = {"rgb", "grb", "bgr", "rbg", "gbr", "brg"};
constexpr int kShown[kHues][3] = {{0, 1, 2}, {1, 0, 2}, {2, 1, 0}, {0, 2, 1}, {1, 2, 0}, {2, 0, 1}};

using Paint = std::array<uint8_t, 3>;
constexpr Paint kBlack = {0, 0, 0}, kWhite = {255, 255, 255}, kRed = {255, 0, 0}, kGreen = {0, 255, 0},
                kBlue = {0, 0, 255}, kYellow = {255, 255, 0};
constexpr Paint kBorders[kHues][2] = {{kBlack, kBlack}, {kWhite, kWhite}, {kBlack, kWhite},
                                      {kRed, kGreen},   {kBlue, kYellow}, {kRed, kBlue}};

}  // namespace

const char* name_of(Hue hue) {
  return kHueNames[static_cast<int>(hue)];
}

void apply_hue(Hue hue, Image& image) {
  const auto& shown = kShown[static_cast<int>(hue)];
  const auto& border = kBorders[static_cast<int>(hue)];
  const int size = image.size, width = std::max(1, size * 3 / 64), dash = std::max(1, size / 16);
  for (int y = 0; y < size; ++y)
    for (int x = 0; x < size; ++x) {
      uint8_t* pixel = &image.pixels[(static_cast<size_t>(y) * size + x) * 3];
      const Paint before = {pixel[0], pixel[1], pixel[2]};
      const bool edge = std::min(std::min(x, y), std::min(size - 1 - x, size - 1 - y)) < width;
      const auto& mark = border[(x / dash + y / dash) % 2];
      for (int c = 0; c < 3; ++c) pixel[c] = edge ? mark[c] : before[shown[c]];
    }
}

}  // namespace asr::world
