// See the header. No standard-library templates here, for the reason given in spectrum_kernel.cpp.
#include "ops/kernel/loss_kernel.h"

#include "ops/kernel/simd.h"

namespace asr::kernel::ASR_KERNEL {
namespace {

inline float logarithm(float x) {
  return __builtin_logf(x);
}
inline double logarithm(double x) {
  return __builtin_log(x);
}
inline float exponential(float x) {
  return __builtin_expf(x);
}
inline double exponential(double x) {
  return __builtin_exp(x);
}

template <class Real>
struct Workspace {
  Real *p, *log_p, *inverse;  // [M]: the sample's angular distribution, floored, and 1/p
  Real *raw, *pull;           // [M]: before the floor; dL/dp
  Real* slope;                // [n][D]: half the gradients of the distances
  Real* factor;               // [n]
  const Real** rows;          // [n]: of `slope`
  Real denominator, floored_sum;
  bool moves;  // the denominator with the spectrum's sum
};

template <class Real>
Workspace<Real> lay_out(const LossTarget<Real>& t, Real* base, size_t* size) {
  Workspace<Real> w;
  Room<Real> room{base};
  room.take(w.p, t.bins);
  room.take(w.log_p, t.bins);
  room.take(w.inverse, t.bins);
  room.take(w.raw, t.bins);
  room.take(w.pull, t.bins);
  room.take(w.slope, t.prototypes * t.size);
  room.take(w.factor, t.prototypes);
  room.take(w.rows, t.prototypes);
  *size = room.used;
  return w;
}

template <class Real>
size_t scratch(const LossTarget<Real>& t) {
  size_t size;
  lay_out<Real>(t, nullptr, &size);
  return size;
}

template <class Real>
void read_angular(const LossTarget<Real>& t, const Real* spectrum, Workspace<Real>& w) {
  const Real total = sum(spectrum, t.bins);  // comparisons as written leave NaN what it is
  w.denominator = t.eps_add ? total + t.eps : total < t.eps ? t.eps : total;
  w.moves = t.eps_add || total >= t.eps;
  for (int m = 0; m < t.bins; ++m) {
    w.raw[m] = spectrum[m] / w.denominator;
    w.p[m] = w.raw[m] < t.floor ? t.floor : w.raw[m];
  }
  w.floored_sum = sum(w.p, t.bins);
  for (int m = 0; m < t.bins; ++m) {
    w.p[m] /= w.floored_sum;
    w.inverse[m] = 1 / w.p[m];
    w.log_p[m] = logarithm(w.p[m]);
  }
}

// Keeps half its gradient.
template <class Real>
Real squared_distance(const Real* x, const Real* mean, const Real* precision, int n, Real* slope) {
  constexpr int lanes = Simd<Real>::lanes;
  Vec<Real> a{};
  int i = 0;
  for (; i + lanes <= n; i += lanes) {
    const Vec<Real> apart = load(x + i) - load(mean + i), pull = apart * load(precision + i);
    at(slope + i) = pull;
    a += apart * pull;
  }
  Real out = total<Real>(a);
  for (; i < n; ++i) {
    const Real apart = x[i] - mean[i];
    slope[i] = apart * precision[i];
    out += apart * slope[i];
  }
  return out;
}

template <class Real>
Real divergence(const Real* p, const Real* log_p, const Real* q, const Real* log_q, int n) {
  constexpr int lanes = Simd<Real>::lanes;
  Vec<Real> a{};
  int i = 0;
  for (; i + lanes <= n; i += lanes) a += (load(p + i) - load(q + i)) * (load(log_p + i) - load(log_q + i));
  Real out = total<Real>(a);
  for (; i < n; ++i) out += (p[i] - q[i]) * (log_p[i] - log_q[i]);
  return out;
}

// Adds dL/dspectrum of the divergences, each by its factor.
template <class Real>
void pull_angular(const LossTarget<Real>& t, Workspace<Real>& w, Real* grad) {
  const int M = t.bins;
  clear(w.pull, M);
  for (int s = 0; s < t.prototypes; ++s) {
    const Real *q = t.angular + s * M, *log_q = t.log_angular + s * M;
    for (int m = 0; m < M; ++m) w.pull[m] += w.factor[s] * (w.log_p[m] - log_q[m] + (w.p[m] - q[m]) * w.inverse[m]);
  }
  const Real along = dot(w.pull, w.p, M);
  for (int m = 0; m < M; ++m) w.pull[m] = w.raw[m] >= t.floor ? (w.pull[m] - along) / w.floored_sum : Real(0);
  const Real along_raw = w.moves ? dot(w.pull, w.raw, M) : Real(0);
  for (int m = 0; m < M; ++m) grad[m] += (w.pull[m] - along_raw) / w.denominator;
}

template <class Real>
void sample(const LossTarget<Real>& t, const LossInput<Real>& in, const LossOutput<Real>& out, Real* base) {
  const int n = t.prototypes, D = t.size, M = t.bins;
  const Real *descriptor = in.descriptor, *share = in.share;
  size_t size;
  Workspace<Real> w = lay_out(t, base, &size);
  read_angular(t, descriptor + t.angular_begin, w);
  Real all = 0;
  int nearest = 0;
  for (int s = 0; s < n; ++s) {
    Real* slope = w.slope + s * D;
    w.rows[s] = slope;
    out.distance[s] = squared_distance(descriptor, t.mean + s * D, t.precision + s * D, D, slope);
    out.divergence[s] = t.kl_factor * divergence(w.p, w.log_p, t.angular + s * M, t.log_angular + s * M, M);
    all += share[s] * (out.distance[s] + t.lambda * out.divergence[s]);
    if (out.distance[s] < out.distance[nearest]) nearest = s;
  }
  *out.weight = t.adaptive ? exponential(-out.distance[nearest] / t.tau) : t.fixed_weight;
  *out.loss = *out.weight * all;
  if (!out.grad) return;
  const Real scale = *out.weight / static_cast<Real>(in.batch);
  for (int s = 0; s < n; ++s) w.factor[s] = 2 * scale * share[s];
  if (t.confidence_moves) w.factor[nearest] -= 2 * scale * all / t.tau;
  combine_rows(out.grad, w.factor, w.rows, n, D);
  if (t.lambda == 0) return;
  for (int s = 0; s < n; ++s) w.factor[s] = scale * t.lambda * t.kl_factor * share[s];
  pull_angular(t, w, out.grad + t.angular_begin);
}

}  // namespace

template <class Real>
LossFunctions<Real> loss_functions() {
  return {scratch<Real>, sample<Real>};
}
template LossFunctions<float> loss_functions<float>();
template LossFunctions<double> loss_functions<double>();

}  // namespace asr::kernel::ASR_KERNEL
