// Kernels of the layers that work row by row: RMS norm (with the residual sum before it), gated SiLU, rotation.
#include "ops/kernel/layer_kernels.h"
#include "ops/kernel/vec.h"

namespace asr::kernel::ASR_KERNEL {
namespace {

void rms_row(const float* x, const float* added, const float* weight, float eps, int width, float* sum, float* y,
             float* inverse) {
  const float* from = x;
  if (added) {
    for (int i = 0; i < width; ++i) sum[i] = x[i] + added[i];
    from = sum;
  }
  Vec squares{};
  int i = 0;
  for (; i + kLanes <= width; i += kLanes) squares += load(from + i) * load(from + i);
  float mean = total(squares);
  for (; i < width; ++i) mean += from[i] * from[i];
  const float factor = 1 / __builtin_sqrtf(mean / static_cast<float>(width) + eps);
  *inverse = factor;
  for (i = 0; i < width; ++i) y[i] = from[i] * factor * weight[i];
}

void rms_forward(const float* x, const float* added, const float* weight, float eps, int64_t rows, int width,
                 float* sum, float* y, float* inverse) {
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = r * width;
    rms_row(x + at, added ? added + at : nullptr, weight, eps, width, added ? sum + at : nullptr, y + at, inverse + r);
  }
}

// y = x f w with f = 1 / rms: dx = f w g - x f^3 mean(w g x).
void rms_pull(const float* x, const float* weight, float f, const float* g, const float* carried, int width,
              float* grad) {
  Vec along{};
  int i = 0;
  for (; i + kLanes <= width; i += kLanes) along += load(x + i) * load(weight + i) * load(g + i);
  float dot = total(along);
  for (; i < width; ++i) dot += x[i] * weight[i] * g[i];
  const float back = f * f * f * dot / static_cast<float>(width);
  if (carried)
    for (i = 0; i < width; ++i) grad[i] = carried[i] + (f * weight[i] * g[i] - back * x[i]);
  else
    for (i = 0; i < width; ++i) grad[i] = f * weight[i] * g[i] - back * x[i];
}

void rms_backward(const float* x, const float* weight, const float* inverse, const float* grad_y, const float* carried,
                  int64_t rows, int width, float* grad_x, float* grad_weight) {
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = r * width;
    const float *from = x + at, *g = grad_y + at, f = inverse[r];
    rms_pull(from, weight, f, g, carried ? carried + at : nullptr, width, grad_x + at);
    if (!grad_weight) continue;
    for (int i = 0; i < width; ++i) grad_weight[i] += f * from[i] * g[i];
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

void gate_backward(const float* gate, const float* up, const float* grad, int64_t count, float* grad_gate,
                   float* grad_up) {
  each_vector<3, 2>({gate, up, grad}, {grad_gate, grad_up}, count, [](const float* const* in, float* const* out) {
    const Vec g = load(in[0]), u = load(in[1]), pull = load(in[2]), s = sigmoid(g);
    at(out[0]) = pull * u * s * (1.0f + g * (1.0f - s));
    at(out[1]) = pull * g * s;
  });
}

void rotate(const float* x, ptrdiff_t head_stride, int heads, int width, const float* cosine, const float* sine,
            float direction, float* y) {
  const int half = width / 2;
  for (int h = 0; h < heads; ++h, x += head_stride, y += width)
    for (int i = 0; i < half; ++i) {
      const float a = x[i], b = x[half + i], c = cosine[i], s = direction * sine[i];
      y[i] = a * c - b * s;
      y[half + i] = b * c + a * s;
    }
}

}  // namespace

RowKernel row_kernel() {
  return {rms_forward, rms_backward, gate_forward, gate_backward, rotate};
}

}  // namespace asr::kernel::ASR_KERNEL
