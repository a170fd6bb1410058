// Our own CUDA kernels as plain functions: addresses, sizes and a stream, nothing of libtorch, so that nvcc compiles a
// file in two seconds. Each operator's NAME_cuda.cpp gives them tensors. Built without nvcc they are not there: see
// has_cuda_kernels().
#pragma once

#include <cstdint>

namespace asr::cuda {

enum class Number { single, half, bfloat16 };  // how numbers are stored; computed with in float32

using Stream = void*;  // cudaStream_t

// What a launch may ask for of a block's 48 KB of shared memory: a kernel has up to 1 KB more of its own.
constexpr int64_t kLaunchRoom = 47 * 1024;
constexpr int64_t kMostBlocksDown = 65535;  // of a grid, in its second and third direction

// Rows of numbers; width a multiple of 16 bytes.
struct Rows {
  int64_t count = 0, width = 0;
  Number number = Number::single;
};

// sum = x + added (added and sum may be null: then x stands for the sum), y = sum * inverse * weight with
// inverse = 1 / sqrt(mean(sum^2) + eps), a number a row.
struct NormForward {
  const void *x, *added, *weight;
  void *sum, *y;
  float* inverse;
  float eps;
};
void rms_norm_forward(const Rows& rows, const NormForward& of, Stream stream);

// dx of y's gradient, with `carried` (or null) added: the gradient that reaches the sum otherwise.
struct NormBackward {
  const void *sum, *weight, *grad, *carried;
  const float* inverse;
  void* dx;
};
void rms_norm_backward(const Rows& rows, const NormBackward& of, Stream stream);

// Heads [batch, tokens, heads, width], turned by the angles of [batch or 1, tokens, width / 2]; direction -1 turns
// back.
struct Rotation {
  const void *x, *cosine, *sine;
  void* y;
  int64_t batch, tokens, heads, width;
  int64_t batch_stride, token_stride, head_stride;  // of x, in numbers
  int64_t table_stride;                             // of a sample's angles; 0 where all share them
  float direction;
  Number number;
};
void rotate(const Rotation& of, Stream stream);

// count numbers, a multiple of 16 bytes.
struct GateForward {
  const void *gate, *up;
  void* y;
};
void gated_silu_forward(Number number, int64_t count, const GateForward& of, Stream stream);
struct GateBackward {
  const void *gate, *up, *grad;
  void *to_gate, *to_up;
};
void gated_silu_backward(Number number, int64_t count, const GateBackward& of, Stream stream);

// y = x * mask. Entry i of sample b has the mask of entry positions[b] * each + i of the whole batch
// (positions null: of entry i); `each` is a multiple of 8.
struct Dropout {
  const void* x;
  void* y;
  const int64_t* positions;
  int64_t samples, each;
  uint64_t key;
  uint32_t threshold;  // of 256
  Number number;
};
void keyed_dropout(const Dropout& of, Stream stream);

int compute_capability();  // of the current device, such as 90; 0 where there is none

// Rows of 16-bit numbers to float8 e4m3, divided by a scale each.
void fp8_rows(const Rows& rows, const void* x, void* out, float* scale, Stream stream);
// count numbers from half as many bytes; 64 neighbours share a scale.
struct PackedNf4 {
  const uint8_t* data;
  const float* scale;
};
void unpack_nf4(Number number, int64_t count, const PackedNf4& from, void* out, Stream stream);

// Experts, or strips of their ranks, of one rank, 8 or 16, that read x behind a dropout each; numbers of 16 bits. What
// kept entries grow by is part of the dropout.
struct MaskedExpert {
  void* middle;  // [rows, rank]
  int stride;    // numbers from one row of it to the next
  void* a;       // [rank, width]; float32 where it is a gradient
  float scale;
  uint64_t key;
  uint32_t threshold;  // of 256
};
constexpr int kMostMasked = 3;
constexpr int kPullRows = 128;  // of x that a block adds pulls to
struct MaskedExperts {
  MaskedExpert of[kMostMasked];
  int count, rank;
  const int64_t* positions;  // as in Dropout
  int64_t samples;
};
// middle = dropout(x) a^T
void masked_middles(const Rows& rows, const void* x, const MaskedExperts& of, Stream stream);
// dx += sum over experts of scale * dropout(middle a)
void add_masked_pulls(const Rows& rows, void* dx, const MaskedExperts& of, Stream stream);
// a = scale * middle^T dropout(x); `room` is as many numbers as masked_sum_room says.
void masked_sums(const Rows& rows, const void* x, const MaskedExperts& of, float* room, Stream stream);
int64_t masked_sum_room(const Rows& rows, const MaskedExperts& of);

struct GeluBackward {
  const void *x, *grad;
  void* dx;
};
// y = x / (1 + exp(-1.702 x)) of count numbers, a multiple of 16 bytes; and grad times its slope at x.
void quick_gelu_forward(Number number, int64_t count, const void* x, void* y, Stream stream);
void quick_gelu_backward(Number number, int64_t count, const GeluBackward& of, Stream stream);

}  // namespace asr::cuda
