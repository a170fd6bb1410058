// The table of rotary positions, once a forward pass.
#include "base/error.h"
#include "nn/attention.h"

namespace asr {

RotaryTable make_rotary(const torch::Tensor& positions, int64_t head_dim, double theta, at::ScalarType type) {
  RotaryConfig config;
  config.theta = theta;
  return make_rotary(positions, head_dim, config, type);
}

RotaryTable make_rotary(const torch::Tensor& positions, int64_t head_dim, const RotaryConfig& config,
                        at::ScalarType type) {
  check(head_dim % 2 == 0, "rotary positions need an even head width; it is ", head_dim);
  const bool parts = positions.dim() == 3;
  check(parts == !config.sections.empty(), "three-part positions and their sections belong together");
  // Only the type `dynamic` depends on the length; asking for it would make the host wait for the device.
  const int64_t length = config.type == "dynamic" ? positions.max().item<int64_t>() + 1 : 0;
  const auto speed = torch::tensor(rotary_speeds(config, head_dim, length), at::kDouble).to(positions.device());
  // Positions expanded over the batch are one row; its angles are computed once. In double: late positions turn far.
  const int64_t batch = parts ? 1 : 0;
  const bool same = positions.size(batch) > 1 && positions.stride(batch) == 0;
  const auto rows = same ? positions.narrow(batch, 0, 1) : positions;
  auto angle = rows.to(at::kDouble).unsqueeze(-1) * speed;  // [(3,) B, T, d / 2]
  if (parts) {
    std::vector<torch::Tensor> turned;
    int64_t begin = 0;
    for (size_t s = 0; s < config.sections.size(); ++s) {
      turned.push_back(angle[static_cast<int64_t>(s)].narrow(-1, begin, config.sections[s]));
      begin += config.sections[s];
    }
    check(begin == head_dim / 2, "mrope_section adds up to ", begin, " pairs, but a head has ", head_dim / 2);
    angle = at::cat(turned, -1);
  }
  const double scale = config.attention_scale;
  return rotary_table((angle.cos() * scale).to(type), (angle.sin() * scale).to(type));
}

torch::Tensor rotate(const torch::Tensor& x, const torch::Tensor& positions, double theta) {
  return rotate(x, make_rotary(positions, x.size(3), theta, x.scalar_type()));
}

}  // namespace asr
