// Attention of one key-value head. A few query rows at a time: their scores, weights and mixed values stay in the first
// cache, so the score matrix never exists. The backward pass forms the weights again from q, k and two kept numbers
// a row, which was as fast as keeping them and needs no memory. A tap copies chosen weights out while they are at hand
// and adds the gradient of those copies to the pulls at their scores, so it costs next to nothing.
#include "ops/kernel/layer_kernels.h"
#include "ops/kernel/vec.h"

namespace asr::kernel::ASR_KERNEL {
namespace {

constexpr float kHidden = -1e30f;   // finite, so that no arithmetic on it gives NaN
constexpr float kNothing = -1e20f;  // a row whose largest score lies below saw no key
constexpr int kBlock = 32;          // query rows whose weights are kept together in the backward pass

struct Workspace {
  int pad_keys, pad_width;
  float* bias;                                     // [keys]: 0 or hidden
  float *keys_across, *values_across;              // [width][pad_keys]
  float *keys, *values, *grad_keys, *grad_values;  // [keys][pad_width]
  float *weights, *pulls;                          // [kBlock][pad_keys]
  float *q, *grad, *row;                           // [kBlock][pad_width]
  bool whole_width;                                // a row is whole vectors: no copies are needed
};

Workspace lay_out(const AttentionInput& in, float* base, size_t* size) {
  size_t used = 0;
  const auto take = [&](int n) {
    float* p = base ? base + used : nullptr;
    used += static_cast<size_t>(n + 15) / 16 * 16;
    return p;
  };
  Workspace w;
  w.pad_keys = padded(in.keys);
  w.pad_width = padded(in.width);
  w.whole_width = w.pad_width == in.width;
  w.bias = take(w.pad_keys);
  w.keys_across = take(in.width * w.pad_keys);
  w.values_across = take(in.width * w.pad_keys);
  w.keys = take(in.keys * w.pad_width);
  w.values = take(in.keys * w.pad_width);
  w.grad_keys = take(in.keys * w.pad_width);
  w.grad_values = take(in.keys * w.pad_width);
  w.weights = take(kBlock * w.pad_keys);
  w.pulls = take(kBlock * w.pad_keys);
  w.q = take(kBlock * w.pad_width);
  w.grad = take(kBlock * w.pad_width);
  w.row = take(kBlock * w.pad_width);
  *size = used;
  return w;
}

size_t scratch(const AttentionInput& in) {
  size_t size;
  lay_out(in, nullptr, &size);
  return size;
}

// Rows as the right side of a product: themselves, or a copy in whole vectors filled with zeros.
Right right_side(const float* from, ptrdiff_t row, int rows, int width, const Workspace& w, float* copy) {
  if (w.whole_width) return {from, row};
  for (int r = 0; r < rows; ++r)
    for (int i = 0; i < w.pad_width; ++i) copy[r * w.pad_width + i] = i < width ? from[r * row + i] : 0;
  return {copy, w.pad_width};
}
void unpack(const float* from, int pad, int rows, int width, ptrdiff_t row, float* to) {
  for (int r = 0; r < rows; ++r)
    for (int i = 0; i < width; ++i) to[r * row + i] = from[r * pad + i];
}
float dot(const float* x, const float* y, int n) {
  Vec sum{};
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) sum += load(x + i) * load(y + i);
  float out = total(sum);
  for (; i < n; ++i) out += x[i] * y[i];
  return out;
}
void clear(float* to, int n) {
  for (int i = 0; i < n; ++i) to[i] = 0;
}
// Short rows, in whole vectors from the start: the compiler's own loop would first look for overlaps and alignment.
template <bool Add>
void copy(float* to, const float* from, int n) {
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) at(to + i) = Add ? load(to + i) + load(from + i) : load(from + i);
  for (; i < n; ++i) to[i] = Add ? to[i] + from[i] : from[i];
}

void fill_bias(const AttentionInput& in, Workspace& w) {
  for (int j = 0; j < w.pad_keys; ++j) w.bias[j] = j < in.keys && in.visible[j] ? 0 : kHidden;
}

// How many keys query t may see, by position.
inline int reach(const AttentionInput& in, int t) {
  if (!in.causal) return in.keys;
  const int n = in.keys - in.queries + t + 1;
  return n < 0 ? 0 : n > in.keys ? in.keys : n;
}

// One row of scores to scale * score + bias, hidden beyond `reach`; returns the largest.
float finish_scores(float* row, const Workspace& w, float scale, int reach, int vectors) {
  for (int j = reach; j < vectors * kLanes; ++j) row[j] = kHidden;
  Vec top = all(kHidden);
  for (int i = 0; i < vectors * kLanes; i += kLanes) {
    const Vec x = load(row + i) * scale + load(w.bias + i);
    at(row + i) = x;
    top = x > top ? x : top;
  }
  return largest(top);
}

// Softmax of one row in place; keeps what turns a score into a weight again: exp(score - kept[0]) * kept[1].
void soften(float* row, float top, int vectors, float* kept) {
  Vec sum{};
  for (int i = 0; i < vectors * kLanes; i += kLanes) {
    const Vec e = exponential(load(row + i) - top);
    at(row + i) = e;
    sum += e;
  }
  kept[0] = top;
  kept[1] = top < kNothing ? 0 : 1 / total(sum);
  for (int i = 0; i < vectors * kLanes; i += kLanes) at(row + i) *= kept[1];
}

// ---- the tap: every call looks at all its rows, so they may come in any order and more than once --------------------

// The tap's rows that can be among queries [t, t + rows).
inline Range rows_near(const AttentionTap& tap, int t, int rows) {
  if (tap.first_row < 0) return {0, tap.count};
  const int from = t - tap.first_row, to = from + rows;
  return {from < 0 ? 0 : from, to < tap.count ? to : tap.count};
}
inline int tapped_query(const AttentionTap& tap, int r) {
  if (tap.rows[r] < 0) return -1;
  return tap.first_row >= 0 ? tap.first_row + r : static_cast<int>(tap.rows[r]);
}

// Copies the weights of queries [t, t + rows) of one head; those from `known` on are zero and not at hand.
void tap_weights(const AttentionTap& tap, const float* weights, int pad, int t, int rows, int known, float* out) {
  const Range near = rows_near(tap, t, rows);
  for (int r = near.from; r < near.to; ++r) {
    const int query = tapped_query(tap, r) - t;
    if (query < 0 || query >= rows) continue;
    const float* from = weights + query * pad;
    float* to = out + r * tap.weights.row;
    if (tap.first_column >= 0) {
      const int left = known - tap.first_column, count = left < 0 ? 0 : left < tap.width ? left : tap.width;
      copy<false>(to, from + tap.first_column, count);
      clear(to + count, tap.width - count);
      continue;
    }
    for (int c = 0; c < tap.width; ++c) {
      const int64_t column = tap.columns[c];
      to[c] = column < 0 || column >= known ? 0 : from[column];
    }
  }
}

// Adds a head's gradients to the pulls of queries [t, t + rows), and weight . grad to their deltas.
void tap_pulls(const AttentionTap& tap, int head, float* pulls, int pad, int t, int rows, int known, float* delta) {
  const Range near = rows_near(tap, t, rows);
  for (int r = near.from; r < near.to; ++r) {
    const int query = tapped_query(tap, r) - t;
    if (query < 0 || query >= rows) continue;
    const float* grad = tap.grad.at + head * tap.grad.head + r * tap.grad.row;
    float* to = pulls + query * pad;
    delta[query] += dot(tap.weights.at + head * tap.weights.head + r * tap.weights.row, grad, tap.width);
    if (tap.first_column >= 0) {
      const int left = known - tap.first_column, count = left < tap.width ? left : tap.width;
      copy<true>(to + tap.first_column, grad, count);
      continue;
    }
    for (int c = 0; c < tap.width; ++c) {
      const int64_t column = tap.columns[c];
      if (column >= 0 && column < known) to[column] += grad[c];
    }
  }
}

void clear_padding(const AttentionTap& tap, float* out) {
  for (int r = 0; r < tap.count; ++r)
    if (tap.rows[r] < 0) clear(out + r * tap.weights.row, tap.width);
}

// ---- forward --------------------------------------------------------------------------------------------------------

void forward_rows(const AttentionInput& in, Workspace& w, Right values, const float* q, int t, int rows, float* out,
                  ptrdiff_t out_row, float* kept, float* tapped) {
  const int keys = reach(in, t + rows - 1), vectors = (keys + kLanes - 1) / kLanes;
  product<false>(w.weights, w.pad_keys, {q, in.q.row, 1}, {w.keys_across, w.pad_keys}, rows, vectors, {0, in.width});
  for (int r = 0; r < rows; ++r) {
    float* row = w.weights + r * w.pad_keys;
    soften(row, finish_scores(row, w, in.scale, reach(in, t + r), vectors), vectors, kept + 2 * r);
  }
  if (tapped) tap_weights(*in.tap, w.weights, w.pad_keys, t, rows, keys, tapped);
  product<false>(w.whole_width ? out : w.row, w.whole_width ? out_row : w.pad_width, {w.weights, w.pad_keys, 1}, values,
                 rows, w.pad_width / kLanes, {0, keys});
  if (!w.whole_width) unpack(w.row, w.pad_width, rows, in.width, out_row, out);
}

void forward(const AttentionInput& in, const Rows<float>& out, float* kept, float* base) {
  size_t size;
  Workspace w = lay_out(in, base, &size);
  fill_bias(in, w);
  turn(in.k.at, in.k.row, in.keys, in.width, w.pad_keys, w.keys_across);
  const Right values = right_side(in.v.at, in.v.row, in.keys, in.width, w, w.values);
  for (int g = 0; g < in.group; ++g) {
    float* tapped = in.tap ? in.tap->weights.at + g * in.tap->weights.head : nullptr;
    if (tapped) clear_padding(*in.tap, tapped);
    for (int t = 0; t < in.queries; t += kTileRows) {
      const int rows = in.queries - t < kTileRows ? in.queries - t : kTileRows;
      forward_rows(in, w, values, in.q.at + g * in.q.head + t * in.q.row, t, rows, out.at + g * out.head + t * out.row,
                   out.row, kept + 2 * (g * in.queries + t), tapped);
    }
  }
}

// ---- backward -------------------------------------------------------------------------------------------------------

// A block of query rows in the backward pass.
struct Block {
  const float *q, *out, *grad, *kept;
  ptrdiff_t out_row, grad_row;
  float* grad_q;
  ptrdiff_t grad_q_row;
  int t, rows, head;  // the head within its group
};

// Weights of some rows, and what pulls at their scores: weight * (grad . v - grad . out) * scale.
void pull_rows(const AttentionInput& in, Workspace& w, const Block& b, int first, int rows) {
  const int keys = reach(in, b.t + first + rows - 1), vectors = (keys + kLanes - 1) / kLanes;
  float *weights = w.weights + first * w.pad_keys, *pulls = w.pulls + first * w.pad_keys;
  const float* grad = b.grad + first * b.grad_row;
  product<false>(weights, w.pad_keys, {b.q + first * in.q.row, in.q.row, 1}, {w.keys_across, w.pad_keys}, rows, vectors,
                 {0, in.width});
  product<false>(pulls, w.pad_keys, {grad, b.grad_row, 1}, {w.values_across, w.pad_keys}, rows, vectors, {0, in.width});
  float along[kTileRows];
  for (int r = 0; r < rows; ++r) along[r] = dot(grad + r * b.grad_row, b.out + (first + r) * b.out_row, in.width);
  if (in.tap) tap_pulls(*in.tap, b.head, pulls, w.pad_keys, b.t + first, rows, keys, along);
  for (int r = 0; r < rows; ++r, weights += w.pad_keys, pulls += w.pad_keys) {
    const float *kept = b.kept + 2 * (first + r), top = kept[0], factor = kept[1], delta = along[r];
    finish_scores(weights, w, in.scale, reach(in, b.t + first + r), vectors);
    for (int i = 0; i < vectors * kLanes; i += kLanes) {
      const Vec p = exponential(load(weights + i) - top) * factor;
      at(weights + i) = p;
      at(pulls + i) = p * (load(pulls + i) - delta) * in.scale;
    }
  }
}

// Gradients of the keys and values from a block of rows; under a causal mask early rows do not reach late keys.
void pull_keys(const AttentionInput& in, Workspace& w, const Block& b) {
  const int keys = reach(in, b.t + b.rows - 1), vectors = w.pad_width / kLanes;
  const Right q = right_side(b.q, in.q.row, b.rows, in.width, w, w.q),
              grad = right_side(b.grad, b.grad_row, b.rows, in.width, w, w.grad);
  for (int j = 0; j < keys; j += kTileRows) {
    const int take = keys - j < kTileRows ? keys - j : kTileRows, before = j - (in.keys - in.queries) - b.t;
    const Range inner{in.causal && before > 0 ? before : 0, b.rows};
    product<true>(w.grad_keys + j * w.pad_width, w.pad_width, {w.pulls + j, 1, w.pad_keys}, q, take, vectors, inner);
    product<true>(w.grad_values + j * w.pad_width, w.pad_width, {w.weights + j, 1, w.pad_keys}, grad, take, vectors,
                  inner);
  }
}

void backward_block(const AttentionInput& in, Workspace& w, Right keys, const Block& b) {
  for (int first = 0; first < b.rows; first += kTileRows) {
    const int take = b.rows - first < kTileRows ? b.rows - first : kTileRows;
    pull_rows(in, w, b, first, take);
    float* to = b.grad_q + first * b.grad_q_row;
    product<false>(w.whole_width ? to : w.row, w.whole_width ? b.grad_q_row : w.pad_width,
                   {w.pulls + first * w.pad_keys, w.pad_keys, 1}, keys, take, w.pad_width / kLanes,
                   {0, reach(in, b.t + first + take - 1)});
    if (!w.whole_width) unpack(w.row, w.pad_width, take, in.width, b.grad_q_row, to);
  }
  pull_keys(in, w, b);
}

void backward(const AttentionInput& in, const Rows<const float>& out, const Rows<const float>& grad, const float* kept,
              const Rows<float>& grad_q, const Rows<float>& grad_k, const Rows<float>& grad_v, float* base) {
  size_t size;
  Workspace w = lay_out(in, base, &size);
  fill_bias(in, w);
  turn(in.k.at, in.k.row, in.keys, in.width, w.pad_keys, w.keys_across);
  turn(in.v.at, in.v.row, in.keys, in.width, w.pad_keys, w.values_across);
  const Right keys = right_side(in.k.at, in.k.row, in.keys, in.width, w, w.keys);
  clear(w.grad_keys, in.keys * w.pad_width);
  clear(w.grad_values, in.keys * w.pad_width);
  for (int g = 0; g < in.group; ++g)
    for (int t = 0; t < in.queries; t += kBlock) {
      const int rows = in.queries - t < kBlock ? in.queries - t : kBlock;
      backward_block(in, w, keys,
                     {in.q.at + g * in.q.head + t * in.q.row, out.at + g * out.head + t * out.row,
                      grad.at + g * grad.head + t * grad.row, kept + 2 * (g * in.queries + t), out.row, grad.row,
                      grad_q.at + g * grad_q.head + t * grad_q.row, grad_q.row, t, rows, g});
    }
  unpack(w.grad_keys, w.pad_width, in.keys, in.width, grad_k.row, grad_k.at);
  unpack(w.grad_values, w.pad_width, in.keys, in.width, grad_v.row, grad_v.at);
}

}  // namespace

AttentionKernel attention_kernel() {
  return {scratch, forward, backward};
}

}  // namespace asr::kernel::ASR_KERNEL
