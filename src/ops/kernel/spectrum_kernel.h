// The fused CPU spectrum of attention maps: raw pointers in, raw pointers out, no torch, one thread.
// Compiled once per instruction set (cmake/kernels.cmake) and chosen at run time.
//
// The 2D transform of a real map is two small real matrix products. Along H, of length N, the rows
// are folded into even sums e[n] = x[n] + x[N-n] and odd differences o[n] = x[n] - x[N-n]; cosines act on the
// former, sines on the latter. With CC, CS, SC, SS (cosine or sine along H, then along W) the power is
//   P(u, v) = (CC - SS)^2 + (SC + CS)^2      P(-u, v) = (CC + SS)^2 + (CS - SC)^2,
// so each conjugate pair is evaluated once. Kept as rows u = 0..H/2, then rows -u for those that have a
// sine: [even_h + odd_h][pad], the "half plane".
#pragma once

#include <cstddef>
#include <cstdint>

namespace asr::kernel {

template <class Real>
struct KernelInt;
template <>
struct KernelInt<float> {
  using type = int32_t;
  static constexpr type none = INT32_MAX;
};
template <>
struct KernelInt<double> {
  using type = int64_t;
  static constexpr type none = INT64_MAX;
};

template <class Real>
struct Tables {
  int height, width;  // H, W
  int even_h, odd_h;  // cosines 0..H/2, sines 1..(H-1)/2
  int even_w, odd_w;
  int pad;                   // even_w rounded up to whole vectors
  int row;                   // W rounded up to whole vectors
  int radial, angular;       // K, M
  int half;                  // entries of the half plane, H * pad
  const Real* cos_h;         // [even_h][even_h], symmetric
  const Real* sin_h;         // [odd_h][odd_h], symmetric
  const Real* basis_w;       // [W][2 * pad]: cosines, then sines at pad + v
  const Real* basis_w_back;  // [2 * pad][row], its transpose
  const Real* bins;          // [K + M][half]: weight of an entry in a bin, both conjugates together
  const Real* copies;        // [half]: how many frequencies an entry stands for: 0, 1 or 2
  const Real* may_peak;      // [half]: 1 where an entry may be the peak
  const typename KernelInt<Real>::type*
      first;                  // [half]: first row-major index of the pair; the largest integer where none
  const int32_t* half_index;  // [H*W]: half-plane entry of a frequency
  const Real* radius;         // [H*W]
  const Real* angle;          // [H*W]
  Real power_scale;           // 1/(H W) for the unitary transform
  Real eps;
  bool eps_add, token_norm, peak_fraction;
};

template <class Real>
constexpr int head_size(const Tables<Real>& t) {  // D0
  return t.radial + 2 * t.angular + 3;
}

// Values kept per head beside its D0 descriptor entries, so that the backward pass need not sum again:
// denominators of the radial, angular and total power.
constexpr int kKept = 3;

// One layer-head of one sample: T maps of H*W contiguous numbers each, `token_stride` apart.
template <class Real>
struct HeadInput {
  const Real* attention;
  ptrdiff_t token_stride;
  const Real* weights;  // [T], sums to 1; tokens of weight 0 are never read
  int tokens;
  const Real* next;  // the maps this thread takes next, fetched into the cache meanwhile; or null
  bool stream;       // write the gradient past the caches
};

template <class Real>
struct HeadOutput {
  Real* head;     // [D0 + kKept]
  int64_t* peak;  // [1]
  Real* map;      // [H*W] or null
  Real* power;    // [H*W] or null
};

// dL/dhead is pull + slope * (head - mean), of D0 entries: those of the mean and the second moment over a sample's
// heads.
template <class Real>
struct HeadGradient {
  const Real* head;  // as forward left it
  int64_t peak;
  const Real *pull, *slope, *mean;  // [D0], the same for all heads of a sample
  Real* grad;                       // gets T maps, H*W apart, all written
};

// Numbers of working memory a call: what forward leaves for backward, and what each of them needs besides.
struct Sizes {
  size_t kept, scratch;
};

// The heads of one call, which have equally many tokens, and its working memory.
template <class Real>
struct HeadGroup {
  const HeadInput<Real>* input;  // [heads]
  int heads;
  Real *kept, *scratch;
};

// Two forms: one head a call with vectors along its map, for which Tables are padded to whole vectors of `lanes`
// numbers; or a vector of heads a call ("packed"), which has neither padding nor sums across a vector: for small maps.
template <class Real>
struct Functions {
  const char* name;
  int lanes, heads;  // at most `heads` a call
  Sizes (*sizes)(const Tables<Real>&, int tokens);
  void (*forward)(const Tables<Real>&, const HeadGroup<Real>&, const HeadOutput<Real>*);
  // `filled`: `kept` is as forward left it for these heads; it is used up. Otherwise it is computed again.
  void (*backward)(const Tables<Real>&, const HeadGroup<Real>&, const HeadGradient<Real>*, bool filled);
};

#define ASR_DECLARE_KERNEL(name)          \
  namespace name {                        \
  template <class Real>                   \
  Functions<Real> functions(bool packed); \
  }
ASR_DECLARE_KERNEL(portable)
ASR_DECLARE_KERNEL(avx2)
#undef ASR_DECLARE_KERNEL

}  // namespace asr::kernel
