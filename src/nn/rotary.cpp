// Rotary positions: the table once a forward pass, the turn as one node of the graph whose backward is the turn back.
#include <ATen/Parallel.h>

#include <cmath>

#include "nn/attention.h"
#include "nn/layer_kernels.h"
#include "tensor/record.h"

namespace asr {
namespace {

torch::Tensor turn(const torch::Tensor& x, const torch::Tensor& cosine, const torch::Tensor& sine, float direction) {
  const auto from = x.stride(3) == 1 ? x : x.contiguous();
  const int64_t batch = x.size(0), heads = x.size(1), tokens = x.size(2), width = x.size(3);
  const auto out = torch::empty({batch, tokens, heads, width}, x.options().requires_grad(false));
  const int64_t step = cosine.size(0) == 1 ? 0 : cosine.stride(0);
  const float *c = cosine.data_ptr<float>(), *s = sine.data_ptr<float>(), *start = from.data_ptr<float>();
  float* to = out.data_ptr<float>();
  at::parallel_for(0, batch * tokens, rows_per_task(heads * width), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t b = i / tokens, t = i % tokens, angle = b * step + t * (width / 2);
      layer_kernels().row.rotate(start + b * from.stride(0) + t * from.stride(2), from.stride(1),
                                 static_cast<int>(heads), static_cast<int>(width), c + angle, s + angle, direction,
                                 to + i * heads * width);
    }
  });
  return out.transpose(1, 2);
}

torch::Tensor fused_rotate(const torch::Tensor& x, const RotaryTable& table) {
  const bool with_grad = needs_gradient({x});
  at::NoGradGuard no_grad;
  const auto out = turn(x, table.cosine, table.sine, 1);
  if (with_grad)
    record("fused rotation", {x}, {out},
           [cosine = table.cosine, sine = table.sine](const std::vector<torch::Tensor>& grads) {
             return std::vector<torch::Tensor>{turn(grads[0], cosine, sine, -1)};
           });
  return out;
}

}  // namespace

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
  return rotary_table((angle.cos() * scale).to(type), (angle.sin() * scale).to(type), positions.is_cuda());
}

RotaryTable rotary_table(const torch::Tensor& cosine, const torch::Tensor& sine, bool wide) {
  RotaryTable out{cosine.contiguous(), sine.contiguous(), {}, {}};
  if (!wide) return out;
  out.wide_cosine = at::cat({cosine, cosine}, -1).unsqueeze(1);
  out.signed_sine = at::cat({-sine, sine}, -1).unsqueeze(1);
  return out;
}

torch::Tensor rotate(const torch::Tensor& x, const RotaryTable& table) {
  if (has_kernel(x) && has_kernel(table.cosine)) return fused_rotate(x, table);
  if (table.wide_cosine.defined()) return rotate_wide(x, table);
  return rotate_reference(x, table);
}

torch::Tensor rotate_reference(const torch::Tensor& x, const RotaryTable& table) {
  const int64_t half = x.size(3) / 2;
  const auto cosine = table.cosine.unsqueeze(1), sine = table.sine.unsqueeze(1);
  const auto a = x.narrow(3, 0, half), b = x.narrow(3, half, half);
  return at::cat({a * cosine - b * sine, b * cosine + a * sine}, 3);
}

torch::Tensor rotate_wide(const torch::Tensor& x, const RotaryTable& table) {
  const auto swapped = x.view({x.size(0), x.size(1), x.size(2), 2, -1}).flip(3).flatten(3);
  return at::addcmul(x * table.wide_cosine, swapped, table.signed_sine);
}

torch::Tensor rotate(const torch::Tensor& x, const torch::Tensor& positions, double theta) {
  return rotate(x, make_rotary(positions, x.size(3), theta, x.scalar_type()));
}

}  // namespace asr
