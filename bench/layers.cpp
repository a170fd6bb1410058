// The layers of a training step, fused against plain, at the shapes of the built-in decoder: 32 samples of 78 tokens,
// width 128, 4 heads of 32. Forward and backward; frozen weights.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <functional>

#include "nn/attention.h"
#include "nn/tap.h"
#include "ops/adapted_linear.h"
#include "ops/gated_silu.h"
#include "ops/keyed_dropout.h"
#include "ops/leading_positions.h"
#include "ops/masked_low_rank.h"
#include "ops/mean_tokens.h"
#include "ops/pick_columns.h"
#include "ops/quick_gelu.h"
#include "ops/rms_norm.h"
#include "ops/stack_rows.h"
#include "tensor/runtime.h"
#include "tensor/torch_compat.h"

namespace asr {
namespace {

constexpr int64_t kBatch = 32, kTokens = 78, kWidth = 128, kHeads = 4, kMlp = 256, kRank = 16;

torch::Tensor input(std::vector<int64_t> shape) {
  static const bool configured = (configure_runtime(0), torch::manual_seed(1), true);
  (void)configured;
  return torch::randn(shape);
}
torch::Tensor heads() {
  return input({kBatch, kTokens, kHeads, kWidth / kHeads}).transpose(1, 2).requires_grad_();
}
torch::Tensor hidden(int64_t width = kWidth) {
  return input({kBatch, kTokens, width}).requires_grad_();
}

void measure(benchmark::State& state, const std::vector<torch::Tensor>& learnt,
             const std::function<torch::Tensor()>& layer) {
  const auto grad = torch::ones_like(layer()).contiguous();
  for (auto _ : state) benchmark::DoNotOptimize(torch::autograd::grad({layer()}, learnt, {grad}, none, false, true));
}

void attention(benchmark::State& state, bool fused) {
  const auto q = heads(), k = heads(), v = heads(), mask = torch::ones({kBatch, kTokens}, at::kBool);
  measure(state, {q, k, v},
          [&] { return join_heads((fused ? attend : attend_reference)(q, k, v, mask, /*causal=*/true)); });
}

// Attention whose last 10 rows are tapped at the first 64 keys, as ASR does; "plain" computes those rows apart, beside
// fused attention.
void tapped_attention(benchmark::State& state, bool fused) {
  constexpr int64_t kRows = 10, kVisual = 64;
  const auto q = heads(), k = heads(), v = heads(), mask = torch::ones({kBatch, kTokens}, at::kBool);
  TapRequest request;
  request.first_row = kVisual;
  request.first_column = 0;
  request.rows = (torch::arange(kRows) + kVisual).expand({kBatch, kRows});
  request.columns = torch::arange(kVisual).expand({kBatch, kVisual});
  measure(state, {q, k, v}, [&] {
    TapResult tapped;
    const auto out = attend_and_tap({q, k, v, mask, /*causal=*/true}, {fused ? &request : nullptr, &tapped});
    const auto rows = fused ? tapped.layers[0] : attention_rows(q, k, mask, /*causal=*/true, request);
    return at::cat({out.flatten(), rows.flatten()});
  });
}

void rotation(benchmark::State& state, bool fused) {
  const auto x = heads();
  const auto table = make_rotary(at::arange(kTokens).expand({kBatch, kTokens}), kWidth / kHeads, 10000, at::kFloat);
  measure(state, {x}, [&] { return fused ? rotate(x, table) : rotate_reference(x, table); });
}

void norm(benchmark::State& state, bool fused) {
  const auto x = hidden(), weight = torch::ones({kWidth});
  measure(state, {x}, [&] { return (fused ? rms_norm : rms_norm_reference)(x, weight, 1e-6); });
}

void gate(benchmark::State& state, bool fused) {
  const auto a = hidden(kMlp), b = hidden(kMlp);
  measure(state, {a, b}, [&] { return (fused ? gated_silu : gated_silu_reference)(a, b); });
}

void linear(benchmark::State& state, bool fused) {
  const auto x = hidden();
  const LinearMap map{input({kWidth, kWidth}), {}, {}};
  measure(state, {x}, [&] { return fused ? adapted_linears(x, {map})[0] : adapted_linear_reference(x, map); });
}

void queries_keys_values(benchmark::State& state, bool fused) {
  const auto x = hidden();
  std::vector<torch::Tensor> learnt = {x};
  std::vector<LinearMap> maps;
  for (int i = 0; i < 3; ++i) {
    maps.push_back({input({kWidth, kWidth}), {}, {}});
    if (i == 1) continue;  // keys have no expert
    learnt.push_back(input({kRank, kWidth}).requires_grad_());
    learnt.push_back(input({kWidth, kRank}).requires_grad_());
    maps.back().low_rank.push_back({learnt[learnt.size() - 2], learnt.back(), 2, {}});
  }
  measure(state, learnt, [&] {
    if (!fused)
      return adapted_linear_reference(x, maps[0]) + adapted_linear_reference(x, maps[1]) +
             adapted_linear_reference(x, maps[2]);
    const auto y = adapted_linears(x, maps);
    return y[0] + y[1] + y[2];
  });
}

void dropout(benchmark::State& state, bool fused) {
  const auto x = hidden();
  const DropoutKey key{0.05, 7, {}};
  measure(state, {x}, [&] { return (fused ? keyed_dropout : keyed_dropout_reference)(x, key); });
}

// What adapters read behind a dropout; on a CPU the plain form serves.
void products_behind_dropout(benchmark::State& state, bool fused) {
  const auto x = input({kBatch * kTokens, kWidth});
  const std::vector<MaskedLowRank> experts = {
      {torch::empty({kBatch * kTokens, kRank}), input({kRank, kWidth}), 2, {0.05, 7, {}}}};
  for (auto _ : state) (fused ? masked_middles : masked_middles_reference)(x, experts);
}

void gelu(benchmark::State& state, bool fused) {
  const auto x = hidden(kMlp);
  measure(state, {x}, [&] { return (fused ? quick_gelu : quick_gelu_reference)(x); });
}

void mean_of_tokens(benchmark::State& state, bool fused) {
  const auto x = hidden(), mask = torch::ones({kBatch, kTokens}, at::kBool);
  measure(state, {x}, [&] { return (fused ? mean_tokens : mean_tokens_reference)(x, mask); });
}

void picked_columns(benchmark::State& state, bool fused) {
  const auto x = input({kBatch, kTokens}), columns = torch::arange(10) + 64;
  for (auto _ : state) benchmark::DoNotOptimize((fused ? pick_columns : pick_columns_reference)(x, columns));
}

void stacked_rows(benchmark::State& state, bool fused) {
  std::vector<torch::Tensor> layers;
  for (int i = 0; i < 4; ++i) layers.push_back(input({kBatch, kHeads, 10, 64}).requires_grad_());
  measure(state, layers, [&] { return (fused ? stack_rows : stack_rows_reference)(layers, 8, 8); });
}

void first_positions(benchmark::State& state, bool fused) {
  const auto mask = torch::rand({kBatch, kTokens}).gt(0.5);
  const auto find = [&] { return fused ? leading_positions(mask, 10) : leading_positions_reference(mask, 10); };
  for (auto _ : state) benchmark::DoNotOptimize(find());
}

// The minimum too: on a busy machine a thread that waits for a processor makes every mean a measure of the neighbours.
double least(const std::vector<double>& v) {
  return *std::min_element(v.begin(), v.end());
}
void often(benchmark::internal::Benchmark* b) {
  b->Unit(benchmark::kMillisecond)->UseRealTime()->MinTime(0.01)->Repetitions(30);
  b->ComputeStatistics("min", least)->ReportAggregatesOnly();
}

#define ASR_BOTH(layer)                                 \
  BENCHMARK_CAPTURE(layer, plain, false)->Apply(often); \
  BENCHMARK_CAPTURE(layer, fused, true)->Apply(often);
ASR_BOTH(attention)
ASR_BOTH(tapped_attention)
ASR_BOTH(rotation)
ASR_BOTH(norm)
ASR_BOTH(gate)
ASR_BOTH(linear)
ASR_BOTH(queries_keys_values)
ASR_BOTH(dropout)
ASR_BOTH(products_behind_dropout)
ASR_BOTH(gelu)
ASR_BOTH(mean_of_tokens)
ASR_BOTH(picked_columns)
ASR_BOTH(stacked_rows)
ASR_BOTH(first_positions)

}  // namespace
}  // namespace asr
