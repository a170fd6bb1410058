#include "methods/terms/subspace.h"

#include <algorithm>

namespace asr {
namespace {

struct Directions {
  torch::Tensor vectors;  // [in, in] rows, leading first; on the matrix' device
  torch::Tensor energy;   // [in], not below 0; on the CPU
};

torch::Tensor in_double(const torch::Tensor& matrix) {
  return matrix.detach().to(at::kDouble);
}

// Eigenvectors of M^T M: the right singular vectors of M, without those of its other side. On M's device, since the
// work grows with the cube of its inputs.
Directions directions_of(const torch::Tensor& matrix) {
  const auto m = in_double(matrix);
  const auto [values, vectors] = at::linalg_eigh(m.t().mm(m));
  auto rows = vectors.t().flip(0).contiguous();
  // The largest entry of each is positive, so that the same matrix gives the same vectors.
  const auto largest = rows.gather(1, rows.abs().argmax(1, true));
  rows = rows * at::where(largest.lt(0), at::full_like(largest, -1), at::ones_like(largest));
  return {rows, values.flip(0).clamp_min(0).cpu()};
}

// How many of the leading energies are needed until their sum reaches `wanted`.
int64_t count_to(const torch::Tensor& energy, double wanted) {
  double sum = 0;
  int64_t count = 0;
  for (; count < energy.size(0) && sum < wanted; ++count) sum += energy[count].item<double>();
  return count;
}

}  // namespace

torch::Tensor leading_inputs(const torch::Tensor& weight, double energy) {
  const auto all = directions_of(weight);
  const auto sums = all.energy.cumsum(0) / all.energy.sum().clamp_min(1e-300);
  const auto count = sums.lt(energy).sum().item<int64_t>();
  return all.vectors.narrow(0, 0, count).to(at::kFloat).cpu().clone();
}

torch::Tensor without(const torch::Tensor& matrix, const torch::Tensor& basis) {
  const auto m = in_double(matrix), b = basis.to(m.device(), at::kDouble);
  return m - m.mm(b.t()).mm(b);
}

torch::Tensor principal_inputs(const torch::Tensor& matrix, int64_t count, double least) {
  const auto all = directions_of(matrix);
  const auto real = all.energy.narrow(0, 0, count).gt(least).unsqueeze(1);
  return (all.vectors.narrow(0, 0, count) * real.to(all.vectors.device(), at::kDouble)).to(at::kFloat);
}

torch::Tensor extended(const torch::Tensor& basis, const torch::Tensor& gradient, double energy) {
  const auto g = in_double(gradient);
  const auto rest = without(g, basis);
  const double whole = g.square().sum().item<double>(), left = rest.square().sum().item<double>();
  const double wanted = energy * whole - (whole - left);
  const int64_t room = g.size(1) - basis.size(0);
  if (wanted <= 0 || room <= 0) return basis;
  const auto all = directions_of(rest);
  const auto count = std::min(room, count_to(all.energy, wanted));
  auto joined = at::cat({basis.to(g.device(), at::kDouble), all.vectors.narrow(0, 0, count)});
  // Rounding must not pile up over the stages.
  return std::get<0>(at::linalg_qr(joined.t())).t().to(at::kFloat).cpu().contiguous();
}

}  // namespace asr
