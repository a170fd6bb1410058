// Float vectors, a vector exponential and small matrix products of the layer kernels. Included by a kernel file inside
// its own namespace only, so that every instruction set keeps its own copy; no standard-library templates, for the same
// reason.
#pragma once

#include <cstddef>
#include <cstdint>

namespace asr::kernel::ASR_KERNEL {
namespace {

#ifdef __AVX512F__
constexpr int kVector = 64, kTileRows = 8;  // 32 registers hold 8 x 3 sums
#elif defined(__AVX__)
constexpr int kVector = 32, kTileRows = 4;  // 16 registers hold 4 x 3
#else
constexpr int kVector = 16, kTileRows = 4;
#endif
constexpr int kLanes = kVector / 4, kTileVectors = 3;
static_assert(kLanes % kTileRows == 0);

typedef float Vec __attribute__((vector_size(kVector), aligned(4), may_alias));
typedef int32_t IntVec __attribute__((vector_size(kVector), aligned(4), may_alias));

inline const Vec& load(const float* p) {
  return *reinterpret_cast<const Vec*>(p);
}
inline Vec& at(float* p) {
  return *reinterpret_cast<Vec*>(p);
}
inline Vec all(float x) {
  return Vec{} + x;
}
inline int padded(int n) {
  return (n + kLanes - 1) / kLanes * kLanes;
}

// Four lanes that stand for all: their sums or maxima, then those of the lanes.
typedef float Quad __attribute__((vector_size(16), may_alias));
inline float total(Vec v) {
  const Quad* part = reinterpret_cast<const Quad*>(&v);
  Quad sum = part[0];
  for (int i = 1; i < kLanes / 4; ++i) sum += part[i];
  return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}
inline float largest(Vec v) {
  const Quad* part = reinterpret_cast<const Quad*>(&v);
  Quad top = part[0];
  for (int i = 1; i < kLanes / 4; ++i) top = part[i] > top ? part[i] : top;
  const float a = top[0] > top[2] ? top[0] : top[2], b = top[1] > top[3] ? top[1] : top[3];
  return a > b ? a : b;
}

// e^x within 2 units in the last place; exactly 0 below -87, where a softmax weight no longer counts, and finite
// above 88.
inline Vec exponential(Vec x) {
  const IntVec gone = x < -87.0f;
  x = x < -87.0f ? all(-87.0f) : x > 88.0f ? all(88.0f) : x;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const Vec n = (x * 1.44269504f + kRound) - kRound;
  const Vec r = (x - n * 0.693359375f) + n * 2.12194440e-4f;  // ln 2 in two parts
  Vec p = all(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const IntVec power = (__builtin_convertvector(n, IntVec) + 127) << 23;
  const Vec value = p * reinterpret_cast<const Vec&>(power);
  return gone ? Vec{} : value;
}

// ---- C (+)= A B over inner indices [from, to): A at a.at[row * a.row + inner * a.inner], B by rows ------------------

// C: at most kTileRows rows, each of whole vectors.
struct Result {
  float* at;
  ptrdiff_t row;
  int rows, vectors;
};
struct Left {
  const float* at;
  ptrdiff_t row, inner;
};
struct Right {
  const float* at;
  ptrdiff_t row;
};
struct Range {
  int from, to;
};

template <bool Add, int R, int N>
inline void tile(float* c, ptrdiff_t c_row, Left a, Right b, Range inner) {
  Vec sum[R][N];
  for (int r = 0; r < R; ++r)
    for (int n = 0; n < N; ++n) sum[r][n] = Add ? load(c + r * c_row + n * kLanes) : Vec{};
  for (int k = inner.from; k < inner.to; ++k) {
    Vec right[N];
    for (int n = 0; n < N; ++n) right[n] = load(b.at + k * b.row + n * kLanes);
    for (int r = 0; r < R; ++r) {
      const float left = a.at[r * a.row + k * a.inner];
      for (int n = 0; n < N; ++n) sum[r][n] += left * right[n];
    }
  }
  for (int r = 0; r < R; ++r)
    for (int n = 0; n < N; ++n) at(c + r * c_row + n * kLanes) = sum[r][n];
}

// Fewer than 2 R rows: a tile of R where there are as many, then the rest in tiles of half the height.
template <bool Add, int R, int N>
inline void tiles(Result c, Left a, Right b, Range inner) {
  const int done = c.rows >= R ? R : 0;
  if (done > 0) tile<Add, R, N>(c.at, c.row, a, b, inner);
  if constexpr (R > 1)
    if (c.rows > done)
      tiles<Add, R / 2, N>({c.at + done * c.row, c.row, c.rows - done, N}, {a.at + done * a.row, a.row, a.inner}, b,
                           inner);
}

template <bool Add>  // to what C holds
inline void product(Result c, Left a, Right b, Range inner) {
  for (int v = 0; v < c.vectors;) {
    const int left = c.vectors - v, take = left == 4 ? 2 : left >= kTileVectors ? kTileVectors : left;
    const Result to{c.at + v * kLanes, c.row, c.rows, take};
    const Right from{b.at + v * kLanes, b.row};
    if (take == 3)
      tiles<Add, kTileRows, 3>(to, a, from, inner);
    else if (take == 2)
      tiles<Add, kTileRows, 2>(to, a, from, inner);
    else
      tiles<Add, kTileRows, 1>(to, a, from, inner);
    v += take;
  }
}

// Dense rows of `width` numbers, `row` apart.
template <class Real>
struct Matrix {
  Real* at;
  ptrdiff_t row;
  int rows, width;
};

// to [width][pad] = from [rows][width], turned; columns beyond `rows` are zeros. Four by four in registers.
inline void turn_block(const float* from, ptrdiff_t row, float* to, ptrdiff_t pad) {
  typedef float Loose __attribute__((vector_size(16), aligned(4), may_alias));
  const auto get = [&](int r) { return *reinterpret_cast<const Loose*>(from + r * row); };
  const Loose a = get(0), b = get(1), c = get(2), d = get(3);
  const Loose ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Loose ef = __builtin_shufflevector(a, b, 2, 6, 3, 7), gh = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const auto put = [&](int r, Loose x) { *reinterpret_cast<Loose*>(to + r * pad) = x; };
  put(0, __builtin_shufflevector(ab, cd, 0, 1, 4, 5));
  put(1, __builtin_shufflevector(ab, cd, 2, 3, 6, 7));
  put(2, __builtin_shufflevector(ef, gh, 0, 1, 4, 5));
  put(3, __builtin_shufflevector(ef, gh, 2, 3, 6, 7));
}
inline void turn(Matrix<const float> from, float* to, int pad) {
  const int whole_rows = from.rows / 4 * 4, whole_width = from.width / 4 * 4;
  for (int r = 0; r < whole_rows; r += 4)
    for (int i = 0; i < whole_width; i += 4) turn_block(from.at + r * from.row + i, from.row, to + i * pad + r, pad);
  for (int i = 0; i < from.width; ++i) {
    for (int r = i < whole_width ? whole_rows : 0; r < from.rows; ++r) to[i * pad + r] = from.at[r * from.row + i];
    for (int r = from.rows; r < pad; ++r) to[i * pad + r] = 0;
  }
}

}  // namespace
}  // namespace asr::kernel::ASR_KERNEL
