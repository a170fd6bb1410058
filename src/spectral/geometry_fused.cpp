// The geometry loss as one autograd function, for the same reason as spectral_loss_fused.cpp: its matrices are small,
// and thirty operators with their gradients cost more than the arithmetic. The gradient is formed in the forward pass.
#include <cmath>

#include "base/error.h"
#include "spectral/spectral_loss.h"
#include "tensor/torch_compat.h"

namespace asr {
namespace {

// Rows of x at length 1, and 1 / length.
template <class Real>
struct Directions {
  torch::Tensor unit;
  std::vector<Real> inverse;

  explicit Directions(const torch::Tensor& x) : unit(x.detach().contiguous().clone()), inverse(x.size(0)) {
    const int64_t B = x.size(0), E = x.size(1);
    Real* row = unit.data_ptr<Real>();
    for (int64_t b = 0; b < B; ++b, row += E) {
      Real sum = 0;
      for (int64_t i = 0; i < E; ++i) sum += row[i] * row[i];
      inverse[b] = 1 / std::sqrt(sum);
      for (int64_t i = 0; i < E; ++i) row[i] *= inverse[b];
    }
  }
  // Turns a gradient of `unit` into that of x, in place: only what is at right angles to a row moves it.
  void pull(const torch::Tensor& grad) const {
    const int64_t B = unit.size(0), E = unit.size(1);
    const Real* u = unit.data_ptr<Real>();
    Real* g = grad.data_ptr<Real>();
    for (int64_t b = 0; b < B; ++b, u += E, g += E) {
      Real along = 0;
      for (int64_t i = 0; i < E; ++i) along += g[i] * u[i];
      for (int64_t i = 0; i < E; ++i) g[i] = (g[i] - along * u[i]) * inverse[b];
    }
  }
};

template <class Real>
void log_softmax_row(Real* row, int64_t n) {
  Real top = row[0], sum = 0;
  for (int64_t j = 1; j < n; ++j) top = std::max(top, row[j]);
  for (int64_t j = 0; j < n; ++j) sum += std::exp(row[j] - top);
  const Real shift = top + std::log(sum);
  for (int64_t j = 0; j < n; ++j) row[j] -= shift;
}

struct Known {
  torch::Tensor loss, image, text;  // and the gradients
};

// s [B, B] holds similarities and gets dL/ds, where wanted; t those of the reference.
template <class Real>
double divergence(Real* s, Real* t, int64_t B, bool with_grad) {
  Real total = 0;
  std::vector<Real> p(B), c(B);
  for (int64_t b = 0; b < B; ++b, s += B, t += B) {
    log_softmax_row(s, B), log_softmax_row(t, B);
    Real sum = 0, row = 0;
    for (int64_t j = 0; j < B; ++j) {
      p[j] = std::exp(s[j]);
      const Real difference = s[j] - t[j], gap = p[j] - std::exp(t[j]);
      row += gap * difference, sum += c[j] = p[j] * difference + gap;
    }
    total += row;
    if (with_grad)
      for (int64_t j = 0; j < B; ++j) s[j] = (c[j] - p[j] * sum) / (2 * static_cast<Real>(B));
  }
  return static_cast<double>(total) / (2 * static_cast<double>(B));
}

template <class Real>
Known compute(const torch::Tensor& image, const torch::Tensor& text, const torch::Tensor& image_reference,
              const torch::Tensor& text_reference, bool with_grad) {
  const Directions<Real> i(image), q(text), i0(image_reference), q0(text_reference);
  const torch::Tensor s = i.unit.matmul(q.unit.t()), t = i0.unit.matmul(q0.unit.t());
  Known out;
  out.loss = torch::full({}, divergence(s.data_ptr<Real>(), t.data_ptr<Real>(), image.size(0), with_grad),
                         image.options().requires_grad(false));
  if (!with_grad) return out;
  out.image = s.matmul(q.unit), out.text = s.t().matmul(i.unit);
  i.pull(out.image), q.pull(out.text);
  return out;
}

struct GeometryFunction : torch::autograd::Function<GeometryFunction> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& image,
                               const torch::Tensor& text, const torch::Tensor& image_reference,
                               const torch::Tensor& text_reference, bool with_grad) {
    const auto known = image.scalar_type() == at::kFloat
                           ? compute<float>(image, text, image_reference, text_reference, with_grad)
                           : compute<double>(image, text, image_reference, text_reference, with_grad);
    if (with_grad) context->save_for_backward({known.image, known.text});
    return known.loss;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    check(!at::GradMode::is_enabled(), "the fused geometry loss has no second derivative; use its plain form");
    const auto saved = context->get_saved_variables();
    return {saved[0] * grads[0], saved[1] * grads[0], torch::Tensor(), torch::Tensor(), torch::Tensor()};
  }
};

}  // namespace

torch::Tensor geometry_loss_fused(const torch::Tensor& image, const torch::Tensor& text,
                                  const torch::Tensor& image_reference, const torch::Tensor& text_reference) {
  const bool with_grad = at::GradMode::is_enabled() && (image.requires_grad() || text.requires_grad());
  return GeometryFunction::apply(image, text, image_reference.detach(), text_reference.detach(), with_grad);
}

}  // namespace asr
