// Vectors, long-vector operations and small matrix products of the CPU kernels. Included by a kernel file inside its
// own namespace only, so that every instruction set keeps its own copy; no standard-library templates, for the same
// reason.
#pragma once

#include <cstddef>
#include <cstdint>
#ifdef __AVX__
#include <immintrin.h>
#endif

namespace asr::kernel::ASR_KERNEL {
namespace {

constexpr int kVector =
    32;  // bytes; 64 were no faster at 24x24 and 32x46, and slower at 8x8, where they are half padding

template <class Real>
struct Simd;
template <>
struct Simd<float> {
  typedef float Vec __attribute__((vector_size(kVector), aligned(4), may_alias));
  typedef int32_t Int __attribute__((vector_size(kVector), aligned(4), may_alias));
  static constexpr int lanes = kVector / 4;
  static constexpr int32_t none = INT32_MAX;
};
template <>
struct Simd<double> {
  typedef double Vec __attribute__((vector_size(kVector), aligned(8), may_alias));
  typedef int64_t Int __attribute__((vector_size(kVector), aligned(8), may_alias));
  static constexpr int lanes = kVector / 8;
  static constexpr int64_t none = INT64_MAX;
};

template <class Real>
using Vec = typename Simd<Real>::Vec;
template <class Real>
inline const Vec<Real>& load(const Real* p) {
  return *reinterpret_cast<const Vec<Real>*>(p);
}
template <class Real>
inline Vec<Real>& at(Real* p) {
  return *reinterpret_cast<Vec<Real>*>(p);
}

// Sum of the lanes, halving.
inline float total(Simd<float>::Vec v) {
  const Simd<float>::Vec a = v + __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
  const Simd<float>::Vec b = a + __builtin_shufflevector(a, a, 2, 3, 0, 1, 6, 7, 4, 5);
  return b[0] + b[1];
}
inline double total(Simd<double>::Vec v) {
  const Simd<double>::Vec a = v + __builtin_shufflevector(v, v, 2, 3, 0, 1);
  return a[0] + a[1];
}
// ---- long vectors ---------------------------------------------------------------------------------------

template <class Real>
inline Real sum(const Real* x, int n) {
  constexpr int lanes = Simd<Real>::lanes;
  Vec<Real> a{}, b{}, c{}, d{};
  int i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes)
    a += load(x + i), b += load(x + i + lanes), c += load(x + i + 2 * lanes), d += load(x + i + 3 * lanes);
  for (; i + lanes <= n; i += lanes) a += load(x + i);
  Real out = total((a + b) + (c + d));
  for (; i < n; ++i) out += x[i];
  return out;
}

template <class Real>
inline Real dot(const Real* x, const Real* y, int n) {
  constexpr int lanes = Simd<Real>::lanes;
  Vec<Real> a{}, b{}, c{}, d{};
  int i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a += load(x + i) * load(y + i), b += load(x + i + lanes) * load(y + i + lanes);
    c += load(x + i + 2 * lanes) * load(y + i + 2 * lanes), d += load(x + i + 3 * lanes) * load(y + i + 3 * lanes);
  }
  for (; i + lanes <= n; i += lanes) a += load(x + i) * load(y + i);
  Real out = total((a + b) + (c + d));
  for (; i < n; ++i) out += x[i] * y[i];
  return out;
}

// Dot products of N rows with the same y.
template <class Real, int N>
inline void dots(const Real* const* x, const Real* y, int n, Real* out) {
  constexpr int lanes = Simd<Real>::lanes;
  const Real* row[N];  // local, so that no store can be taken to change them
  for (int k = 0; k < N; ++k) row[k] = x[k];
  Vec<Real> acc[N] = {};
  int i = 0;
  for (; i + lanes <= n; i += lanes) {
    const Vec<Real> right = load(y + i);
    for (int k = 0; k < N; ++k) acc[k] += load(row[k] + i) * right;
  }
  for (int k = 0; k < N; ++k) out[k] = total(acc[k]);
  for (; i < n; ++i)
    for (int k = 0; k < N; ++k) out[k] += row[k][i] * y[i];
}

template <class Real>
inline void dot_rows(const Real* const* x, const Real* y, int rows, int n, Real* out) {
  int k = 0;
  for (; k + 4 <= rows; k += 4) dots<Real, 4>(x + k, y, n, out + k);
  for (; k < rows; ++k) out[k] = dot(x[k], y, n);
}

// to (+)= sum of factor[k] * x[k] over N rows.
template <class Real, int N>
inline void combine(Real* to, const Real* factor, const Real* const* x, int n, bool accumulate) {
  constexpr int lanes = Simd<Real>::lanes;
  const Real* row[N];
  Vec<Real> scale[N];
  for (int k = 0; k < N; ++k) row[k] = x[k], scale[k] = Vec<Real>{} + factor[k];
  int i = 0;
  for (; i + lanes <= n; i += lanes) {
    Vec<Real> acc = accumulate ? load(to + i) : Vec<Real>{};
    for (int k = 0; k < N; ++k) acc += scale[k] * load(row[k] + i);
    at(to + i) = acc;
  }
  for (; i < n; ++i) {
    Real acc = accumulate ? to[i] : Real(0);
    for (int k = 0; k < N; ++k) acc += factor[k] * row[k][i];
    to[i] = acc;
  }
}

template <class Real>
inline void combine_rows(Real* to, const Real* factor, const Real* const* x, int rows, int n) {
  int k = 0;
  for (; k + 4 <= rows; k += 4) combine<Real, 4>(to, factor + k, x + k, n, k > 0);
  for (; k < rows; ++k) combine<Real, 1>(to, factor + k, x + k, n, k > 0);
}

template <class Real>
inline void affine(Real* to, Real factor, const Real* x, Real shift, int n) {  // to = factor * x + shift
  constexpr int lanes = Simd<Real>::lanes;
  int i = 0;
  for (; i + lanes <= n; i += lanes) at(to + i) = factor * load(x + i) + shift;
  for (; i < n; ++i) to[i] = factor * x[i] + shift;
}

inline void stream(float* to, Simd<float>::Vec value) {
#ifdef __AVX__
  _mm256_stream_ps(to, value);
#else
  at(to) = value;
#endif
}
inline void stream(double* to, Simd<double>::Vec value) {
#ifdef __AVX__
  _mm256_stream_pd(to, value);
#else
  at(to) = value;
#endif
}

// Streamed stores are weakly ordered; this makes them visible before the thread reports its work done.
inline void finish_streaming() {
#ifdef __AVX__
  _mm_sfence();
#endif
}

// affine() past the caches, for results too large to stay in them; needs whole aligned vectors.
template <class Real>
inline void affine_streamed(Real* to, Real factor, const Real* x, Real shift, int n) {
  constexpr int lanes = Simd<Real>::lanes;
  if (n % lanes == 0 && reinterpret_cast<uintptr_t>(to) % kVector == 0) {
    for (int i = 0; i < n; i += lanes) stream(to + i, factor * load(x + i) + shift);
    return;
  }
  affine(to, factor, x, shift, n);
}

template <class Real>
inline void fill(Real* to, Real value, int n) {
  for (int i = 0; i < n; ++i) to[i] = value;
}

// ---- small matrix products: C [rows][cols] (+)= A [rows][inner] B [inner][cols], cols in whole vectors -------

// The matrix products leave the memory idle, so each of their steps asks for one more line of the next maps.
struct Ahead {
  const char* at;
  ptrdiff_t step;  // 64, or 0 when nothing comes next
};

template <class Real, int R, int N>
inline void block(Real* c, ptrdiff_t ldc, const Real* a, ptrdiff_t lda, const Real* b, ptrdiff_t ldb, int inner,
                  bool accumulate, Ahead& ahead) {
  const char* line = ahead.at;
  constexpr int lanes = Simd<Real>::lanes;
  Vec<Real> acc[R][N];
  for (int r = 0; r < R; ++r)
    for (int n = 0; n < N; ++n) acc[r][n] = accumulate ? load(c + r * ldc + n * lanes) : Vec<Real>{};
  for (int k = 0; k < inner; ++k) {
    __builtin_prefetch(line, 0, 2);
    line += ahead.step;
    Vec<Real> right[N];
    for (int n = 0; n < N; ++n) right[n] = load(b + k * ldb + n * lanes);
    for (int r = 0; r < R; ++r) {
      const Real left = a[r * lda + k];
      for (int n = 0; n < N; ++n) acc[r][n] += left * right[n];
    }
  }
  for (int r = 0; r < R; ++r)
    for (int n = 0; n < N; ++n) at(c + r * ldc + n * lanes) = acc[r][n];
  ahead.at = line;
}

template <class Real, int N>
inline void rows_of(Real* c, ptrdiff_t ldc, const Real* a, ptrdiff_t lda, const Real* b, ptrdiff_t ldb, int rows,
                    int inner, bool accumulate, Ahead& ahead) {
  int r = 0;
  for (; r + 4 <= rows; r += 4) block<Real, 4, N>(c + r * ldc, ldc, a + r * lda, lda, b, ldb, inner, accumulate, ahead);
  switch (rows - r) {
    case 3:
      return block<Real, 3, N>(c + r * ldc, ldc, a + r * lda, lda, b, ldb, inner, accumulate, ahead);
    case 2:
      return block<Real, 2, N>(c + r * ldc, ldc, a + r * lda, lda, b, ldb, inner, accumulate, ahead);
    case 1:
      return block<Real, 1, N>(c + r * ldc, ldc, a + r * lda, lda, b, ldb, inner, accumulate, ahead);
    default:
      return;
  }
}

template <class Real>
void product(Real* c, ptrdiff_t ldc, const Real* a, ptrdiff_t lda, const Real* b, ptrdiff_t ldb, int rows, int cols,
             int inner, bool accumulate, Ahead& ahead) {
  constexpr int lanes = Simd<Real>::lanes;
  for (int col = 0; col < cols;) {
    const int left = (cols - col) / lanes;
    const int take = left == 4 ? 2 : left >= 3 ? 3 : left;
    switch (take) {
      case 3:
        rows_of<Real, 3>(c + col, ldc, a, lda, b + col, ldb, rows, inner, accumulate, ahead);
        break;
      case 2:
        rows_of<Real, 2>(c + col, ldc, a, lda, b + col, ldb, rows, inner, accumulate, ahead);
        break;
      default:
        rows_of<Real, 1>(c + col, ldc, a, lda, b + col, ldb, rows, inner, accumulate, ahead);
        break;
    }
    col += take * lanes;
  }
}

}  // namespace
}  // namespace asr::kernel::ASR_KERNEL
