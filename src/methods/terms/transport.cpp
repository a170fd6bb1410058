#include "methods/terms/transport.h"

#include <cmath>

#include "base/error.h"

namespace asr {

torch::Tensor transport_cost(const torch::Tensor& cost, const SinkhornOptions& options) {
  check(cost.dim() == 2 && cost.numel() > 0, "transport needs a table of costs; it has sizes ", cost.sizes());
  const double eps = options.epsilon;
  const double rows = -std::log(static_cast<double>(cost.size(0)));
  const double columns = -std::log(static_cast<double>(cost.size(1)));
  auto u = at::zeros({cost.size(0), 1}, cost.options());
  auto v = at::zeros({1, cost.size(1)}, cost.options());
  for (int64_t i = 0; i < options.iterations; ++i) {
    const auto before = u;
    u = eps * (rows - at::logsumexp((v - cost) / eps, 1, true));
    v = eps * (columns - at::logsumexp((u - cost) / eps, 0, true));
    if ((u - before).abs().sum().item<double>() < options.stop) break;
  }
  return (((u + v - cost) / eps).exp() * cost).sum();
}

}  // namespace asr
