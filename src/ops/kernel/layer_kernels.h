// The fused CPU kernels of the layers: raw float pointers in, raw pointers out, no torch, one thread. Compiled once per
// instruction set (cmake/kernels.cmake) and chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace asr::kernel {

// Where the rows of one matrix start, and how far apart its rows and its heads lie; numbers of a row are dense.
template <class Real>
struct Rows {
  Real* at;
  ptrdiff_t row, head;
};

// Rows of weights that attention hands out as well, of one sample and one key-value head.
struct AttentionTap {
  const int64_t *rows, *columns;  // [count] queries and [width] keys; -1 gives zeros
  int count, width;
  int first_row, first_column;  // where not negative, rows (but for -1) and columns are the stretches that begin here
  Rows<float> weights;          // rows of `width`: the forward pass writes them, the backward pass reads them
  Rows<const float> grad;       // of the weights; for the backward pass
};

// One sample and one key-value head, with the `group` query heads that share it.
struct AttentionInput {
  Rows<const float> q, k, v;
  const bool* visible;  // [keys]
  int group, queries, keys, width;
  bool causal;  // query t sees keys up to keys - queries + t
  float scale;
  const AttentionTap* tap;  // or null
};

// What the backward pass is given of the forward pass, and where its gradients go.
struct AttentionBackward {
  Rows<const float> out, grad;  // the mixed values, and their gradient
  const float* kept;            // as the forward pass left it
  Rows<float> grad_q, grad_k, grad_v;
};

struct AttentionKernel {
  size_t (*scratch)(const AttentionInput&);  // numbers of scratch a thread
  // out gets the mixed values, kept [group][queries][2] what the backward pass needs to form the weights again. A query
  // that sees no key gets zeros.
  void (*forward)(const AttentionInput&, const Rows<float>& out, float* kept, float* scratch);
  void (*backward)(const AttentionInput&, const AttentionBackward&, float* scratch);
};

// sum = x + added (added and sum may be null), y = sum / rms(sum) * weight; inverse [rows] keeps 1 / rms.
struct NormForward {
  int64_t rows;
  int width;
  float eps;
  const float *x, *added, *weight;
  float *sum, *y, *inverse;
};

// grad_x = carried + the norm's own gradient (carried may be null); grad_weight (or null) is added to.
struct NormBackward {
  int64_t rows;
  int width;
  const float *x, *weight, *inverse;  // of the forward pass, x with what was added
  const float *grad_y, *carried;
  float *grad_x, *grad_weight;
};

struct GateBackward {
  const float *gate, *up, *grad;
  float *grad_gate, *grad_up;
};

// One token's heads, turned by its angles.
struct Rotation {
  const float* x;
  ptrdiff_t head_stride;  // of x
  int heads, width;
  const float *cosine, *sine;  // [width / 2]
  float direction;             // -1 turns back
  float* y;                    // [heads][width]
};

struct RowKernel {
  void (*rms_forward)(const NormForward&);
  void (*rms_backward)(const NormBackward&);
  void (*gate_forward)(const float* gate, const float* up, int64_t count, float* y);  // silu(gate) * up
  void (*gate_backward)(const GateBackward&, int64_t count);
  void (*rotate)(const Rotation&);
};

struct LayerKernels {
  const char* name;
  AttentionKernel attention;
  RowKernel row;
};

#define ASR_DECLARE_KERNEL(name)      \
  namespace name {                    \
  AttentionKernel attention_kernel(); \
  RowKernel row_kernel();             \
  }
ASR_DECLARE_KERNEL(portable)
ASR_DECLARE_KERNEL(avx2)
ASR_DECLARE_KERNEL(avx512)
#undef ASR_DECLARE_KERNEL

}  // namespace asr::kernel
