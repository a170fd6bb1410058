// Descriptor alone: forward, and forward with backward, per implementation, at LLaVA's and the tiny grid.
#include <benchmark/benchmark.h>

#include "spectral/descriptor.h"
#include "tensor/runtime.h"
#include "tensor/torch_compat.h"

namespace asr {
namespace {

struct Setup {
  torch::Tensor attention, weights;
  SpectralEncoder encoder;

  Setup(const benchmark::State& state, Implementation implementation)
      : attention(torch::rand({8, 4, 8, 8, state.range(0), state.range(0)}).requires_grad_()),
        weights(token_weights(torch::ones({8, 8}), torch::ones({8, 8}))),
        encoder(state.range(0), state.range(0), {}, implementation) {
    static const bool configured = (configure_runtime(1), true);
    (void)configured;
  }
};

void forward(benchmark::State& state, Implementation implementation) {
  const Setup s(state, implementation);
  at::NoGradGuard no_grad;
  for (auto _ : state) benchmark::DoNotOptimize(s.encoder.descriptor(s.attention, s.weights));
}

void forward_backward(benchmark::State& state, Implementation implementation) {
  const Setup s(state, implementation);
  for (auto _ : state)
    benchmark::DoNotOptimize(gradients(s.encoder.descriptor(s.attention, s.weights).sum(), {s.attention}));
}

BENCHMARK_CAPTURE(forward, composed, Implementation::reference)->Arg(8)->Arg(24)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(forward, fused, Implementation::fused)->Arg(8)->Arg(24)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(forward_backward, composed, Implementation::reference)
    ->Arg(8)
    ->Arg(24)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(forward_backward, fused, Implementation::fused)->Arg(8)->Arg(24)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace asr
