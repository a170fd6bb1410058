// Kernels of the layers that work row by row: RMS norm (with the residual sum before it), gated SiLU, rotation.
#include "ops/kernel/layer_kernels.h"
#include "ops/kernel/vec.h"

namespace asr::kernel::ASR_KERNEL {
namespace {

void rms_row(const NormForward& of, int64_t row) {
  const int width = of.width;
  const int64_t begin = row * width;
  const float *from = of.x + begin, *weight = of.weight;
  if (of.added) {
    const float *x = from, *added = of.added + begin;
    float* sum = of.sum + begin;
    for (int i = 0; i < width; ++i) sum[i] = x[i] + added[i];
    from = sum;
  }
  Vec squares{};
  int i = 0;
  for (; i + kLanes <= width; i += kLanes) squares += load(from + i) * load(from + i);
  float mean = total(squares);
  for (; i < width; ++i) mean += from[i] * from[i];
  const float factor = 1 / __builtin_sqrtf(mean / static_cast<float>(width) + of.eps);
  of.inverse[row] = factor;
  float* y = of.y + begin;
  for (i = 0; i < width; ++i) y[i] = from[i] * factor * weight[i];
}

void rms_forward(const NormForward& of) {
  for (int64_t r = 0; r < of.rows; ++r) rms_row(of, r);
}

// y = x f w with f = 1 / rms: dx = f w g - x f^3 mean(w g x).
void rms_pull(const NormBackward& of, int64_t row) {
  const int width = of.width;
  const int64_t begin = row * width;
  const float *x = of.x + begin, *weight = of.weight, *g = of.grad_y + begin, f = of.inverse[row];
  Vec along{};
  int i = 0;
  for (; i + kLanes <= width; i += kLanes) along += load(x + i) * load(weight + i) * load(g + i);
  float dot = total(along);
  for (; i < width; ++i) dot += x[i] * weight[i] * g[i];
  const float back = f * f * f * dot / static_cast<float>(width);
  const float* carried = of.carried ? of.carried + begin : nullptr;
  float* grad = of.grad_x + begin;
  if (carried)
    for (i = 0; i < width; ++i) grad[i] = carried[i] + (f * weight[i] * g[i] - back * x[i]);
  else
    for (i = 0; i < width; ++i) grad[i] = f * weight[i] * g[i] - back * x[i];
}

void rms_pull_weight(const NormBackward& of, int64_t row) {
  const int width = of.width;
  const float *x = of.x + row * width, *g = of.grad_y + row * width, f = of.inverse[row];
  float* grad = of.grad_weight;
  for (int i = 0; i < width; ++i) grad[i] += f * x[i] * g[i];
}

void rms_backward(const NormBackward& of) {
  for (int64_t r = 0; r < of.rows; ++r) {
    rms_pull(of, r);
    if (of.grad_weight) rms_pull_weight(of, r);
  }
}

// Works through `count` numbers in whole vectors; the last ones go through a padded copy.
template <int Inputs, int Outputs, class Body>
inline void each_vector(const float* const (&in)[Inputs], float* const (&out)[Outputs], int64_t count,
                        const Body& body) {
  int64_t i = 0;
  const float* from[Inputs];
  float* to[Outputs];
  for (; i + kLanes <= count; i += kLanes) {
    for (int k = 0; k < Inputs; ++k) from[k] = in[k] + i;
    for (int k = 0; k < Outputs; ++k) to[k] = out[k] + i;
    body(from, to);
  }
  const int rest = static_cast<int>(count - i);
  if (rest == 0) return;
  float copy[Inputs][kLanes] = {}, result[Outputs][kLanes];
  for (int k = 0; k < Inputs; ++k) {
    for (int j = 0; j < rest; ++j) copy[k][j] = in[k][i + j];
    from[k] = copy[k];
  }
  for (int k = 0; k < Outputs; ++k) to[k] = result[k];
  body(from, to);
  for (int k = 0; k < Outputs; ++k)
    for (int j = 0; j < rest; ++j) out[k][i + j] = result[k][j];
}

inline Vec sigmoid(Vec x) {
  return 1.0f / (1.0f + exponential(-x));
}

void gate_forward(const float* gate, const float* up, int64_t count, float* y) {
  each_vector<2, 1>({gate, up}, {y}, count, [](const float* const* in, float* const* out) {
    const Vec g = load(in[0]);
    at(out[0]) = g * sigmoid(g) * load(in[1]);
  });
}

void gate_backward(const GateBackward& of, int64_t count) {
  const auto pull_vector = [](const float* const* in, float* const* out) {
    const Vec g = load(in[0]), u = load(in[1]), pull = load(in[2]), s = sigmoid(g);
    at(out[0]) = pull * u * s * (1.0f + g * (1.0f - s));
    at(out[1]) = pull * g * s;
  };
  each_vector<3, 2>({of.gate, of.up, of.grad}, {of.grad_gate, of.grad_up}, count, pull_vector);
}

void rotate(const Rotation& of) {
  const int half = of.width / 2;
  const float *x = of.x, *cosine = of.cosine, *sine = of.sine;
  const float direction = of.direction;  // a copy, which no store of y can be taken to change
  float* y = of.y;
  for (int h = 0; h < of.heads; ++h) {
    for (int i = 0; i < half; ++i) {
      const float a = x[i], b = x[half + i], c = cosine[i], s = direction * sine[i];
      y[i] = a * c - b * s;
      y[half + i] = b * c + a * s;
    }
    x += of.head_stride;
    y += of.width;
  }
}

}  // namespace

RowKernel row_kernel() {
  return {rms_forward, rms_backward, gate_forward, gate_backward, rotate};
}

}  // namespace asr::kernel::ASR_KERNEL
