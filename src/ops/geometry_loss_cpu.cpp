// The geometry loss as one autograd function, for the same reason as spectral_loss_cpu.cpp: its matrices are small,
// and thirty operators with their gradients cost more than the arithmetic. The gradient is formed in the forward pass.
#include <cmath>

#include "ops/geometry_loss.h"
#include "tensor/record.h"

namespace asr {
namespace {

constexpr int64_t kSmall = 1 << 16;  // multiplications below which calling the library takes longer than they do

template <class Real>
Real dot(const Real* x, const Real* y, int64_t n) {
  constexpr int64_t lanes = 8;  // sums that do not wait for one another
  Real part[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int64_t l = 0; l < lanes; ++l) part[l] += x[i + l] * y[i + l];
  Real sum = 0;
  for (; i < n; ++i) sum += x[i] * y[i];
  for (int64_t l = 0; l < lanes; ++l) sum += part[l];
  return sum;
}

// Rows x [B, E], and what brings each to length 1.
template <class Real>
struct UnitRows {
  torch::Tensor x;
  std::vector<Real> inverse;

  explicit UnitRows(const torch::Tensor& from) : x(from.contiguous()) {
    for (int64_t b = 0; b < x.size(0); ++b) inverse.push_back(1 / std::sqrt(dot(row(b), row(b), x.size(1))));
  }
  const Real* row(int64_t b) const { return x.data_ptr<Real>() + b * x.size(1); }
};

// Cosines of all pairs, B * B of them.
template <class Real>
std::vector<Real> cosines(const UnitRows<Real>& a, const UnitRows<Real>& b) {
  const int64_t B = a.x.size(0), E = a.x.size(1);
  std::vector<Real> out(B * B);
  const bool small = B * B * E <= kSmall;
  if (!small) {
    auto whole = torch::from_blob(out.data(), {B, B}, a.x.options().requires_grad(false));
    at::mm_out(whole, a.x, b.x.t());
  }
  Real* to = out.data();
  const Real *x = a.row(0), *y = b.row(0);
  for (int64_t i = 0; i < B; ++i)
    for (int64_t j = 0; j < B; ++j) {
      *to = (small ? dot(x + i * E, y + j * E, E) : *to) * a.inverse[i] * b.inverse[j];
      ++to;
    }
  return out;
}

// dL/da from dL/dcosine of a's row i with b's row j, at grad[i * down + j * right]. Only what is at right angles to a
// row of a moves a cosine.
template <class Real>
torch::Tensor pull_rows(const UnitRows<Real>& a, const UnitRows<Real>& b, const Real* grad, int64_t down,
                        int64_t right) {
  const int64_t B = a.x.size(0), E = a.x.size(1);
  // b's rows at length 1, weighted: the weights take the lengths.
  std::vector<Real> w(B * B);
  const Real *x = a.row(0), *y = b.row(0);
  for (int64_t i = 0; i < B; ++i)
    for (int64_t j = 0; j < B; ++j) w[i * B + j] = grad[i * down + j * right] * b.inverse[j];
  const auto options = a.x.options().requires_grad(false);
  auto out = torch::empty({B, E}, options);
  Real* to = out.template data_ptr<Real>();
  if (B * B * E <= kSmall) {
    std::fill(to, to + B * E, Real(0));
    for (int64_t i = 0; i < B; ++i)
      for (int64_t j = 0; j < B; ++j)
        for (int64_t e = 0; e < E; ++e) to[i * E + e] += w[i * B + j] * y[j * E + e];
  } else {
    at::mm_out(out, torch::from_blob(w.data(), {B, B}, options), b.x);
  }
  for (int64_t i = 0; i < B; ++i) {
    const Real inverse = a.inverse[i], along = dot<Real>(to, x, E) * inverse * inverse;
    for (int64_t e = 0; e < E; ++e) to[e] = (to[e] - along * x[e]) * inverse;
    to += E;
    x += E;
  }
  return out;
}

template <class Real>
void log_softmax_row(Real* row, int64_t n) {
  Real top = row[0], sum = 0;
  for (int64_t j = 1; j < n; ++j) top = std::max(top, row[j]);
  for (int64_t j = 0; j < n; ++j) sum += std::exp(row[j] - top);
  const Real shift = top + std::log(sum);
  for (int64_t j = 0; j < n; ++j) row[j] -= shift;
}

struct LossWithGrads {
  torch::Tensor loss, image, text;  // and the gradients
};

// s [B, B] holds similarities and gets dL/ds, where wanted; t those of the reference.
template <class Real>
double divergence(Real* s, Real* t, int64_t B, bool with_grad) {
  Real total = 0;
  std::vector<Real> p(B), c(B);
  for (int64_t b = 0; b < B; ++b) {
    log_softmax_row(s, B);
    log_softmax_row(t, B);
    Real sum = 0, row = 0;
    for (int64_t j = 0; j < B; ++j) {
      p[j] = std::exp(s[j]);
      const Real difference = s[j] - t[j], gap = p[j] - std::exp(t[j]);
      row += gap * difference;
      c[j] = p[j] * difference + gap;
      sum += c[j];
    }
    total += row;
    if (with_grad)
      for (int64_t j = 0; j < B; ++j) s[j] = (c[j] - p[j] * sum) / (2 * static_cast<Real>(B));
    s += B;
    t += B;
  }
  return static_cast<double>(total) / (2 * static_cast<double>(B));
}

template <class Real>
LossWithGrads geometry_as(const torch::Tensor& image, const torch::Tensor& text, const torch::Tensor& image_reference,
                          const torch::Tensor& text_reference, bool with_grad) {
  const UnitRows<Real> i(image), q(text), i0(image_reference), q0(text_reference);
  auto s = cosines(i, q), t = cosines(i0, q0);
  const int64_t B = image.size(0);
  LossWithGrads out;
  out.loss = torch::empty({}, image.options().requires_grad(false));
  *out.loss.template data_ptr<Real>() = static_cast<Real>(divergence(s.data(), t.data(), B, with_grad));
  if (!with_grad) return out;
  out.image = pull_rows(i, q, s.data(), B, 1);
  out.text = pull_rows(q, i, s.data(), 1, B);
  return out;
}

}  // namespace

torch::Tensor geometry_loss_cpu(const torch::Tensor& image, const torch::Tensor& text,
                                const torch::Tensor& image_reference, const torch::Tensor& text_reference) {
  const bool with_grad = needs_gradient({image, text});
  LossWithGrads known;
  {
    at::NoGradGuard no_grad;
    known = image.scalar_type() == at::kFloat
                ? geometry_as<float>(image, text, image_reference, text_reference, with_grad)
                : geometry_as<double>(image, text, image_reference, text_reference, with_grad);
  }
  if (!with_grad) return known.loss;
  return with_gradients("the fused geometry loss", known.loss, {image, text}, {known.image, known.text});
}

}  // namespace asr
