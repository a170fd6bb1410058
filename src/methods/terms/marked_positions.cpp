#include "methods/terms/marked_positions.h"

#include <algorithm>

#include "base/error.h"

namespace asr {
namespace {

constexpr int64_t kBlockNumbers = int64_t(1) << 22;  // of B A at a time

torch::Tensor bit_values(at::Device device) {
  return torch::tensor({1, 2, 4, 8, 16, 32, 64, 128}, at::kByte).to(device);
}

}  // namespace

torch::Tensor largest_positions(const torch::Tensor& b, const torch::Tensor& a, int64_t count) {
  at::NoGradGuard no_grad;
  const auto size = b.to(at::kFloat).mm(a.to(at::kFloat)).abs().flatten();
  check(count > 0 && count <= size.numel(), "there are no ", count, " positions in a matrix of ", size.numel());
  return std::get<0>(std::get<1>(size.topk(count, 0, true, false)).sort()).cpu();
}

torch::Tensor packed_bits(const torch::Tensor& positions, int64_t rows, int64_t columns) {
  const int64_t bytes = (columns + 7) / 8;
  auto bits = torch::zeros({rows, bytes * 8}, at::kByte);
  const auto row = at::div(positions, columns, "floor");
  bits.flatten().index_fill_(0, row * (bytes * 8) + (positions - row * columns), 1);
  return (bits.view({rows, bytes, 8}) * bit_values(at::kCPU)).sum(2).to(at::kByte);
}

torch::Tensor unpacked_bits(const torch::Tensor& packed, int64_t columns) {
  const auto each = at::bitwise_and(packed.unsqueeze(2), bit_values(packed.device())).ne(0);  // [rows, bytes, 8]
  return each.flatten(1).narrow(1, 0, columns);
}

int64_t count_bits(const torch::Tensor& packed) {
  return at::bitwise_and(packed.unsqueeze(2), bit_values(packed.device())).ne(0).sum().item<int64_t>();
}

torch::Tensor PositionCounts::rows(int64_t begin, int64_t count, int64_t columns) const {
  if (counts.defined()) return counts.narrow(0, begin, count).to(at::kFloat);
  return unpacked_bits(bits.narrow(0, begin, count), columns).to(at::kFloat);
}

torch::Tensor marked_mean(const torch::Tensor& b, const torch::Tensor& a, const PositionCounts& marked) {
  const int64_t rows = b.size(0), columns = a.size(1);
  const int64_t block = std::max<int64_t>(1, kBlockNumbers / columns);
  torch::Tensor sum = torch::zeros({}, b.options().dtype(at::kDouble).requires_grad(false)), to_a, to_b;
  {
    at::NoGradGuard no_grad;
    to_a = torch::zeros_like(a);
    to_b = torch::zeros_like(b);
    for (int64_t begin = 0; begin < rows; begin += block) {
      const int64_t count = std::min(block, rows - begin);
      const auto part = b.narrow(0, begin, count);
      const auto product = part.mm(a);
      const auto weight = marked.rows(begin, count, columns);
      sum += (product.abs() * weight).sum(at::kDouble);
      const auto slope = product.sign() * weight;
      to_a += part.t().mm(slope);
      to_b.narrow(0, begin, count).copy_(slope.mm(a.t()));
    }
  }
  // The value is the mean's; what depends on A and B is zero there and has its gradient.
  const auto tangent = (to_a * (a - a.detach())).sum() + (to_b * (b - b.detach())).sum();
  return (sum.to(at::kFloat) + tangent) / marked.total;
}

}  // namespace asr
