// Colours that people with any colour vision can tell apart. Lines use the Okabe-Ito palette through CSS classes s0..s6
// (so that they follow light and dark mode); cells and overlays need numbers.
#pragma once

#include <cstdint>
#include <string>

namespace asr {

struct Rgb {
  uint8_t r, g, b;
};

std::string hex(Rgb color);
Rgb cell_color(double fraction);        // 0: near white, 1: dark blue; one hue, so that lightness alone tells the value
Rgb loss_color(double fraction);        // 0: dark brown, what was lost; 1: near white, nothing
const char* text_color_on(Rgb ground);  // black or white, whichever contrasts more
Rgb heat_color(double fraction);        // attention: dark violet over vermillion to pale yellow, lighter throughout

}  // namespace asr
