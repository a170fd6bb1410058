#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "ops/cuda_tensors.h"
#include "ops/descriptor.h"
#include "ops/descriptor_cuda.h"
#include "tensor/record.h"

namespace asr {

// The tables of a form as the kernels take them, on the device that asked first.
class DescriptorOnDevice {
 public:
  explicit DescriptorOnDevice(const DescriptorForm& form) {
    t_.height = static_cast<int>(form.height);
    t_.width = static_cast<int>(form.width);
    t_.columns = t_.width / 2 + 1;
    t_.radial = static_cast<int>(form.radial_bins);
    t_.angular = static_cast<int>(form.angular_bins);
    t_.power_scale = form.unitary ? 1.0f / static_cast<float>(form.height * form.width) : 1.0f;
    t_.eps = static_cast<float>(form.eps);
    t_.eps_add = form.eps_add;
    t_.token_norm = form.token_norm;
    t_.peak_fraction = form.peak_fraction;
    t_.deviation = form.deviation;
    fill(form);
  }

  int64_t head_dim() const { return t_.radial + 2 * t_.angular + 3; }
  bool fits(int64_t tokens) const {
    return tokens < (1 << 16) && cuda::spectrum_room(t_, static_cast<int>(tokens)) <= cuda::kLaunchRoom;
  }

  cuda::SpectrumTables on(at::Device device) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!there_.defined() || there_.device() != device) {
      there_ = numbers_.to(device);
      first_there_ = first_.to(device);
    }
    const int64_t half = int64_t(t_.height) * t_.columns, cells = int64_t(t_.height) * t_.width;
    auto out = t_;
    const float* at = there_.data_ptr<float>();
    const auto take = [&](int64_t count) {
      const float* list = at;
      at += count;
      return list;
    };
    out.cos_h = take(t_.height);
    out.sin_h = take(t_.height);
    out.cos_w = take(t_.width);
    out.sin_w = take(t_.width);
    out.bins = take((t_.radial + t_.angular) * half);
    out.copies = take(half);
    out.radius = take(cells);
    out.angle = take(cells);
    out.first = first_there_.data_ptr<int>();
    return out;
  }

 private:
  void fill(const DescriptorForm& form) {
    const int64_t H = form.height, W = form.width, columns = t_.columns, half = H * columns;
    std::vector<float> list;
    for (const int64_t n : {H, W}) {
      for (int64_t k = 0; k < n; ++k) list.push_back(static_cast<float>(std::cos(2 * M_PI * double(k) / double(n))));
      for (int64_t k = 0; k < n; ++k) list.push_back(static_cast<float>(std::sin(2 * M_PI * double(k) / double(n))));
    }
    std::vector<float> bins(static_cast<size_t>((form.radial_bins + form.angular_bins) * half), 0);
    std::vector<float> copies(static_cast<size_t>(half), 0);
    std::vector<int> first(static_cast<size_t>(half), std::numeric_limits<int>::max());
    for (int64_t u = 0; u < H; ++u)
      for (int64_t v = 0; v < W; ++v) {
        const auto i = static_cast<size_t>(u * W + v);
        const auto entry = static_cast<size_t>(half_plane_entry(u, v, H, W));
        copies[entry] += 1;
        bins[static_cast<size_t>(form.radial_bin[i] * half) + entry] += static_cast<float>(form.radial_weight[i]);
        bins[static_cast<size_t>((form.radial_bins + form.angular_bin[i]) * half) + entry] +=
            static_cast<float>(form.angular_weight[i]);
        if (i > 0 || form.peak_at_dc) first[entry] = std::min(first[entry], static_cast<int>(i));
      }
    list.insert(list.end(), bins.begin(), bins.end());
    list.insert(list.end(), copies.begin(), copies.end());
    for (const double value : form.radius) list.push_back(static_cast<float>(value));
    for (const double value : form.angle) list.push_back(static_cast<float>(value));
    numbers_ = torch::tensor(list, at::kFloat);
    first_ = torch::tensor(first, at::kInt);
  }

  cuda::SpectrumTables t_{};
  torch::Tensor numbers_, first_, there_, first_there_;
  std::mutex mutex_;
};

std::shared_ptr<DescriptorOnDevice> make_descriptor_on_device(const DescriptorForm& form) {
  return std::make_shared<DescriptorOnDevice>(form);
}

bool descriptor_fits_cuda(const DescriptorOnDevice& form, const torch::Tensor& attention) {
  return form.fits(attention.size(3));
}

namespace {

// What the gradient needs.
struct SpectrumOnDevice {
  torch::Tensor attention, weights, map, head, descriptor, kept;
  torch::Tensor handed_out;  // the descriptor once more, for a caller who may change it
  cuda::SpectrumShape shape;
};

SpectrumOnDevice spectrum_on_gpu(const torch::Tensor& attention, const torch::Tensor& weights, DescriptorOnDevice& form,
                                 bool with_grad) {
  const int64_t B = attention.size(0), J = attention.size(1) * attention.size(2), D0 = form.head_dim();
  const auto kind = attention.options().requires_grad(false);
  SpectrumOnDevice out;
  out.attention = attention.contiguous();
  out.weights = weights.to(kind).contiguous();
  out.map = torch::empty({B * J, attention.size(4) * attention.size(5)}, kind);
  out.head = torch::empty({B * J, D0}, kind);
  out.descriptor = torch::empty({B, 2 * D0}, kind);
  out.handed_out = with_grad ? torch::empty({B, 2 * D0}, kind) : out.descriptor;
  out.kept = torch::empty({B * J, static_cast<int64_t>(sizeof(cuda::MapStatistics) / sizeof(float))}, kind);
  out.shape = {static_cast<int>(B), static_cast<int>(J), static_cast<int>(attention.size(3))};
  cuda::SpectrumForward of{};
  of.attention = out.attention.data_ptr<float>();
  of.weights = out.weights.data_ptr<float>();
  of.map = out.map.data_ptr<float>();
  of.head = out.head.data_ptr<float>();
  of.descriptor = out.descriptor.data_ptr<float>();
  if (with_grad) of.copy = out.handed_out.data_ptr<float>();
  of.kept = reinterpret_cast<cuda::MapStatistics*>(out.kept.data_ptr<float>());
  cuda::spectrum_forward(form.on(attention.device()), out.shape, of, stream_of(attention));
  return out;
}

torch::Tensor pulled_attention(const SpectrumOnDevice& from, DescriptorOnDevice& form, const torch::Tensor& grad) {
  const auto pull = grad.to(at::kFloat).contiguous();
  const auto out = torch::empty(from.attention.sizes(), from.attention.options());
  cuda::SpectrumBackward of{};
  of.attention = from.attention.data_ptr<float>();
  of.weights = from.weights.data_ptr<float>();
  of.map = from.map.data_ptr<float>();
  of.head = from.head.data_ptr<float>();
  of.descriptor = from.descriptor.data_ptr<float>();
  of.grad = pull.data_ptr<float>();
  of.kept = reinterpret_cast<const cuda::MapStatistics*>(from.kept.data_ptr<float>());
  of.to = out.data_ptr<float>();
  cuda::spectrum_backward(form.on(out.device()), from.shape, of, stream_of(out));
  return out;
}

}  // namespace

torch::Tensor descriptor_cuda(const torch::Tensor& attention, const torch::Tensor& weights,
                              const std::shared_ptr<DescriptorOnDevice>& form) {
  const bool with_grad = needs_gradient({attention});
  at::NoGradGuard no_grad;
  auto spectrum = spectrum_on_gpu(attention.detach(), weights.detach(), *form, with_grad);
  const auto out = std::move(spectrum.handed_out);
  if (with_grad)
    record("the descriptor", {attention}, {out}, [spectrum, form](const std::vector<torch::Tensor>& grads) {
      return std::vector<torch::Tensor>{pulled_attention(spectrum, *form, grads[0])};
    });
  return out;
}

}  // namespace asr
