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
Right right_side(Matrix<const float> from, const Workspace& w, float* copy) {
  if (w.whole_width) return {from.at, from.row};
  for (int r = 0; r < from.rows; ++r)
    for (int i = 0; i < w.pad_width; ++i) copy[r * w.pad_width + i] = i < from.width ? from.at[r * from.row + i] : 0;
  return {copy, w.pad_width};
}
void unpack(const float* from, int pad, Matrix<float> to) {
  for (int r = 0; r < to.rows; ++r)
    for (int i = 0; i < to.width; ++i) to.at[r * to.row + i] = from[r * pad + i];
}
// Rows as the result of a product: themselves, or room in whole vectors, from which finish_result takes them.
Result result_side(Matrix<float> to, const Workspace& w) {
  const int vectors = w.pad_width / kLanes;
  if (w.whole_width) return {to.at, to.row, to.rows, vectors};
  return {w.row, w.pad_width, to.rows, vectors};
}
void finish_result(Matrix<float> to, const Workspace& w) {
  if (!w.whole_width) unpack(w.row, w.pad_width, to);
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

// Rows of numbers, one a query: the weights of its keys, or the pulls at them.
struct ScoreRows {
  float* at;         // [rows][pad]
  int pad, t, rows;  // of queries [t, t + rows)
  int known;         // keys from here on have weight zero and are not at hand
};

// The tap's rows that can be among the queries.
inline Range rows_near(const AttentionTap& tap, const ScoreRows& queries) {
  if (tap.first_row < 0) return {0, tap.count};
  const int from = queries.t - tap.first_row, to = from + queries.rows;
  return {from < 0 ? 0 : from, to < tap.count ? to : tap.count};
}
inline int tapped_query(const AttentionTap& tap, int r) {
  if (tap.rows[r] < 0) return -1;
  return tap.first_row >= 0 ? tap.first_row + r : static_cast<int>(tap.rows[r]);
}

// Copies weights of one head.
void tap_weights(const AttentionTap& tap, ScoreRows weights, float* out) {
  const Range near = rows_near(tap, weights);
  for (int r = near.from; r < near.to; ++r) {
    const int query = tapped_query(tap, r) - weights.t;
    if (query < 0 || query >= weights.rows) continue;
    const float* from = weights.at + query * weights.pad;
    float* to = out + r * tap.weights.row;
    if (tap.first_column >= 0) {
      const int left = weights.known - tap.first_column, count = left < 0 ? 0 : left < tap.width ? left : tap.width;
      copy<false>(to, from + tap.first_column, count);
      clear(to + count, tap.width - count);
      continue;
    }
    for (int c = 0; c < tap.width; ++c) {
      const int64_t column = tap.columns[c];
      to[c] = column < 0 || column >= weights.known ? 0 : from[column];
    }
  }
}

// Adds a head's gradients to the pulls of some queries, and weight . grad to their deltas.
void tap_pulls(const AttentionTap& tap, int head, ScoreRows pulls, float* delta) {
  const Range near = rows_near(tap, pulls);
  for (int r = near.from; r < near.to; ++r) {
    const int query = tapped_query(tap, r) - pulls.t;
    if (query < 0 || query >= pulls.rows) continue;
    const float* grad = tap.grad.at + head * tap.grad.head + r * tap.grad.row;
    float* to = pulls.at + query * pulls.pad;
    delta[query] += dot(tap.weights.at + head * tap.weights.head + r * tap.weights.row, grad, tap.width);
    if (tap.first_column >= 0) {
      const int left = pulls.known - tap.first_column, count = left < tap.width ? left : tap.width;
      copy<true>(to + tap.first_column, grad, count);
      continue;
    }
    for (int c = 0; c < tap.width; ++c) {
      const int64_t column = tap.columns[c];
      if (column >= 0 && column < pulls.known) to[column] += grad[c];
    }
  }
}

void clear_padding(const AttentionTap& tap, float* out) {
  for (int r = 0; r < tap.count; ++r)
    if (tap.rows[r] < 0) clear(out + r * tap.weights.row, tap.width);
}

// ---- forward --------------------------------------------------------------------------------------------------------

// A few query rows in the forward pass.
struct ForwardRows {
  const float* q;
  int t;  // the first query
  Matrix<float> out;
  float *kept, *tapped;  // tapped: of the head, or null
};

void forward_rows(const AttentionInput& in, Workspace& w, Right values, const ForwardRows& b) {
  const int rows = b.out.rows, keys = reach(in, b.t + rows - 1), vectors = (keys + kLanes - 1) / kLanes;
  product<false>({w.weights, w.pad_keys, rows, vectors}, {b.q, in.q.row, 1}, {w.keys_across, w.pad_keys},
                 {0, in.width});
  for (int r = 0; r < rows; ++r) {
    float* row = w.weights + r * w.pad_keys;
    soften(row, finish_scores(row, w, in.scale, reach(in, b.t + r), vectors), vectors, b.kept + 2 * r);
  }
  if (b.tapped) tap_weights(*in.tap, {w.weights, w.pad_keys, b.t, rows, keys}, b.tapped);
  product<false>(result_side(b.out, w), {w.weights, w.pad_keys, 1}, values, {0, keys});
  finish_result(b.out, w);
}

void forward(const AttentionInput& in, const Rows<float>& out, float* kept, float* base) {
  size_t size;
  Workspace w = lay_out(in, base, &size);
  fill_bias(in, w);
  turn({in.k.at, in.k.row, in.keys, in.width}, w.keys_across, w.pad_keys);
  const Right values = right_side({in.v.at, in.v.row, in.keys, in.width}, w, w.values);
  for (int g = 0; g < in.group; ++g) {
    float* tapped = in.tap ? in.tap->weights.at + g * in.tap->weights.head : nullptr;
    if (tapped) clear_padding(*in.tap, tapped);
    for (int t = 0; t < in.queries; t += kTileRows) {
      ForwardRows b;
      b.q = in.q.at + g * in.q.head + t * in.q.row;
      b.t = t;
      b.out.at = out.at + g * out.head + t * out.row;
      b.out.row = out.row;
      b.out.rows = in.queries - t < kTileRows ? in.queries - t : kTileRows;
      b.out.width = in.width;
      b.kept = kept + 2 * (g * in.queries + t);
      b.tapped = tapped;
      forward_rows(in, w, values, b);
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
  product<false>({weights, w.pad_keys, rows, vectors}, {b.q + first * in.q.row, in.q.row, 1},
                 {w.keys_across, w.pad_keys}, {0, in.width});
  product<false>({pulls, w.pad_keys, rows, vectors}, {grad, b.grad_row, 1}, {w.values_across, w.pad_keys},
                 {0, in.width});
  float along[kTileRows];
  for (int r = 0; r < rows; ++r) along[r] = dot(grad + r * b.grad_row, b.out + (first + r) * b.out_row, in.width);
  if (in.tap) tap_pulls(*in.tap, b.head, {pulls, w.pad_keys, b.t + first, rows, keys}, along);
  for (int r = 0; r < rows; ++r) {
    const float *kept = b.kept + 2 * (first + r), top = kept[0], factor = kept[1], delta = along[r];
    finish_scores(weights, w, in.scale, reach(in, b.t + first + r), vectors);
    for (int i = 0; i < vectors * kLanes; i += kLanes) {
      const Vec p = exponential(load(weights + i) - top) * factor;
      at(weights + i) = p;
      at(pulls + i) = p * (load(pulls + i) - delta) * in.scale;
    }
    weights += w.pad_keys;
    pulls += w.pad_keys;
  }
}

// Gradients of the keys and values from a block of rows; under a causal mask early rows do not reach late keys.
void pull_keys(const AttentionInput& in, Workspace& w, const Block& b) {
  const int keys = reach(in, b.t + b.rows - 1), vectors = w.pad_width / kLanes;
  const Right q = right_side({b.q, in.q.row, b.rows, in.width}, w, w.q),
              grad = right_side({b.grad, b.grad_row, b.rows, in.width}, w, w.grad);
  for (int j = 0; j < keys; j += kTileRows) {
    const int take = keys - j < kTileRows ? keys - j : kTileRows, before = j - (in.keys - in.queries) - b.t;
    const Range inner{in.causal && before > 0 ? before : 0, b.rows};
    const Result grad_keys{w.grad_keys + j * w.pad_width, w.pad_width, take, vectors},
        grad_values{w.grad_values + j * w.pad_width, w.pad_width, take, vectors};
    product<true>(grad_keys, {w.pulls + j, 1, w.pad_keys}, q, inner);
    product<true>(grad_values, {w.weights + j, 1, w.pad_keys}, grad, inner);
  }
}

void backward_block(const AttentionInput& in, Workspace& w, Right keys, const Block& b) {
  for (int first = 0; first < b.rows; first += kTileRows) {
    const int take = b.rows - first < kTileRows ? b.rows - first : kTileRows;
    pull_rows(in, w, b, first, take);
    const Matrix<float> to{b.grad_q + first * b.grad_q_row, b.grad_q_row, take, in.width};
    product<false>(result_side(to, w), {w.pulls + first * w.pad_keys, w.pad_keys, 1}, keys,
                   {0, reach(in, b.t + first + take - 1)});
    finish_result(to, w);
  }
  pull_keys(in, w, b);
}

Block block_at(const AttentionInput& in, const AttentionBackward& of, int head, int t) {
  Block b;
  b.q = in.q.at + head * in.q.head + t * in.q.row;
  b.out = of.out.at + head * of.out.head + t * of.out.row;
  b.grad = of.grad.at + head * of.grad.head + t * of.grad.row;
  b.kept = of.kept + 2 * (head * in.queries + t);
  b.out_row = of.out.row;
  b.grad_row = of.grad.row;
  b.grad_q = of.grad_q.at + head * of.grad_q.head + t * of.grad_q.row;
  b.grad_q_row = of.grad_q.row;
  b.t = t;
  b.rows = in.queries - t < kBlock ? in.queries - t : kBlock;
  b.head = head;
  return b;
}

void backward(const AttentionInput& in, const AttentionBackward& of, float* base) {
  size_t size;
  Workspace w = lay_out(in, base, &size);
  fill_bias(in, w);
  const Matrix<const float> k{in.k.at, in.k.row, in.keys, in.width}, v{in.v.at, in.v.row, in.keys, in.width};
  turn(k, w.keys_across, w.pad_keys);
  turn(v, w.values_across, w.pad_keys);
  const Right keys = right_side(k, w, w.keys);
  clear(w.grad_keys, in.keys * w.pad_width);
  clear(w.grad_values, in.keys * w.pad_width);
  for (int g = 0; g < in.group; ++g)
    for (int t = 0; t < in.queries; t += kBlock) backward_block(in, w, keys, block_at(in, of, g, t));
  unpack(w.grad_keys, w.pad_width, {of.grad_k.at, of.grad_k.row, in.keys, in.width});
  unpack(w.grad_values, w.pad_width, {of.grad_v.at, of.grad_v.row, in.keys, in.width});
}

}  // namespace

AttentionKernel attention_kernel() {
  return {scratch, forward, backward};
}

}  // namespace asr::kernel::ASR_KERNEL
