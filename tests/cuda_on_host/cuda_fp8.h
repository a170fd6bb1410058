// The nearest number of float8 e4m3 with ties to even, by looking at all of them.
#pragma once

#include <cmath>

enum __nv_saturation_t { __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3 };

inline unsigned char __nv_cvt_float_to_fp8(float x, __nv_saturation_t, __nv_fp8_interpretation_t) {
  const float size = std::fabs(x);
  int nearest = 0;
  float least = INFINITY;
  for (int code = 0; code < 0x7f; ++code) {  // 0x7f is no number
    const int exponent = code >> 3, fraction = code & 7;
    const float value = exponent > 0 ? std::ldexp(1 + fraction / 8.0f, exponent - 7) : std::ldexp(fraction / 8.0f, -6);
    const float apart = std::fabs(value - size);
    if (apart > least || (apart == least && code % 2 != 0)) continue;
    least = apart;
    nearest = code;
  }
  return static_cast<unsigned char>(nearest | (std::signbit(x) ? 0x80 : 0));
}
