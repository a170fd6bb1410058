// The fused CPU path: one node of the graph around the kernel in kernel/. The backward pass reads the attention again
// instead of keeping maps or spectra, unless they are few: nothing of a large input's size lives between the passes.
// Every map is computed by one thread and summed over layer-heads in order: the bits do not depend on threads.
#include <ATen/Parallel.h>

#include <cmath>

#include "ops/descriptor_tables.h"
#include "tensor/memory.h"
#include "tensor/record.h"

namespace asr {
namespace {

using kernel::HeadGradient;
using kernel::HeadGroup;
using kernel::HeadInput;
using kernel::HeadOutput;
using kernel::kKept;

constexpr int64_t kKeptBytes = 256 << 10;
constexpr int64_t kCacheBytes = 8 << 20;  // a gradient larger than this would only push other data out of the caches

constexpr int kMostHeads = 8;  // a call of the kernel

// A view of the input by strides; only the last two dimensions must be dense.
template <class Real>
struct MapHeads {
  torch::Tensor attention;
  std::vector<Real> weights;  // [B][T]
  int64_t batch, layers, heads, tokens, cells;
  bool stream;
  const Real* first_map;  // asked for once: every head needs it
  int64_t sample_step, layer_step, head_step, token_step;

  MapHeads(const torch::Tensor& from, const torch::Tensor& token_weights) {
    const bool dense = from.stride(5) == 1 && from.stride(4) == from.size(5);
    attention = dense ? from : from.contiguous();
    const auto shares = token_weights.to(at::kDouble).contiguous();
    weights.assign(shares.template data_ptr<double>(), shares.template data_ptr<double>() + shares.numel());
    batch = from.size(0);
    layers = from.size(1);
    heads = from.size(2);
    tokens = from.size(3);
    cells = from.size(4) * from.size(5);
    stream = from.numel() * from.element_size() > kCacheBytes;
    first_map = attention.template data_ptr<Real>();
    sample_step = attention.stride(0);
    layer_step = attention.stride(1);
    head_step = attention.stride(2);
    token_step = attention.stride(3);
  }
  int64_t per_sample() const { return layers * heads; }
  int64_t count() const { return batch * per_sample(); }
  const Real* maps(int64_t i) const {
    const int64_t b = i / per_sample(), l = i / heads % layers, h = i % heads;
    return first_map + b * sample_step + l * layer_step + h * head_step;
  }
  HeadInput<Real> input(int64_t i, int64_t end) const {
    const Real* next = i + 1 < end ? maps(i + 1) : nullptr;
    return {maps(i), token_step, weights.data() + i / per_sample() * tokens, static_cast<int>(tokens), next, stream};
  }
  // What the forward pass leaves of every group for the backward pass; nothing where it would be large: it is then
  // computed again.
  Memory<Real> room_for_all(const PlanTables<Real>& plan) const {
    const auto size = static_cast<int64_t>(plan.functions.sizes(plan.view, static_cast<int>(tokens)).kept);
    const int64_t groups = (count() + plan.functions.heads - 1) / plan.functions.heads;
    if (groups * size * static_cast<int64_t>(sizeof(Real)) > kKeptBytes) return {};
    return Memory<Real>(groups * size);
  }
  // Runs work(first head, group) for all heads, spread over threads. A group's heads are consecutive; its `kept` is a
  // row of `all`, if there is one.
  template <class Work>
  void each(const PlanTables<Real>& plan, const Memory<Real>& all, const Work& work) const {
    const auto size = plan.functions.sizes(plan.view, static_cast<int>(tokens));
    const auto kept = static_cast<int64_t>(size.kept), scratch = static_cast<int64_t>(size.scratch);
    const int64_t most = plan.functions.heads, groups = (count() + most - 1) / most;
    Real* rows = all.get();
    at::parallel_for(0, groups, 8 / most, [&](int64_t begin, int64_t end) {
      const Memory<Real> memory(scratch + kept);
      Real* own = memory.get();
      const int64_t stop = std::min(end * most, count());
      for (int64_t g = begin; g < end; ++g) {
        const int64_t first = g * most;
        HeadInput<Real> inputs[kMostHeads];
        const HeadGroup<Real> group{
            .input = inputs,
            .heads = static_cast<int>(std::min(most, stop - first)),
            .kept = rows ? rows + g * kept : own + scratch,
            .scratch = own,
        };
        for (int j = 0; j < group.heads; ++j) inputs[j] = input(first + j, stop);
        work(first, group);
      }
    });
  }
};

// Mean and second moment over the J layer-heads of each sample, of D0 numbers each.
struct HeadMoments {
  int64_t batch, J, D0;
  bool deviation;  // the second moment is the variance's root
};

template <class Real>
HeadMoments moments_of(const MapHeads<Real>& heads, const DescriptorTables& plan) {
  return {.batch = heads.batch, .J = heads.per_sample(), .D0 = plan.head_dim, .deviation = plan.deviation};
}

// `head` has rows of D0 + kKept.
template <class Real>
void aggregate_heads(const HeadMoments& of, const Real* head, Real* out) {
  const int64_t J = of.J, D0 = of.D0, row = D0 + kKept;
  for (int64_t b = 0; b < of.batch; ++b) {
    Real *mean = out, *second = out + D0;
    std::fill(out, out + 2 * D0, Real(0));
    // Measured from the first head, so that equal heads have variance 0 exactly.
    for (int64_t j = 1; j < J; ++j)
      for (int64_t i = 0; i < D0; ++i) mean[i] += head[j * row + i] - head[i];
    for (int64_t i = 0; i < D0; ++i) mean[i] /= static_cast<Real>(J);
    for (int64_t j = 0; j < J; ++j)
      for (int64_t i = 0; i < D0; ++i) {
        const Real x = head[j * row + i] - head[i] - mean[i];
        second[i] += x * x;
      }
    for (int64_t i = 0; i < D0; ++i) mean[i] += head[i];
    for (int64_t i = 0; i < D0; ++i) {
      second[i] /= static_cast<Real>(J);
      if (of.deviation) second[i] = std::sqrt(second[i]);
    }
    head += J * row;
    out += 2 * D0;
  }
}

// What the backward pass needs of the forward pass.
template <class Real>
struct SavedSpectrum {
  torch::Tensor descriptor;  // [B, D]
  Memory<Real> head;         // [B, J, D0 + kKept]
  Memory<int64_t> peak;      // [B, J]
  Memory<Real> kept;         // see MapHeads::room_for_all
};

template <class Real>
SavedSpectrum<Real> spectrum_forward(const MapHeads<Real>& heads, const DescriptorTables& plan, bool keep,
                                     Real* map = nullptr, Real* power = nullptr) {
  const auto& tables = plan.tables<Real>();
  const int64_t D0 = plan.head_dim, row = D0 + kKept;
  SavedSpectrum<Real> out{torch::empty({heads.batch, 2 * D0}, heads.attention.options().requires_grad(false)),
                          Memory<Real>(heads.count() * row), Memory<int64_t>(heads.count()),
                          keep ? heads.room_for_all(tables) : Memory<Real>()};
  Real* head = out.head.get();
  int64_t* peak = out.peak.get();
  heads.each(tables, out.kept, [&](int64_t first, const HeadGroup<Real>& group) {
    HeadOutput<Real> to[kMostHeads];
    for (int j = 0; j < group.heads; ++j) {
      const int64_t i = first + j;
      to[j] = {head + i * row, peak + i, map ? map + i * heads.cells : nullptr,
               power ? power + i * heads.cells : nullptr};
    }
    tables.functions.forward(tables.view, group, to);
  });
  aggregate_heads(moments_of(heads, plan), head, out.descriptor.template data_ptr<Real>());
  return out;
}

// What HeadGradient needs of each sample, rows of pull and slope: from the gradient of mean and second moment.
template <class Real>
Memory<Real> pulls_of_samples(const HeadMoments& of, const Real* moments, const Real* grad) {
  const int64_t D0 = of.D0;
  Memory<Real> out(of.batch * 2 * D0);
  Real* to = out.get();
  const Real share = Real(1) / static_cast<Real>(of.J);
  for (int64_t b = 0; b < of.batch; ++b) {
    for (int64_t i = 0; i < D0; ++i) {
      const Real second = moments[D0 + i];
      const Real slope = of.deviation ? (second > 0 ? 1 / second : Real(0)) : Real(2);
      to[i] = share * grad[i];
      to[D0 + i] = share * grad[D0 + i] * slope;
    }
    grad += 2 * D0;
    moments += 2 * D0;
    to += 2 * D0;
  }
  return out;
}

template <class Real>
torch::Tensor spectrum_backward(const MapHeads<Real>& heads, const SavedSpectrum<Real>& saved,
                                const torch::Tensor& grad, const DescriptorTables& plan) {
  const auto& tables = plan.tables<Real>();
  const int64_t D0 = plan.head_dim, J = heads.per_sample();
  const auto grad_descriptor = grad.to(saved.descriptor.scalar_type()).contiguous();
  const auto& attention = heads.attention;
  auto out = torch::empty(attention.sizes(), attention.options().requires_grad(false));
  const Real* descriptor = saved.descriptor.template data_ptr<Real>();
  const auto pulls =
      pulls_of_samples<Real>(moments_of(heads, plan), descriptor, grad_descriptor.template data_ptr<Real>());
  const Real *head = saved.head.get(), *pull = pulls.get();
  const int64_t* peak = saved.peak.get();
  Real* to = out.template data_ptr<Real>();
  heads.each(tables, saved.kept, [&](int64_t first, const HeadGroup<Real>& group) {
    HeadGradient<Real> of[kMostHeads];
    for (int j = 0; j < group.heads; ++j) {
      const int64_t i = first + j, sample = i / J * 2 * D0;
      of[j] = {head + i * (D0 + kKept), peak[i],
               pull + sample,           pull + sample + D0,
               descriptor + sample,     to + i * heads.tokens * heads.cells};
    }
    tables.functions.backward(tables.view, group, of, saved.kept.get() != nullptr);
  });
  return out;
}

template <class Real>
torch::Tensor descriptor_as(const torch::Tensor& attention, const torch::Tensor& weights,
                            const std::shared_ptr<const DescriptorTables>& plan) {
  const bool with_grad = needs_gradient({attention});
  at::NoGradGuard no_grad;
  const MapHeads<Real> heads(attention.detach(), weights);
  const auto saved = std::make_shared<SavedSpectrum<Real>>(spectrum_forward(heads, *plan, with_grad));
  if (!with_grad) return saved->descriptor;
  const auto out = saved->descriptor.detach();  // the graph's own; the gradient reads the other
  record("the fused descriptor", {attention}, {out}, [=](const std::vector<torch::Tensor>& grads) {
    const auto grad = spectrum_backward(heads, *saved, grads[0], *plan);
    saved->kept = Memory<Real>();  // used up; another pass over a retained graph computes it again
    return std::vector<torch::Tensor>{grad};
  });
  return out;
}

template <class Real>
SpectrumDetails spectrum_as(const torch::Tensor& attention, const torch::Tensor& weights,
                            const DescriptorTables& plan) {
  SpectrumDetails out;
  const MapHeads<Real> heads(attention, weights);
  const int64_t B = heads.batch, J = heads.per_sample(), D0 = plan.head_dim;
  const auto options = attention.options().requires_grad(false);
  out.map = torch::empty({B, J, attention.size(4), attention.size(5)}, options);
  out.power = torch::empty_like(out.map);
  const auto saved = spectrum_forward(heads, plan, /*keep=*/false, out.map.template data_ptr<Real>(),
                                      out.power.template data_ptr<Real>());
  out.peak = torch::from_blob(saved.peak.get(), {B, J}, options.dtype(at::kLong)).clone();
  out.head_descriptor = torch::from_blob(saved.head.get(), {B, J, D0 + kKept}, options).narrow(2, 0, D0).clone();
  out.descriptor = saved.descriptor;
  return out;
}

}  // namespace

torch::Tensor descriptor_cpu(const torch::Tensor& attention, const torch::Tensor& weights,
                             const std::shared_ptr<const DescriptorTables>& plan) {
  return attention.scalar_type() == at::kFloat ? descriptor_as<float>(attention, weights, plan)
                                               : descriptor_as<double>(attention, weights, plan);
}

SpectrumDetails spectrum_cpu(const torch::Tensor& attention, const torch::Tensor& weights,
                             const DescriptorTables& plan) {
  return attention.scalar_type() == at::kFloat ? spectrum_as<float>(attention, weights, plan)
                                               : spectrum_as<double>(attention, weights, plan);
}

}  // namespace asr
