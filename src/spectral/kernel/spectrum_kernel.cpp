// See the header for the method. No standard-library templates here: an inline function shared with other
// files would let the linker pick a copy that needs this file's instruction set.
#include "spectral/kernel/spectrum_kernel.h"

#ifdef __AVX__
#include <immintrin.h>
#endif

namespace asr::kernel::ASR_KERNEL {
namespace {

constexpr int kVector = 32;  // bytes; 64 were tried and gained nothing, for memory and not arithmetic is the limit

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
inline const Vec<Real>& load(const Real* p) { return *reinterpret_cast<const Vec<Real>*>(p); }
template <class Real>
inline Vec<Real>& at(Real* p) { return *reinterpret_cast<Vec<Real>*>(p); }

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
inline void block(Real* c, int ldc, const Real* a, int lda, const Real* b, int ldb, int inner, bool accumulate, Ahead& ahead) {
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
inline void rows_of(Real* c, int ldc, const Real* a, int lda, const Real* b, int ldb, int rows, int inner, bool accumulate, Ahead& ahead) {
  int r = 0;
  for (; r + 4 <= rows; r += 4) block<Real, 4, N>(c + r * ldc, ldc, a + r * lda, lda, b, ldb, inner, accumulate, ahead);
  switch (rows - r) {
    case 3: return block<Real, 3, N>(c + r * ldc, ldc, a + r * lda, lda, b, ldb, inner, accumulate, ahead);
    case 2: return block<Real, 2, N>(c + r * ldc, ldc, a + r * lda, lda, b, ldb, inner, accumulate, ahead);
    case 1: return block<Real, 1, N>(c + r * ldc, ldc, a + r * lda, lda, b, ldb, inner, accumulate, ahead);
    default: return;
  }
}

template <class Real>
void product(Real* c, int ldc, const Real* a, int lda, const Real* b, int ldb, int rows, int cols, int inner, bool accumulate, Ahead& ahead) {
  constexpr int lanes = Simd<Real>::lanes;
  for (int col = 0; col < cols;) {
    const int left = (cols - col) / lanes;
    const int take = left == 4 ? 2 : left >= 3 ? 3 : left;
    switch (take) {
      case 3: rows_of<Real, 3>(c + col, ldc, a, lda, b + col, ldb, rows, inner, accumulate, ahead); break;
      case 2: rows_of<Real, 2>(c + col, ldc, a, lda, b + col, ldb, rows, inner, accumulate, ahead); break;
      default: rows_of<Real, 1>(c + col, ldc, a, lda, b + col, ldb, rows, inner, accumulate, ahead); break;
    }
    col += take * lanes;
  }
}

// ---- one map ------------------------------------------------------------------------------------------------

template <class Real>
inline Real guarded(const Tables<Real>& t, Real s) { return t.eps_add ? s + t.eps : (s > t.eps ? s : t.eps); }

// Does the denominator guarded(s) move with s?
template <class Real>
inline bool moves(const Tables<Real>& t, Real denominator) { return t.eps_add || denominator > t.eps; }

template <class Real>
struct Workspace {
  Real *map, *mid, *folded, *wave;    // [HW], [H][row], [H][row], [H][2 pad]
  Real *power, *pull, *zeros;         // [half], [half], [2 pad]
  Real *token, *factor, *shift;       // [T]: denominators, factors and gradient shifts of the tokens used
  const Real** rows;                  // [T]: their maps (a pointer takes the room of two numbers at most)
  int used;                           // how many those are
  Ahead ahead;
};

template <class Real>
Workspace<Real> lay_out(const Tables<Real>& t, int tokens, Real* base, size_t* size) {
  size_t used = 0;
  const auto take = [&](int n) {
    Real* p = base ? base + used : nullptr;
    used += static_cast<size_t>(n + 15) / 16 * 16;
    return p;
  };
  Workspace<Real> w;
  w.map = take(t.height * t.width), w.mid = take(t.height * t.row), w.folded = take(t.height * t.row);
  w.wave = take(t.height * 2 * t.pad), w.power = take(t.half), w.pull = take(t.half), w.zeros = take(2 * t.pad);
  w.token = take(tokens), w.factor = take(tokens), w.shift = take(tokens);
  w.rows = reinterpret_cast<const Real**>(take(2 * tokens));
  w.used = 0, w.ahead = {nullptr, 0};
  *size = used;
  return w;
}

template <class Real>
Ahead start_ahead(const HeadInput<Real>& in) {
  return {reinterpret_cast<const char*>(in.next ? in.next : in.attention), in.next ? 64 : 0};
}

// Weighted mean over tokens, normalised to sum 1; returns the denominator.
template <class Real>
Real aggregate(const Tables<Real>& t, const HeadInput<Real>& in, Workspace<Real>& w) {
  const int cells = t.height * t.width;
  for (int k = 0; k < in.tokens; ++k) {
    if (in.weights[k] == 0) continue;
    const Real* x = in.attention + k * in.token_stride;
    w.rows[w.used] = x;
    w.token[w.used] = t.token_norm ? guarded(t, sum(x, cells)) : Real(1);
    w.factor[w.used] = in.weights[k] / w.token[w.used];
    ++w.used;
  }
  combine_rows(w.map, w.factor, w.rows, w.used, cells);
  const Real denominator = guarded(t, sum(w.map, cells));
  affine(w.map, 1 / denominator, w.map, Real(0), cells);
  return denominator;
}

template <class Real>
void transform(const Tables<Real>& t, Workspace<Real>& w) {
  const int H = t.height, W = t.width, row = t.row;
  Real* even = w.folded;
  Real* odd = w.folded + t.even_h * row;
  for (int n = 0; n < t.even_h; ++n) {
    const Real* a = w.map + n * W;
    const bool pair = n >= 1 && n <= t.odd_h;
    const Real* b = pair ? w.map + (H - n) * W : w.zeros;
    for (int y = 0; y < W; ++y) even[n * row + y] = a[y] + (pair ? b[y] : Real(0));
    for (int y = W; y < row; ++y) even[n * row + y] = 0;
    if (!pair) continue;
    for (int y = 0; y < W; ++y) odd[(n - 1) * row + y] = a[y] - b[y];
    for (int y = W; y < row; ++y) odd[(n - 1) * row + y] = 0;
  }
  product(w.mid, row, t.cos_h, t.even_h, even, row, t.even_h, row, t.even_h, false, w.ahead);
  product(w.mid + t.even_h * row, row, t.sin_h, t.odd_h, odd, row, t.odd_h, row, t.odd_h, false, w.ahead);
  product(w.wave, 2 * t.pad, w.mid, row, t.basis_w, 2 * t.pad, H, 2 * t.pad, W, false, w.ahead);
}

// The sine row that belongs to cosine row u; zeros where u has none (u = 0 and Nyquist).
template <class Real>
inline Real* sine_row(const Tables<Real>& t, const Workspace<Real>& w, int u) {
  return u >= 1 && u <= t.odd_h ? w.wave + (t.even_h + u - 1) * 2 * t.pad : w.zeros;
}

template <class Real>
void power(const Tables<Real>& t, Workspace<Real>& w) {
  for (int u = 0; u < t.even_h; ++u) {
    const Real* c = w.wave + u * 2 * t.pad;
    const Real* s = sine_row(t, w, u);
    Real* plus = w.power + u * t.pad;
    Real* minus = w.power + (t.even_h + u) * t.pad;
    for (int v = 0; v < t.pad; v += Simd<Real>::lanes) {
      const Vec<Real> cc = load(c + v), cs = load(c + t.pad + v), sc = load(s + v), ss = load(s + t.pad + v);
      const Vec<Real> a = cc - ss, b = sc + cs, e = cc + ss, d = cs - sc;
      at(plus + v) = (a * a + b * b) * t.power_scale;
      at(minus + v) = (e * e + d * d) * t.power_scale;
    }
  }
}

// First row-major index whose power reaches the maximum, up to one part in 1e9.
template <class Real>
int64_t find_peak(const Tables<Real>& t, const Real* p) {
  using S = Simd<Real>;
  Vec<Real> best{};
  for (int i = 0; i < t.half; i += S::lanes) {
    const Vec<Real> x = load(p + i) * load(t.may_peak + i);
    best = x > best ? x : best;
  }
  Real most = 0;
  for (int i = 0; i < S::lanes; ++i) most = best[i] > most ? best[i] : most;
  const Real threshold = static_cast<Real>(1 - 1e-9) * most;
  typename S::Int index = typename S::Int{} + S::none;
  for (int i = 0; i < t.half; i += S::lanes) {
    const Vec<Real> x = load(p + i) * load(t.may_peak + i);
    const auto& first = *reinterpret_cast<const typename S::Int*>(t.first + i);
    const typename S::Int candidate = x >= threshold ? first : typename S::Int{} + S::none;
    index = candidate < index ? candidate : index;
  }
  int64_t out = index[0];
  for (int i = 1; i < S::lanes; ++i) out = index[i] < out ? index[i] : out;
  return out < static_cast<int64_t>(t.height) * t.width ? out : 0;  // only a NaN map has no candidate
}

// Power of all K + M bins.
template <class Real>
void histograms(const Tables<Real>& t, const Real* p, Real* out) {
  const int bins = t.radial + t.angular;
  const Real* rows[4];
  int k = 0;
  for (; k + 4 <= bins; k += 4) {
    for (int i = 0; i < 4; ++i) rows[i] = t.bins + static_cast<ptrdiff_t>(k + i) * t.half;
    dots<Real, 4>(rows, p, t.half, out + k);
  }
  for (; k < bins; ++k) out[k] = dot(t.bins + static_cast<ptrdiff_t>(k) * t.half, p, t.half);
}

template <class Real>
void forward(const Tables<Real>& t, const HeadInput<Real>& in, const HeadOutput<Real>& out, Real* scratch) {
  size_t size;
  Workspace<Real> w = lay_out(t, in.tokens, scratch, &size);
  fill(w.zeros, Real(0), 2 * t.pad);
  aggregate(t, in, w);
  w.ahead = start_ahead(in);
  transform(t, w);
  power(t, w);

  const int K = t.radial, M = t.angular;
  Real* r = out.head;
  Real* d = r + K;
  Real* a = d + M;
  Real* kept = a + M + 3;
  histograms(t, w.power, r);
  kept[0] = guarded(t, sum(r, K)), kept[1] = guarded(t, sum(d, M));
  kept[2] = t.peak_fraction ? guarded(t, dot(t.copies, w.power, t.half)) : Real(1);
  affine(r, 1 / kept[0], r, Real(0), K);
  affine(d, 1 / kept[1], d, Real(0), M);
  affine(a, 1 / guarded(t, sum(d, M) / M), d, Real(0), M);
  const int64_t peak = find_peak(t, w.power);
  a[M] = t.radius[peak], a[M + 1] = t.angle[peak], a[M + 2] = w.power[t.half_index[peak]] / kept[2];
  *out.peak = peak;
  const int cells = t.height * t.width;
  if (out.map) affine(out.map, Real(1), w.map, Real(0), cells);
  if (out.power)
    for (int i = 0; i < cells; ++i) out.power[i] = w.power[t.half_index[i]];
}

// dL/dpower of every half-plane entry, from dL/dhead.
template <class Real>
void pull_power(const Tables<Real>& t, const Real* head, int64_t peak, const Real* g, Real* pull, Ahead& ahead) {
  const int K = t.radial, M = t.angular;
  const Real *r = head, *d = r + K, *a = d + M, *kept = a + M + 3;
  const Real *gr = g, *gd = gr + K, *ga = gd + M;
  const Real gp = ga[M + 2];
  const Real copies_pull = t.peak_fraction && moves(t, kept[2]) ? -gp * a[M + 2] / kept[2] : Real(0);
  affine(pull, copies_pull, t.copies, Real(0), t.half);

  Real coefficient[512];  // K, M <= 256
  const Real along_r = moves(t, kept[0]) ? dot(gr, r, K) : Real(0);
  for (int k = 0; k < K; ++k) coefficient[k] = (gr[k] - along_r) / kept[0];
  // a = d / mean(d): its pull on d joins d's own before the normalisation is undone.
  const Real mean = guarded(t, sum(d, M) / M);
  const Real along_a = moves(t, mean) ? dot(ga, a, M) / M : Real(0);
  Real along_d = 0;
  for (int m = 0; m < M; ++m) {
    coefficient[K + m] = gd[m] + (ga[m] - along_a) / mean;
    along_d += coefficient[K + m] * d[m];
  }
  if (!moves(t, kept[1])) along_d = 0;
  for (int m = 0; m < M; ++m) coefficient[K + m] = (coefficient[K + m] - along_d) / kept[1];
  product(pull, t.half, coefficient, K + M, t.bins, t.half, 1, t.half, K + M, true, ahead);
  pull[t.half_index[peak]] += gp / kept[2];
}

// In place: wave coefficients become their gradients.
template <class Real>
void pull_wave(const Tables<Real>& t, Workspace<Real>& w) {
  const Real scale = 2 * t.power_scale;
  for (int u = 0; u < t.even_h; ++u) {
    Real* c = w.wave + u * 2 * t.pad;
    Real* s = sine_row(t, w, u);
    const bool has_sine = s != w.zeros;
    const Real* g1 = w.pull + u * t.pad;
    const Real* g2 = w.pull + (t.even_h + u) * t.pad;
    for (int v = 0; v < t.pad; v += Simd<Real>::lanes) {
      const Vec<Real> cc = load(c + v), cs = load(c + t.pad + v), sc = load(s + v), ss = load(s + t.pad + v);
      const Vec<Real> plus = scale * load(g1 + v), minus = scale * load(g2 + v);
      const Vec<Real> a = (cc - ss) * plus, b = (sc + cs) * plus, e = (cc + ss) * minus, d = (cs - sc) * minus;
      at(c + v) = a + e, at(c + t.pad + v) = b + d;
      if (has_sine) at(s + v) = b - d, at(s + t.pad + v) = e - a;
    }
  }
}

// Transposed transform: gradient of the map, into w.map.
template <class Real>
void pull_map(const Tables<Real>& t, Workspace<Real>& w) {
  const int H = t.height, W = t.width, row = t.row;
  const int wide = 2 * t.pad;
  const Real* sines = t.basis_w_back + static_cast<ptrdiff_t>(t.pad + 1) * row;
  product(w.mid, row, w.wave, wide, t.basis_w_back, row, H, row, t.even_w, false, w.ahead);
  product(w.mid, row, w.wave + t.pad + 1, wide, sines, row, H, row, t.odd_w, true, w.ahead);
  Real* even = w.folded;
  Real* odd = w.folded + t.even_h * row;
  product(even, row, t.cos_h, t.even_h, w.mid, row, t.even_h, row, t.even_h, false, w.ahead);
  product(odd, row, t.sin_h, t.odd_h, w.mid + t.even_h * row, row, t.odd_h, row, t.odd_h, false, w.ahead);
  for (int n = 0; n < t.even_h; ++n) {
    const bool pair = n >= 1 && n <= t.odd_h;
    const Real* e = even + n * row;
    const Real* o = pair ? odd + (n - 1) * row : w.zeros;
    for (int y = 0; y < W; ++y) w.map[n * W + y] = e[y] + (pair ? o[y] : Real(0));
    if (!pair) continue;
    for (int y = 0; y < W; ++y) w.map[(H - n) * W + y] = e[y] - o[y];
  }
}

template <class Real>
void backward(const Tables<Real>& t, const HeadInput<Real>& in, const Real* head, int64_t peak, const Real* grad_head,
              Real* grad, Real* scratch) {
  size_t size;
  Workspace<Real> w = lay_out(t, in.tokens, scratch, &size);
  fill(w.zeros, Real(0), 2 * t.pad);
  const int cells = t.height * t.width;
  const Real denominator = aggregate(t, in, w);
  w.ahead = start_ahead(in);
  transform(t, w);
  pull_power(t, head, peak, grad_head, w.pull, w.ahead);
  // <gradient, map> is twice <pull, power> because power is quadratic in the map: no copy of the map is needed.
  power(t, w);
  const Real along = moves(t, denominator) ? 2 * dot(w.pull, w.power, t.half) : Real(0);
  pull_wave(t, w);
  pull_map(t, w);
  affine(w.map, 1 / denominator, w.map, -along / denominator, cells);
  if (t.token_norm) dot_rows(w.rows, w.map, w.used, cells, w.shift);
  for (int k = 0, i = 0; k < in.tokens; ++k) {
    Real* to = grad + static_cast<ptrdiff_t>(k) * cells;
    if (in.weights[k] == 0) {
      fill(to, Real(0), cells);
      continue;
    }
    const Real shift = t.token_norm && moves(t, w.token[i]) ? -w.factor[i] * w.shift[i] / w.token[i] : Real(0);
    if (in.stream) affine_streamed(to, w.factor[i], w.map, shift, cells);
    else affine(to, w.factor[i], w.map, shift, cells);
    ++i;
  }
}

template <class Real>
size_t scratch(const Tables<Real>& t, int tokens) {
  size_t size;
  lay_out<Real>(t, tokens, nullptr, &size);
  return size;
}

#define ASR_TEXT_OF(x) #x
#define ASR_TEXT(x) ASR_TEXT_OF(x)

}  // namespace

Functions<float> functions_f32() { return {ASR_TEXT(ASR_KERNEL), Simd<float>::lanes, scratch<float>, forward<float>, backward<float>}; }
Functions<double> functions_f64() { return {ASR_TEXT(ASR_KERNEL), Simd<double>::lanes, scratch<double>, forward<double>, backward<double>}; }

}  // namespace asr::kernel::ASR_KERNEL
