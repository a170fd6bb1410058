// What the descriptor's CPU kernel reads beside the attention: bases of the transform and the half plane with its bins,
// in both types of numbers.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "ops/descriptor.h"
#include "ops/kernel/spectrum_kernel.h"

namespace asr {

// Owns what Tables points to.
template <class Real>
struct PlanTables {
  std::vector<Real> cos_h, sin_h, basis_w, basis_w_back, bins, copies, may_peak, radius, angle;
  std::vector<typename kernel::KernelInt<Real>::type> first;
  std::vector<int32_t> half_index;
  kernel::Tables<Real> view{};
  kernel::Functions<Real> functions;

  explicit PlanTables(const DescriptorForm& o);

 private:
  void fill_bases();
  void fill_half_plane(const DescriptorForm& o);
};

struct DescriptorTables {
  explicit DescriptorTables(const DescriptorForm& form)
      : head_dim(form.head_dim()), deviation(form.deviation), single(form), full(form) {}
  int64_t head_dim;  // D0
  bool deviation;
  PlanTables<float> single;
  PlanTables<double> full;

  template <class Real>
  const PlanTables<Real>& tables() const {
    if constexpr (std::is_same_v<Real, float>)
      return single;
    else
      return full;
  }
};

}  // namespace asr
