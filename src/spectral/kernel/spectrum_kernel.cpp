// See the header for the method. No standard-library templates here: an inline function shared with other
// files would let the linker pick a copy that needs this file's instruction set.
#include "spectral/kernel/spectrum_kernel.h"

#include "spectral/kernel/simd.h"

namespace asr::kernel::ASR_KERNEL {
namespace {

// ---- one map ------------------------------------------------------------------------------------------------

template <class Real>
inline Real guarded(const Tables<Real>& t, Real s) {
  return t.eps_add ? s + t.eps : (s > t.eps ? s : t.eps);
}

// Does the denominator guarded(s) move with s?
template <class Real>
inline bool moves(const Tables<Real>& t, Real denominator) {
  return t.eps_add || denominator > t.eps;
}

template <class Real>
struct Workspace {
  Real *map, *mid, *folded, *wave;  // [HW], [H][row], [H][row], [H][2 pad]
  Real *power, *pull, *zeros;       // [half], [half], [2 pad]
  Real *token, *factor, *shift;     // [T]: denominators, factors and gradient shifts of the tokens used
  Real* denominator;                // [1]: of the map
  const Real** rows;                // [T]: their maps (a pointer takes the room of two numbers at most)
  int used;                         // how many those are
  Ahead ahead;
};

// Numbers taken from a stretch of memory, or only counted.
template <class Real>
struct Room {
  Real* base;
  size_t used = 0;
  Real* take(int n) {
    Real* p = base ? base + used : nullptr;
    used += static_cast<size_t>(n + 15) / 16 * 16;
    return p;
  }
};

template <class Real>
void take_kept(const Tables<Real>& t, int tokens, Room<Real>& room, Workspace<Real>& w) {
  w.map = room.take(t.height * t.width), w.wave = room.take(t.height * 2 * t.pad), w.power = room.take(t.half);
  w.token = room.take(tokens), w.factor = room.take(tokens), w.denominator = room.take(1);
  w.rows = reinterpret_cast<const Real**>(room.take(2 * tokens));
}

template <class Real>
void take_scratch(const Tables<Real>& t, int tokens, Room<Real>& room, Workspace<Real>& w) {
  w.mid = room.take(t.height * t.row), w.folded = room.take(t.height * t.row), w.pull = room.take(t.half);
  w.zeros = room.take(2 * t.pad), w.shift = room.take(tokens);
}

template <class Real>
Workspace<Real> lay_out(const Tables<Real>& t, int tokens, Real* kept, Real* scratch) {
  Workspace<Real> w;
  Room<Real> first{kept}, second{scratch};
  take_kept(t, tokens, first, w), take_scratch(t, tokens, second, w);
  w.used = 0, w.ahead = {nullptr, 0};
  return w;
}

template <class Real>
Ahead start_ahead(const HeadInput<Real>& in) {
  return {reinterpret_cast<const char*>(in.next ? in.next : in.attention), in.next ? 64 : 0};
}

// Weighted mean over tokens, normalised to sum 1.
template <class Real>
void aggregate(const Tables<Real>& t, const HeadInput<Real>& in, Workspace<Real>& w) {
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
  *w.denominator = guarded(t, sum(w.map, cells));
  affine(w.map, 1 / *w.denominator, w.map, Real(0), cells);
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
    const bool has_sine = s != w.zeros;  // without one, -u is u and has no row of its own
    Real* minus = w.power + (t.even_h + u - 1) * t.pad;
    for (int v = 0; v < t.pad; v += Simd<Real>::lanes) {
      const Vec<Real> cc = load(c + v), cs = load(c + t.pad + v), sc = load(s + v), ss = load(s + t.pad + v);
      const Vec<Real> a = cc - ss, b = sc + cs, e = cc + ss, d = cs - sc;
      at(plus + v) = (a * a + b * b) * t.power_scale;
      if (has_sine) at(minus + v) = (e * e + d * d) * t.power_scale;
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
void forward(const Tables<Real>& t, const HeadInput<Real>& in, const HeadOutput<Real>& out, Real* kept_room,
             Real* scratch_room) {
  Workspace<Real> w = lay_out(t, in.tokens, kept_room, scratch_room);
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
    const Real* g2 = has_sine ? w.pull + (t.even_h + u - 1) * t.pad : w.zeros;
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
              Real* grad, Real* kept_room, Real* scratch_room, bool filled) {
  Workspace<Real> w = lay_out(t, in.tokens, kept_room, scratch_room);
  const int cells = t.height * t.width;
  fill(w.zeros, Real(0), 2 * t.pad);
  if (filled) {
    w.ahead = start_ahead(in);
    for (int k = 0; k < in.tokens; ++k) w.used += in.weights[k] != 0;
  } else {
    aggregate(t, in, w);
    w.ahead = start_ahead(in);
    transform(t, w);
    power(t, w);
  }
  const Real denominator = *w.denominator;
  pull_power(t, head, peak, grad_head, w.pull, w.ahead);
  // <gradient, map> is twice <pull, power> because power is quadratic in the map: no copy of the map is needed.
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
    if (in.stream)
      affine_streamed(to, w.factor[i], w.map, shift, cells);
    else
      affine(to, w.factor[i], w.map, shift, cells);
    ++i;
  }
  if (in.stream) finish_streaming();
}

template <class Real>
Sizes sizes(const Tables<Real>& t, int tokens) {
  Workspace<Real> w;
  Room<Real> kept{nullptr}, scratch{nullptr};
  take_kept(t, tokens, kept, w), take_scratch(t, tokens, scratch, w);
  return {kept.used, scratch.used};
}

#define ASR_TEXT_OF(x) #x
#define ASR_TEXT(x) ASR_TEXT_OF(x)

}  // namespace

Functions<float> functions_f32() {
  return {ASR_TEXT(ASR_KERNEL), Simd<float>::lanes, sizes<float>, forward<float>, backward<float>};
}
Functions<double> functions_f64() {
  return {ASR_TEXT(ASR_KERNEL), Simd<double>::lanes, sizes<double>, forward<double>, backward<double>};
}

}  // namespace asr::kernel::ASR_KERNEL
