// See the header for the method. No standard-library templates here: an inline function shared with other
// files would let the linker pick a copy that needs this file's instruction set.
#include "ops/kernel/spectrum_kernel.h"

#include "ops/kernel/simd.h"

namespace asr::kernel::ASR_KERNEL {
namespace {

// Num is one map's number, or a Pack of several maps' (simd.h). Rows of attention and of gradients are read and written
// map by map; what lies between them is done for all maps of a Num at once.

template <class Num>
inline Num guarded(const Tables<RealOf<Num>>& t, const Num& s) {
  return t.eps_add ? s + t.eps : (s > t.eps ? s : Num{} + t.eps);
}

// `value` where the denominator guarded(s) moves with s, else 0.
template <class Num>
inline Num where_moving(const Tables<RealOf<Num>>& t, const Num& denominator, const Num& value) {
  return t.eps_add ? value : (denominator > t.eps ? value : Num{});
}

template <class Num>
struct Workspace {
  using Real = RealOf<Num>;
  Num *map, *wave, *power, *head;    // [HW], [H][2 pad], [half], [D0 + kKept]
  Real *token, *factor;              // [maps][T]: denominators and factors of the tokens used
  Real* denominator;                 // [maps]: of the map
  Num *mid, *folded, *pull, *zeros;  // [H][row], [H][row], [half], [2 pad]
  Num *grad_head, *coefficient;      // [D0], [K + M]
  Real *row, *shift;                 // [HW]: one map; [T]: gradient shifts of its tokens
  const Real** rows;                 // [T]: the tokens' maps (a pointer takes the room of two numbers at most)
  Ahead ahead;
};

template <class Num, class Real>
void take_kept(const Tables<Real>& t, int tokens, Room<Real>& room, Workspace<Num>& w) {
  constexpr int maps = Simd<Num>::maps;
  room.take(w.map, t.height * t.width);
  room.take(w.wave, t.height * 2 * t.pad);
  room.take(w.power, t.half);
  room.take(w.head, head_size(t) + kKept);
  room.take(w.token, maps * tokens);
  room.take(w.factor, maps * tokens);
  room.take(w.denominator, maps);
}

template <class Num, class Real>
void take_scratch(const Tables<Real>& t, int tokens, Room<Real>& room, Workspace<Num>& w) {
  room.take(w.mid, t.height * t.row);
  room.take(w.folded, t.height * t.row);
  room.take(w.pull, t.half);
  room.take(w.zeros, 2 * t.pad);
  room.take(w.grad_head, head_size(t));
  room.take(w.coefficient, t.radial + t.angular);
  room.take(w.row, t.height * t.width);
  room.take(w.shift, tokens);
  room.take(w.rows, tokens);
}

template <class Num, class Real>
Workspace<Num> lay_out(const Tables<Real>& t, const HeadGroup<Real>& group) {
  Workspace<Num> w;
  Room<Real> kept{group.kept}, scratch{group.scratch};
  take_kept(t, group.input->tokens, kept, w);
  take_scratch(t, group.input->tokens, scratch, w);
  clear(w.zeros, 2 * t.pad);
  w.ahead = {nullptr, 0};
  return w;
}

template <class Real>
Ahead start_ahead(const HeadInput<Real>& in) {
  return {reinterpret_cast<const char*>(in.next ? in.next : in.attention), in.next ? 64 : 0};
}

// The maps of the tokens used, into `rows`; returns how many.
template <class Real>
int find_rows(const HeadInput<Real>& in, const Real** rows) {
  int used = 0;
  for (int k = 0; k < in.tokens; ++k)
    if (in.weights[k] != 0) rows[used++] = in.attention + k * in.token_stride;
  return used;
}

// Clears n numbers of which `heads` maps are about to be written, where others are left. Whole vectors: GCC 12 may turn
// a loop over the lanes that are left into stores that must be aligned and are not.
template <class Num>
void clear_unfilled(Num* to, int n, int heads) {
  if (heads < Simd<Num>::maps) clear(to, n);
}

// Weighted mean over tokens, normalised to sum 1; a map that no head fills is 0.
template <class Num, class Real>
void aggregate(const Tables<Real>& t, const HeadGroup<Real>& group, Workspace<Num>& w) {
  const HeadInput<Real>* in = group.input;
  const int cells = t.height * t.width, heads = group.heads;
  clear_unfilled(w.map, cells, heads);
  for (int j = 0; j < heads; ++j) {
    const int tokens = in[j].tokens, used = find_rows(in[j], w.rows);
    Real *token = w.token + j * tokens, *factor = w.factor + j * tokens;
    for (int k = 0, i = 0; k < tokens; ++k) {
      if (in[j].weights[k] == 0) continue;
      token[i] = t.token_norm ? guarded<Real>(t, sum(w.rows[i], cells)) : Real(1);
      factor[i] = in[j].weights[k] / token[i];
      ++i;
    }
    combine_rows(w.row, factor, w.rows, used, cells);
    w.denominator[j] = guarded<Real>(t, sum(w.row, cells));
    const Real share = 1 / w.denominator[j];
    if constexpr (Simd<Num>::maps == 1)
      scale(w.map, share, w.row, cells);
    else
      for (int i = 0; i < cells; ++i) w.map[i][j] = share * w.row[i];
  }
}

template <class Num, class Real>
void transform(const Tables<Real>& t, Workspace<Num>& w) {
  const int H = t.height, W = t.width, row = t.row;
  Num* even = w.folded;
  Num* odd = w.folded + t.even_h * row;
  for (int n = 0; n < t.even_h; ++n) {
    const Num* a = w.map + n * W;
    const bool pair = n >= 1 && n <= t.odd_h;
    const Num* b = pair ? w.map + (H - n) * W : w.zeros;
    for (int y = 0; y < W; ++y) even[n * row + y] = a[y] + (pair ? b[y] : Num{});
    for (int y = W; y < row; ++y) even[n * row + y] = Num{};
    if (!pair) continue;
    for (int y = 0; y < W; ++y) odd[(n - 1) * row + y] = a[y] - b[y];
    for (int y = W; y < row; ++y) odd[(n - 1) * row + y] = Num{};
  }
  const int wide = 2 * t.pad;
  const Factor cosines{t.cos_h, t.even_h}, sines{t.sin_h, t.odd_h};
  product(Result{w.mid, row, t.even_h, row}, cosines, Factor{even, row}, t.even_h, w.ahead);
  product(Result{w.mid + t.even_h * row, row, t.odd_h, row}, sines, Factor{odd, row}, t.odd_h, w.ahead);
  product(Result{w.wave, wide, H, wide}, Factor{w.mid, row}, Factor{t.basis_w, wide}, W, w.ahead);
}

// The sine row that belongs to cosine row u; zeros where u has none (u = 0 and Nyquist).
template <class Num, class Real>
inline Num* sine_row(const Tables<Real>& t, const Workspace<Num>& w, int u) {
  return u >= 1 && u <= t.odd_h ? w.wave + (t.even_h + u - 1) * 2 * t.pad : w.zeros;
}

template <class Num, class Real>
void power(const Tables<Real>& t, Workspace<Num>& w) {
  for (int u = 0; u < t.even_h; ++u) {
    const Num* c = w.wave + u * 2 * t.pad;
    const Num* s = sine_row(t, w, u);
    Num* plus = w.power + u * t.pad;
    const bool has_sine = s != w.zeros;  // without one, -u is u and has no row of its own
    Num* minus = w.power + (t.even_h + u - 1) * t.pad;
    for (int v = 0; v < t.pad; v += Simd<Num>::lanes) {
      const Vec<Num> cc = load<Num>(c + v), cs = load<Num>(c + t.pad + v);
      const Vec<Num> sc = load<Num>(s + v), ss = load<Num>(s + t.pad + v);
      const Vec<Num> a = cc - ss, b = sc + cs, e = cc + ss, d = cs - sc;
      at(plus + v) = (a * a + b * b) * t.power_scale;
      if (has_sine) at(minus + v) = (e * e + d * d) * t.power_scale;
    }
  }
}

// First row-major index whose power reaches the maximum, up to one part in 1e9.
template <class Num, class Real>
void find_peak(const Tables<Real>& t, const Num* p, int64_t* out) {
  using S = Simd<Num>;
  using Int = typename S::Int;
  constexpr auto none = KernelInt<Real>::none;
  Vec<Num> best{};
  for (int i = 0; i < t.half; i += S::lanes) {
    const Vec<Num> x = load<Num>(p + i) * load<Num>(t.may_peak + i);
    best = x > best ? x : best;
  }
  if constexpr (S::maps == 1) {
    Real most = 0;
    for (int l = 0; l < S::lanes; ++l) most = best[l] > most ? best[l] : most;
    best = spread<Num>(most);
  }
  const Vec<Num> threshold = static_cast<Real>(1 - 1e-9) * best;
  Int index = Int{} + none;
  for (int i = 0; i < t.half; i += S::lanes) {
    const Vec<Num> x = load<Num>(p + i) * load<Num>(t.may_peak + i);
    Int first;
    if constexpr (S::maps == 1)
      first = *reinterpret_cast<const Int*>(t.first + i);
    else
      first = Int{} + t.first[i];
    const Int candidate = x >= threshold ? first : Int{} + none;
    index = candidate < index ? candidate : index;
  }
  if constexpr (S::maps == 1)
    for (int l = 1; l < S::lanes; ++l) index[0] = index[l] < index[0] ? index[l] : index[0];
  for (int j = 0; j < S::maps; ++j)  // only a NaN map has no candidate
    out[j] = index[j] < static_cast<int64_t>(t.height) * t.width ? index[j] : 0;
}

// Power of all K + M bins.
template <class Num, class Real>
void histograms(const Tables<Real>& t, const Num* p, Num* out) {
  const int bins = t.radial + t.angular;
  const Real* rows[4];
  int k = 0;
  for (; k + 4 <= bins; k += 4) {
    for (int i = 0; i < 4; ++i) rows[i] = t.bins + static_cast<ptrdiff_t>(k + i) * t.half;
    dots<4>(rows, p, t.half, out + k);
  }
  for (; k < bins; ++k) out[k] = dot(t.bins + static_cast<ptrdiff_t>(k) * t.half, p, t.half);
}

template <class Num, class Real = RealOf<Num>>
void forward(const Tables<Real>& t, const HeadGroup<Real>& group, const HeadOutput<Real>* out) {
  Workspace<Num> w = lay_out<Num>(t, group);
  aggregate(t, group, w);
  w.ahead = start_ahead(*group.input);
  transform(t, w);
  power(t, w);

  const int K = t.radial, M = t.angular, cells = t.height * t.width;
  Num* r = w.head;
  Num* d = r + K;
  Num* a = d + M;
  Num* kept = a + M + 3;
  histograms(t, w.power, r);
  kept[0] = guarded(t, sum(r, K));
  kept[1] = guarded(t, sum(d, M));
  kept[2] = t.peak_fraction ? guarded(t, dot(t.copies, w.power, t.half)) : Num{} + 1;
  scale(r, 1 / kept[0], r, K);
  scale(d, 1 / kept[1], d, M);
  scale(a, 1 / guarded<Num>(t, sum(d, M) / static_cast<Real>(M)), d, M);
  int64_t peaks[Simd<Num>::maps];
  find_peak(t, w.power, peaks);
  for (int j = 0; j < group.heads; ++j) {
    const int64_t peak = *out[j].peak = peaks[j];
    set_lane(a[M], j, t.radius[peak]);
    set_lane(a[M + 1], j, t.angle[peak]);
    set_lane(a[M + 2], j, lane(w.power[t.half_index[peak]], j) / lane(kept[2], j));
    for (int i = 0; i < head_size(t) + kKept; ++i) out[j].head[i] = lane(w.head[i], j);
    if (out[j].map)
      for (int i = 0; i < cells; ++i) out[j].map[i] = lane(w.map[i], j);
    if (out[j].power)
      for (int i = 0; i < cells; ++i) out[j].power[i] = lane(w.power[t.half_index[i]], j);
  }
}

template <class Num, class Real>
void read_heads(const Tables<Real>& t, const HeadGradient<Real>* of, int heads, Workspace<Num>& w) {
  for (int j = 0; j < Simd<Num>::maps; ++j)
    for (int i = 0; i < head_size(t) + kKept; ++i) set_lane(w.head[i], j, of[j < heads ? j : 0].head[i]);
}

// dL/dhead.
template <class Num, class Real>
void pull_head(const Tables<Real>& t, const HeadGradient<Real>* of, int heads, Workspace<Num>& w) {
  const int size = head_size(t);
  bool one_sample = true;
  for (int j = 1; j < heads; ++j) one_sample = one_sample && of[j].pull == of->pull;
  if (one_sample) {
    for (int i = 0; i < size; ++i) w.grad_head[i] = of->pull[i] + of->slope[i] * (w.head[i] - of->mean[i]);
    return;
  }
  clear_unfilled(w.grad_head, size, heads);
  for (int j = 0; j < heads; ++j)
    for (int i = 0; i < size; ++i)
      set_lane(w.grad_head[i], j, of[j].pull[i] + of[j].slope[i] * (of[j].head[i] - of[j].mean[i]));
}

// dL/dpower of every half-plane entry, from dL/dhead.
template <class Num, class Real>
void pull_power(const Tables<Real>& t, const HeadGradient<Real>* of, int heads, Workspace<Num>& w) {
  const int K = t.radial, M = t.angular;
  const Num *r = w.head, *d = r + K, *a = d + M, *kept = a + M + 3;
  const Num *gr = w.grad_head, *gd = gr + K, *ga = gd + M;
  const Num gp = ga[M + 2], peak_pull = gp / kept[2];
  scale(w.pull, t.peak_fraction ? where_moving<Num>(t, kept[2], -peak_pull * a[M + 2]) : Num{}, t.copies, t.half);

  Num* coefficient = w.coefficient;
  const Num along_r = where_moving(t, kept[0], dot(gr, r, K));
  for (int k = 0; k < K; ++k) coefficient[k] = (gr[k] - along_r) / kept[0];
  // a = d / mean(d): its pull on d joins d's own before the normalisation is undone.
  const auto bins = static_cast<Real>(M);
  const Num mean = guarded<Num>(t, sum(d, M) / bins);
  const Num along_a = where_moving<Num>(t, mean, dot(ga, a, M) / bins);
  for (int m = 0; m < M; ++m) coefficient[K + m] = gd[m] + (ga[m] - along_a) / mean;
  const Num along_d = where_moving(t, kept[1], dot(coefficient + K, d, M));
  for (int m = 0; m < M; ++m) coefficient[K + m] = (coefficient[K + m] - along_d) / kept[1];
  product(Result{w.pull, t.half, 1, t.half, /*add=*/true}, Factor{coefficient, K + M}, Factor{t.bins, t.half}, K + M,
          w.ahead);
  for (int j = 0; j < heads; ++j) {
    Num& top = w.pull[t.half_index[of[j].peak]];
    set_lane(top, j, lane(top, j) + lane(peak_pull, j));
  }
}

// In place: wave coefficients become their gradients.
template <class Num, class Real>
void pull_wave(const Tables<Real>& t, Workspace<Num>& w) {
  const Real scale = 2 * t.power_scale;
  for (int u = 0; u < t.even_h; ++u) {
    Num* c = w.wave + u * 2 * t.pad;
    Num* s = sine_row(t, w, u);
    const bool has_sine = s != w.zeros;
    const Num* g1 = w.pull + u * t.pad;
    const Num* g2 = has_sine ? w.pull + (t.even_h + u - 1) * t.pad : w.zeros;
    for (int v = 0; v < t.pad; v += Simd<Num>::lanes) {
      const Vec<Num> cc = load<Num>(c + v), cs = load<Num>(c + t.pad + v);
      const Vec<Num> sc = load<Num>(s + v), ss = load<Num>(s + t.pad + v);
      const Vec<Num> plus = scale * load<Num>(g1 + v), minus = scale * load<Num>(g2 + v);
      const Vec<Num> a = (cc - ss) * plus, b = (sc + cs) * plus, e = (cc + ss) * minus, d = (cs - sc) * minus;
      at(c + v) = a + e;
      at(c + t.pad + v) = b + d;
      if (has_sine) {
        at(s + v) = b - d;
        at(s + t.pad + v) = e - a;
      }
    }
  }
}

// Transposed transform: gradient of the map, into w.map.
template <class Num, class Real>
void pull_map(const Tables<Real>& t, Workspace<Num>& w) {
  const int H = t.height, W = t.width, row = t.row;
  const int wide = 2 * t.pad;
  const Factor cosines_w{t.basis_w_back, row}, sines_w{t.basis_w_back + static_cast<ptrdiff_t>(t.pad + 1) * row, row};
  product(Result{w.mid, row, H, row}, Factor{w.wave, wide}, cosines_w, t.even_w, w.ahead);
  product(Result{w.mid, row, H, row, /*add=*/true}, Factor{w.wave + t.pad + 1, wide}, sines_w, t.odd_w, w.ahead);
  Num* even = w.folded;
  Num* odd = w.folded + t.even_h * row;
  const Factor cosines_h{t.cos_h, t.even_h}, sines_h{t.sin_h, t.odd_h};
  product(Result{even, row, t.even_h, row}, cosines_h, Factor{w.mid, row}, t.even_h, w.ahead);
  product(Result{odd, row, t.odd_h, row}, sines_h, Factor{w.mid + t.even_h * row, row}, t.odd_h, w.ahead);
  for (int n = 0; n < t.even_h; ++n) {
    const bool pair = n >= 1 && n <= t.odd_h;
    const Num* e = even + n * row;
    const Num* o = pair ? odd + (n - 1) * row : w.zeros;
    for (int y = 0; y < W; ++y) w.map[n * W + y] = e[y] + (pair ? o[y] : Num{});
    if (!pair) continue;
    for (int y = 0; y < W; ++y) w.map[(H - n) * W + y] = e[y] - o[y];
  }
}

// Gradient of the tokens of a group's head j, from that of its map in w.row.
template <class Num, class Real>
void pull_tokens(const Tables<Real>& t, const HeadInput<Real>& in, int j, Workspace<Num>& w, Real* grad) {
  const int cells = t.height * t.width;
  const Real *token = w.token + j * in.tokens, *factor = w.factor + j * in.tokens;
  if (t.token_norm) dot_rows(w.rows, w.row, find_rows(in, w.rows), cells, w.shift);
  for (int k = 0, i = 0; k < in.tokens; ++k) {
    Real* to = grad + static_cast<ptrdiff_t>(k) * cells;
    if (in.weights[k] == 0) {
      clear(to, cells);
      continue;
    }
    const Real shift = t.token_norm ? where_moving(t, token[i], -factor[i] * w.shift[i] / token[i]) : Real(0);
    if (in.stream)
      affine_streamed(to, factor[i], w.row, shift, cells);
    else
      affine(to, factor[i], w.row, shift, cells);
    ++i;
  }
  if (in.stream) finish_streaming();
}

template <class Num, class Real = RealOf<Num>>
void backward(const Tables<Real>& t, const HeadGroup<Real>& group, const HeadGradient<Real>* of, bool filled) {
  const int heads = group.heads;
  Workspace<Num> w = lay_out<Num>(t, group);
  if (!filled) aggregate(t, group, w);
  w.ahead = start_ahead(*group.input);
  if (!filled) {
    transform(t, w);
    power(t, w);
    read_heads(t, of, heads, w);
  }
  pull_head(t, of, heads, w);
  pull_power(t, of, heads, w);
  // <gradient, map> is twice <pull, power> because power is quadratic in the map: no copy of the map is needed.
  const Num along = 2 * dot(w.pull, w.power, t.half);
  pull_wave(t, w);
  pull_map(t, w);
  const int cells = t.height * t.width;
  for (int j = 0; j < heads; ++j) {
    const Real denominator = w.denominator[j], share = 1 / denominator;
    const Real shift = -share * where_moving(t, denominator, lane(along, j));
    for (int i = 0; i < cells; ++i) w.row[i] = share * lane(w.map[i], j) + shift;
    pull_tokens(t, group.input[j], j, w, of[j].grad);
  }
}

template <class Num, class Real = RealOf<Num>>
Sizes sizes(const Tables<Real>& t, int tokens) {
  Workspace<Num> w;
  Room<Real> kept{nullptr}, scratch{nullptr};
  take_kept(t, tokens, kept, w);
  take_scratch(t, tokens, scratch, w);
  return {kept.used, scratch.used};
}

#define ASR_TEXT_OF(x) #x
#define ASR_TEXT(x) ASR_TEXT_OF(x)

template <class Num>
Functions<RealOf<Num>> functions_for() {
  return {ASR_TEXT(ASR_KERNEL), Simd<Num>::lanes, Simd<Num>::maps, sizes<Num>, forward<Num>, backward<Num>};
}

}  // namespace

template <class Real>
Functions<Real> functions(bool packed) {
  return packed ? functions_for<Pack<Real>>() : functions_for<Real>();
}
template Functions<float> functions(bool packed);
template Functions<double> functions(bool packed);

}  // namespace asr::kernel::ASR_KERNEL
