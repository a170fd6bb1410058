#include "ops/descriptor_tables.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/cpu_kernel.h"

namespace asr {
namespace {

// Its widest build is AVX2: 64-byte vectors were no faster.
template <class Real>
kernel::Functions<Real> choose_kernel(bool packed) {
#ifdef ASR_HAVE_KERNEL_avx2
  if (cpu_kernel() >= CpuKernel::avx2) return kernel::avx2::functions<Real>(packed);
#endif
  return kernel::portable::functions<Real>(packed);
}

constexpr int64_t kPackedCells = 144;  // maps up to this size are faster side by side (`asr bench spectrum`)

constexpr double kTwoPi = 6.28318530717958647692;

// Reduced modulo N first: cos of a large multiple would lose digits.
double cosine(int64_t product, int64_t n) {
  return std::cos(kTwoPi * static_cast<double>(product % n) / static_cast<double>(n));
}
double sine(int64_t product, int64_t n) {
  return std::sin(kTwoPi * static_cast<double>(product % n) / static_cast<double>(n));
}

}  // namespace

template <class Real>
PlanTables<Real>::PlanTables(const DescriptorForm& o)
    : functions(choose_kernel<Real>(o.height * o.width <= kPackedCells)) {
  const int lanes = functions.lanes;
  kernel::Tables<Real>& t = view;
  t.height = static_cast<int>(o.height);
  t.width = static_cast<int>(o.width);
  t.even_h = t.height / 2 + 1;
  t.odd_h = t.height - t.even_h;
  t.even_w = t.width / 2 + 1;
  t.odd_w = t.width - t.even_w;
  t.pad = (t.even_w + lanes - 1) / lanes * lanes;
  t.row = (t.width + lanes - 1) / lanes * lanes;
  t.radial = static_cast<int>(o.radial_bins);
  t.angular = static_cast<int>(o.angular_bins);
  t.half = t.height * t.pad;
  t.power_scale = o.unitary ? Real(1) / static_cast<Real>(o.height * o.width) : Real(1);
  t.eps = static_cast<Real>(o.eps);
  t.eps_add = o.eps_add;
  t.token_norm = o.token_norm;
  t.peak_fraction = o.peak_fraction;
  fill_bases();
  fill_half_plane(o);
  t.cos_h = cos_h.data();
  t.sin_h = sin_h.data();
  t.basis_w = basis_w.data();
  t.basis_w_back = basis_w_back.data();
  t.bins = bins.data();
  t.copies = copies.data();
  t.may_peak = may_peak.data();
  t.first = first.data();
  t.half_index = half_index.data();
  t.radius = radius.data();
  t.angle = angle.data();
}

template <class Real>
void PlanTables<Real>::fill_bases() {
  const kernel::Tables<Real>& t = view;
  for (int u = 0; u < t.even_h; ++u)
    for (int n = 0; n < t.even_h; ++n) cos_h.push_back(static_cast<Real>(cosine(int64_t(u) * n, t.height)));
  for (int u = 1; u <= t.odd_h; ++u)
    for (int n = 1; n <= t.odd_h; ++n) sin_h.push_back(static_cast<Real>(sine(int64_t(u) * n, t.height)));
  basis_w.assign(size_t(t.width) * 2 * t.pad, 0);
  basis_w_back.assign(size_t(2) * t.pad * t.row, 0);
  const auto put = [&](int y, int column, double value) {
    basis_w[size_t(y) * 2 * t.pad + column] = basis_w_back[size_t(column) * t.row + y] = static_cast<Real>(value);
  };
  for (int y = 0; y < t.width; ++y) {
    for (int v = 0; v < t.even_w; ++v) put(y, v, cosine(int64_t(v) * y, t.width));
    for (int v = 1; v <= t.odd_w; ++v) put(y, t.pad + v, sine(int64_t(v) * y, t.width));
  }
}

template <class Real>
void PlanTables<Real>::fill_half_plane(const DescriptorForm& o) {
  const kernel::Tables<Real>& t = view;
  using Index = typename kernel::KernelInt<Real>::type;
  const int64_t H = o.height, W = o.width;
  bins.assign(size_t(t.radial + t.angular) * t.half, 0);
  copies.assign(t.half, 0);
  may_peak.assign(t.half, 0);
  first.assign(t.half, std::numeric_limits<Index>::max());
  half_index.assign(H * W, 0);
  for (double value : o.radius) radius.push_back(static_cast<Real>(value));
  for (double value : o.angle) angle.push_back(static_cast<Real>(value));
  for (int64_t u = 0; u < H; ++u)
    for (int64_t v = 0; v < W; ++v) {
      // Bring v to 0..W/2 by conjugation, then u to 0..H/2 by the sign of u; columns that are their own
      // mirror image (v = 0, Nyquist) take either sign of u from the plus o.
      const bool flip = v >= t.even_w;
      const int64_t cu = flip ? (H - u) % H : u, cv = flip ? W - v : v;
      const bool negative = cu >= t.even_h;
      const int64_t au = negative ? H - cu : cu;
      const bool own_mirror = cv == (W - cv) % W;
      const int64_t entry = (negative && !own_mirror ? int64_t(t.even_h + au - 1) : au) * t.pad + cv;
      const int64_t i = u * W + v;
      half_index[i] = static_cast<int32_t>(entry);
      copies[entry] += 1;
      bins[o.radial_bin[i] * t.half + entry] += static_cast<Real>(o.radial_weight[i]);
      bins[(t.radial + o.angular_bin[i]) * t.half + entry] += static_cast<Real>(o.angular_weight[i]);
      if (i == 0 && !o.peak_at_dc) continue;
      may_peak[entry] = 1;
      first[entry] = std::min<Index>(first[entry], static_cast<Index>(i));
    }
}

template struct PlanTables<float>;
template struct PlanTables<double>;

std::shared_ptr<const DescriptorTables> make_descriptor_tables(const DescriptorForm& form) {
  return std::make_shared<DescriptorTables>(form);
}

const char* fused_kernel_name() {
  return choose_kernel<float>(false).name;
}

}  // namespace asr
