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

// A Pack holds the same number of several maps, one a lane. Code written for a Num = float or double, whose vectors
// take neighbouring numbers of one map, serves a Num = Pack too: its vector is the Pack itself, one number of each map.
template <class Real>
struct PackOf {
  typedef Real type __attribute__((vector_size(kVector)));
};
template <class Real>
using Pack = typename PackOf<Real>::type;

struct Nothing;

template <class Num>
struct Simd;
template <>
struct Simd<float> {
  typedef float Vec __attribute__((vector_size(kVector), aligned(4), may_alias));
  typedef int32_t Int __attribute__((vector_size(kVector), aligned(4), may_alias));
  using Real = float;
  using Shared = Nothing;
  static constexpr int lanes = kVector / 4, maps = 1;
};
template <>
struct Simd<double> {
  typedef double Vec __attribute__((vector_size(kVector), aligned(8), may_alias));
  typedef int64_t Int __attribute__((vector_size(kVector), aligned(8), may_alias));
  using Real = double;
  using Shared = Nothing;
  static constexpr int lanes = kVector / 8, maps = 1;
};
template <class Of, class Integer>
struct SeveralMaps {
  using Vec = Pack<Of>;
  using Int = Pack<Integer>;
  using Real = Of;
  using Shared = Of;
  static constexpr int lanes = 1, maps = kVector / static_cast<int>(sizeof(Of));
};
template <>
struct Simd<Pack<float>> : SeveralMaps<float, int32_t> {};
template <>
struct Simd<Pack<double>> : SeveralMaps<double, int64_t> {};

template <class Num>
using Vec = typename Simd<Num>::Vec;
template <class Num>
using RealOf = typename Simd<Num>::Real;

// One vector of Num: neighbouring numbers of one map, or one of each; or a number that all maps of a Pack share.
template <class Num>
inline const Vec<Num>& load(const Num* p) {
  return *reinterpret_cast<const Vec<Num>*>(p);
}
template <class Num>
inline const typename Simd<Num>::Shared& load(const typename Simd<Num>::Shared* p) {
  return *p;
}
template <class Num>
inline Vec<Num>& at(Num* p) {
  return *reinterpret_cast<Vec<Num>*>(p);
}
// As a vector; x - 0 is x to the last bit.
template <class Num>
inline const Vec<Num>& spread(const Vec<Num>& x) {
  return x;
}
template <class Num>
inline Vec<Num> spread(RealOf<Num> x) {
  return x - Vec<Num>{};
}
template <class Num>
inline RealOf<Num> lane(const Num& x, int i) {
  if constexpr (Simd<Num>::maps == 1) {
    (void)i;
    return x;
  } else {
    return x[i];
  }
}
template <class Num>
inline void set_lane(Num& x, int i, RealOf<Num> value) {
  if constexpr (Simd<Num>::maps == 1) {
    (void)i;
    x = value;
  } else {
    x[i] = value;
  }
}

// Sum of the lanes, halving; the maps of a Pack stay apart.
template <class Num>
inline Num total(const Vec<Num>& v) {
  if constexpr (Simd<Num>::maps > 1) {
    return v;
  } else if constexpr (Simd<Num>::lanes == 8) {
    const Vec<Num> a = v + __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
    const Vec<Num> b = a + __builtin_shufflevector(a, a, 2, 3, 0, 1, 6, 7, 4, 5);
    return b[0] + b[1];
  } else {
    const Vec<Num> a = v + __builtin_shufflevector(v, v, 2, 3, 0, 1);
    return a[0] + a[1];
  }
}

// ---- long vectors ---------------------------------------------------------------------------------------

template <class Num>
inline Num sum(const Num* x, int n) {
  constexpr int lanes = Simd<Num>::lanes;
  Vec<Num> a{}, b{}, c{}, d{};
  int i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a += load<Num>(x + i);
    b += load<Num>(x + i + lanes);
    c += load<Num>(x + i + 2 * lanes);
    d += load<Num>(x + i + 3 * lanes);
  }
  for (; i + lanes <= n; i += lanes) a += load<Num>(x + i);
  Num out = total<Num>((a + b) + (c + d));
  for (; i < n; ++i) out += x[i];
  return out;
}

template <class X, class Num>
inline Num dot(const X* x, const Num* y, int n) {
  constexpr int lanes = Simd<Num>::lanes;
  const auto product = [x, y](int i) { return load<Num>(x + i) * load<Num>(y + i); };
  Vec<Num> a{}, b{}, c{}, d{};
  int i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a += product(i);
    b += product(i + lanes);
    c += product(i + 2 * lanes);
    d += product(i + 3 * lanes);
  }
  for (; i + lanes <= n; i += lanes) a += product(i);
  Num out = total<Num>((a + b) + (c + d));
  for (; i < n; ++i) out += x[i] * y[i];
  return out;
}

// Dot products of N rows with the same y.
template <int N, class X, class Num>
inline void dots(const X* const* x, const Num* y, int n, Num* out) {
  constexpr int lanes = Simd<Num>::lanes;
  const X* row[N];  // local, so that no store can be taken to change them
  for (int k = 0; k < N; ++k) row[k] = x[k];
  Vec<Num> acc[N] = {};
  int i = 0;
  for (; i + lanes <= n; i += lanes) {
    const Vec<Num> right = load<Num>(y + i);
    for (int k = 0; k < N; ++k) acc[k] += load<Num>(row[k] + i) * right;
  }
  for (int k = 0; k < N; ++k) out[k] = total<Num>(acc[k]);
  for (; i < n; ++i)
    for (int k = 0; k < N; ++k) out[k] += row[k][i] * y[i];
}

template <class Real>
inline void dot_rows(const Real* const* x, const Real* y, int rows, int n, Real* out) {
  int k = 0;
  for (; k + 4 <= rows; k += 4) dots<4>(x + k, y, n, out + k);
  for (; k < rows; ++k) out[k] = dot(x[k], y, n);
}

// to (+)= sum of factor[k] * x[k] over N rows.
template <class Real, int N>
inline void combine(Real* to, const Real* factor, const Real* const* x, int n, bool accumulate) {
  constexpr int lanes = Simd<Real>::lanes;
  const Real* row[N];
  Vec<Real> scale[N];
  for (int k = 0; k < N; ++k) {
    row[k] = x[k];
    scale[k] = spread<Real>(factor[k]);
  }
  int i = 0;
  for (; i + lanes <= n; i += lanes) {
    Vec<Real> acc = accumulate ? load<Real>(to + i) : Vec<Real>{};
    for (int k = 0; k < N; ++k) acc += scale[k] * load<Real>(row[k] + i);
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

template <class Num, class X>
inline void scale(Num* to, const Num& factor, const X* x, int n) {  // to = factor * x
  constexpr int lanes = Simd<Num>::lanes;
  int i = 0;
  for (; i + lanes <= n; i += lanes) at(to + i) = factor * load<Num>(x + i);
  for (; i < n; ++i) to[i] = factor * x[i];
}

template <class Real>
inline void affine(Real* to, Real factor, const Real* x, Real shift, int n) {  // to = factor * x + shift
  constexpr int lanes = Simd<Real>::lanes;
  int i = 0;
  for (; i + lanes <= n; i += lanes) at(to + i) = factor * load<Real>(x + i) + shift;
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
    for (int i = 0; i < n; i += lanes) stream(to + i, factor * load<Real>(x + i) + shift);
    return;
  }
  affine(to, factor, x, shift, n);
}

template <class Num>
inline void clear(Num* to, int n) {
  for (int i = 0; i < n; ++i) to[i] = Num{};
}

// Numbers taken from a stretch of memory, or only counted.
template <class Real>
struct Room {
  Real* base;
  size_t used = 0;
  template <class T>
  void take(T*& p, int n) {
    p = base ? reinterpret_cast<T*>(base + used) : nullptr;
    used += (static_cast<size_t>(n) * sizeof(T) / sizeof(Real) + 15) / 16 * 16;
  }
};

// ---- small matrix products: C (+)= A B ---------------------------------------------------------------------

// The matrix products leave the memory idle, so each of their steps asks for one more line of the next maps.
struct Ahead {
  const char* at;
  ptrdiff_t step;  // 64, or 0 when nothing comes next
};

// A or B: its first number, and how far apart its rows lie.
template <class Num>
struct Factor {
  const Num* at;
  ptrdiff_t row;
};
template <class Num>
Factor(const Num*, ptrdiff_t) -> Factor<Num>;

// C.
template <class Num>
struct Result {
  Num* at;
  ptrdiff_t row;
  int rows, cols;    // cols in whole vectors
  bool add = false;  // to what it holds
};
template <class Num>
Result(Num*, ptrdiff_t, int, int, bool = false) -> Result<Num>;

template <int R, int N, class Num, class A, class B>
inline void block(Result<Num> c, Factor<A> a, Factor<B> b, int inner, Ahead& ahead) {
  const char* line = ahead.at;
  constexpr int lanes = Simd<Num>::lanes;
  Vec<Num> acc[R][N];
  for (int r = 0; r < R; ++r)
    for (int n = 0; n < N; ++n) acc[r][n] = c.add ? load<Num>(c.at + r * c.row + n * lanes) : Vec<Num>{};
  for (int k = 0; k < inner; ++k) {
    __builtin_prefetch(line, 0, 2);
    line += ahead.step;
    Vec<Num> right[N];
    for (int n = 0; n < N; ++n) right[n] = spread<Num>(load<Num>(b.at + k * b.row + n * lanes));
    for (int r = 0; r < R; ++r) {
      const A left = a.at[r * a.row + k];
      for (int n = 0; n < N; ++n) acc[r][n] += left * right[n];
    }
  }
  for (int r = 0; r < R; ++r)
    for (int n = 0; n < N; ++n) at(c.at + r * c.row + n * lanes) = acc[r][n];
  ahead.at = line;
}

template <int N, class Num, class A, class B>
inline void rows_of(Result<Num> c, Factor<A> a, Factor<B> b, int inner, Ahead& ahead) {
  int left = c.rows;
  for (; left >= 4; left -= 4) {
    block<4, N>(c, a, b, inner, ahead);
    c.at += 4 * c.row;
    a.at += 4 * a.row;
  }
  switch (left) {
    case 3:
      return block<3, N>(c, a, b, inner, ahead);
    case 2:
      return block<2, N>(c, a, b, inner, ahead);
    case 1:
      return block<1, N>(c, a, b, inner, ahead);
    default:
      return;
  }
}

template <class Num, class A, class B>
void product(Result<Num> c, Factor<A> a, Factor<B> b, int inner, Ahead& ahead) {
  constexpr int lanes = Simd<Num>::lanes;
  for (int left = c.cols / lanes; left > 0;) {
    const int take = left == 4 ? 2 : left >= 3 ? 3 : left;
    switch (take) {
      case 3:
        rows_of<3>(c, a, b, inner, ahead);
        break;
      case 2:
        rows_of<2>(c, a, b, inner, ahead);
        break;
      default:
        rows_of<1>(c, a, b, inner, ahead);
        break;
    }
    c.at += take * lanes;
    b.at += take * lanes;
    left -= take;
  }
}

}  // namespace
}  // namespace asr::kernel::ASR_KERNEL
