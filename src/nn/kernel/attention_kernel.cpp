// Attention of one key-value head. A few query rows at a time: their scores, weights and mixed values stay in the first
// cache, so the score matrix never exists. The backward pass forms the weights again from q, k and the kept logarithm
// of each row's sum, which was as fast as keeping them and needs no memory.
#include "nn/kernel/layer_kernels.h"
#include "nn/kernel/vec.h"

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
};

Workspace lay_out(const AttentionInput& in, float* base, size_t* size) {
  size_t used = 0;
  const auto take = [&](int n) {
    float* p = base ? base + used : nullptr;
    used += static_cast<size_t>(n + 15) / 16 * 16;
    return p;
  };
  Workspace w;
  w.pad_keys = padded(in.keys), w.pad_width = padded(in.width);
  w.bias = take(w.pad_keys);
  w.keys_across = take(in.width * w.pad_keys), w.values_across = take(in.width * w.pad_keys);
  w.keys = take(in.keys * w.pad_width), w.values = take(in.keys * w.pad_width);
  w.grad_keys = take(in.keys * w.pad_width), w.grad_values = take(in.keys * w.pad_width);
  w.weights = take(kBlock * w.pad_keys), w.pulls = take(kBlock * w.pad_keys);
  w.q = take(kBlock * w.pad_width), w.grad = take(kBlock * w.pad_width), w.row = take(kBlock * w.pad_width);
  *size = used;
  return w;
}

size_t scratch(const AttentionInput& in) {
  size_t size;
  lay_out(in, nullptr, &size);
  return size;
}

// Rows of `width` numbers to rows of whole vectors, filled with zeros.
void pack(const float* from, ptrdiff_t row, int rows, int width, int pad, float* to) {
  for (int r = 0; r < rows; ++r, from += row, to += pad) {
    for (int i = 0; i < width; ++i) to[i] = from[i];
    for (int i = width; i < pad; ++i) to[i] = 0;
  }
}
void unpack(const float* from, int pad, int rows, int width, ptrdiff_t row, float* to) {
  for (int r = 0; r < rows; ++r)
    for (int i = 0; i < width; ++i) to[r * row + i] = from[r * pad + i];
}
void pack_across(const float* from, ptrdiff_t row, int rows, int width, int pad, float* to) {
  for (int i = 0; i < width; ++i)
    for (int r = rows; r < pad; ++r) to[i * pad + r] = 0;
  for (int r = 0; r < rows; ++r)
    for (int i = 0; i < width; ++i) to[i * pad + r] = from[r * row + i];
}
void clear(float* to, int n) {
  for (int i = 0; i < n; ++i) to[i] = 0;
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
  float out = top[0];
  for (int i = 1; i < kLanes; ++i) out = top[i] > out ? top[i] : out;
  return out;
}

// Softmax of one row in place; returns the logarithm of its sum, huge where it saw nothing.
float soften(float* row, float top, int vectors) {
  Vec sum{};
  for (int i = 0; i < vectors * kLanes; i += kLanes) {
    const Vec e = exponential(load(row + i) - top);
    at(row + i) = e, sum += e;
  }
  const float mass = total(sum), factor = top < kNothing ? 0 : 1 / mass;
  for (int i = 0; i < vectors * kLanes; i += kLanes) at(row + i) *= factor;
  return top < kNothing ? -kHidden : top + __builtin_logf(mass);
}

void forward_rows(const AttentionInput& in, Workspace& w, const float* q, int t, int rows, float* out,
                  ptrdiff_t out_row, float* log_sum) {
  const int keys = reach(in, t + rows - 1), vectors = (keys + kLanes - 1) / kLanes;
  product(w.weights, w.pad_keys, {q, in.q.row, 1}, {w.keys_across, w.pad_keys}, rows, vectors, {0, in.width}, false);
  for (int r = 0; r < rows; ++r) {
    float* row = w.weights + r * w.pad_keys;
    log_sum[r] = soften(row, finish_scores(row, w, in.scale, reach(in, t + r), vectors), vectors);
  }
  const bool whole = in.width == w.pad_width;
  product(whole ? out : w.row, whole ? out_row : w.pad_width, {w.weights, w.pad_keys, 1}, {w.values, w.pad_width}, rows,
          w.pad_width / kLanes, {0, keys}, false);
  if (!whole) unpack(w.row, w.pad_width, rows, in.width, out_row, out);
}

void forward(const AttentionInput& in, const Rows<float>& out, float* log_sum, float* base) {
  size_t size;
  Workspace w = lay_out(in, base, &size);
  fill_bias(in, w);
  pack_across(in.k.at, in.k.row, in.keys, in.width, w.pad_keys, w.keys_across);
  pack(in.v.at, in.v.row, in.keys, in.width, w.pad_width, w.values);
  for (int g = 0; g < in.group; ++g)
    for (int t = 0; t < in.queries; t += kTileRows) {
      const int rows = in.queries - t < kTileRows ? in.queries - t : kTileRows;
      forward_rows(in, w, in.q.at + g * in.q.head + t * in.q.row, t, rows, out.at + g * out.head + t * out.row, out.row,
                   log_sum + g * in.queries + t);
    }
}

// Weights of some rows, and what pulls at their scores: weight * (grad . v - grad . out) * scale.
void pull_rows(const AttentionInput& in, Workspace& w, int first, int t, int rows, const float* delta,
               const float* log_sum) {
  const int keys = reach(in, t + rows - 1), vectors = (keys + kLanes - 1) / kLanes;
  float *weights = w.weights + first * w.pad_keys, *pulls = w.pulls + first * w.pad_keys;
  product(weights, w.pad_keys, {w.q + first * w.pad_width, w.pad_width, 1}, {w.keys_across, w.pad_keys}, rows, vectors,
          {0, in.width}, false);
  product(pulls, w.pad_keys, {w.grad + first * w.pad_width, w.pad_width, 1}, {w.values_across, w.pad_keys}, rows,
          vectors, {0, in.width}, false);
  for (int r = 0; r < rows; ++r, weights += w.pad_keys, pulls += w.pad_keys) {
    finish_scores(weights, w, in.scale, reach(in, t + r), vectors);
    for (int i = 0; i < vectors * kLanes; i += kLanes) {
      const Vec p = exponential(load(weights + i) - log_sum[r]);
      at(weights + i) = p;
      at(pulls + i) = p * (load(pulls + i) - delta[r]) * in.scale;
    }
  }
}

// Gradients of the keys and values from a block of rows; under a causal mask early rows do not reach late keys.
void pull_keys(const AttentionInput& in, Workspace& w, int t, int rows) {
  const int keys = reach(in, t + rows - 1), vectors = w.pad_width / kLanes;
  for (int j = 0; j < keys; j += kTileRows) {
    const int take = keys - j < kTileRows ? keys - j : kTileRows, before = j - (in.keys - in.queries) - t;
    const Range inner{in.causal && before > 0 ? before : 0, rows};
    product(w.grad_keys + j * w.pad_width, w.pad_width, {w.pulls + j, 1, w.pad_keys}, {w.q, w.pad_width}, take, vectors,
            inner, true);
    product(w.grad_values + j * w.pad_width, w.pad_width, {w.weights + j, 1, w.pad_keys}, {w.grad, w.pad_width}, take,
            vectors, inner, true);
  }
}

void backward_block(const AttentionInput& in, Workspace& w, const float* q, int t, int rows, const float* out,
                    ptrdiff_t out_row, const float* grad, ptrdiff_t grad_row, const float* log_sum, float* grad_q,
                    ptrdiff_t grad_q_row) {
  pack(q, in.q.row, rows, in.width, w.pad_width, w.q);
  pack(grad, grad_row, rows, in.width, w.pad_width, w.grad);
  for (int first = 0; first < rows; first += kTileRows) {
    const int take = rows - first < kTileRows ? rows - first : kTileRows;
    float delta[kTileRows];
    for (int r = 0; r < take; ++r) {
      const float *g = w.grad + (first + r) * w.pad_width, *o = out + (first + r) * out_row;
      delta[r] = 0;
      for (int i = 0; i < in.width; ++i) delta[r] += g[i] * o[i];
    }
    pull_rows(in, w, first, t + first, take, delta, log_sum + first);
    product(w.row, w.pad_width, {w.pulls + first * w.pad_keys, w.pad_keys, 1}, {w.keys, w.pad_width}, take,
            w.pad_width / kLanes, {0, reach(in, t + first + take - 1)}, false);
    unpack(w.row, w.pad_width, take, in.width, grad_q_row, grad_q + first * grad_q_row);
  }
  pull_keys(in, w, t, rows);
}

void backward(const AttentionInput& in, const Rows<const float>& out, const Rows<const float>& grad,
              const float* log_sum, const Rows<float>& grad_q, const Rows<float>& grad_k, const Rows<float>& grad_v,
              float* base) {
  size_t size;
  Workspace w = lay_out(in, base, &size);
  fill_bias(in, w);
  pack_across(in.k.at, in.k.row, in.keys, in.width, w.pad_keys, w.keys_across);
  pack_across(in.v.at, in.v.row, in.keys, in.width, w.pad_keys, w.values_across);
  pack(in.k.at, in.k.row, in.keys, in.width, w.pad_width, w.keys);
  clear(w.grad_keys, in.keys * w.pad_width), clear(w.grad_values, in.keys * w.pad_width);
  for (int g = 0; g < in.group; ++g)
    for (int t = 0; t < in.queries; t += kBlock) {
      const int rows = in.queries - t < kBlock ? in.queries - t : kBlock;
      backward_block(in, w, in.q.at + g * in.q.head + t * in.q.row, t, rows, out.at + g * out.head + t * out.row,
                     out.row, grad.at + g * grad.head + t * grad.row, grad.row, log_sum + g * in.queries + t,
                     grad_q.at + g * grad_q.head + t * grad_q.row, grad_q.row);
    }
  unpack(w.grad_keys, w.pad_width, in.keys, in.width, grad_k.row, grad_k.at);
  unpack(w.grad_values, w.pad_width, in.keys, in.width, grad_v.row, grad_v.at);
}

}  // namespace

AttentionKernel attention_kernel() {
  return {scratch, forward, backward};
}

}  // namespace asr::kernel::ASR_KERNEL
