// Who should spread a matrix product over the processors? BLAS's own threads against rows split over ours with one BLAS
// thread under each, at the shapes of a training step: 2496 rows, [in -> out]. The answer is in tensor/runtime.cpp and
// ops/adapted_linear.cpp.
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <algorithm>

#include "tensor/runtime.h"

namespace asr {
namespace {

enum class Threads { one, blas, rows };

void product(benchmark::State& state, Threads threads) {
  configure_runtime(0);
  const auto set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  if (set) set(threads == Threads::blas ? at::get_num_threads() : 1);
  const auto x = torch::randn({2496, state.range(0)}), w = torch::randn({state.range(1), state.range(0)}).t();
  auto y = torch::empty({2496, state.range(1)});
  for (auto _ : state) {
    if (threads == Threads::rows)
      at::parallel_for(0, 2496, 16, [&](int64_t begin, int64_t end) {
        auto part = y.narrow(0, begin, end - begin);
        at::mm_out(part, x.narrow(0, begin, end - begin), w);
      });
    else
      at::mm_out(y, x, w);
  }
}

double least(const std::vector<double>& v) {
  return *std::min_element(v.begin(), v.end());
}
void shapes(benchmark::internal::Benchmark* b) {
  for (const auto& shape : {std::vector<int64_t>{128, 128}, {128, 256}, {256, 128}, {384, 384}, {384, 768}, {128, 16}})
    b->Args(shape);
  b->Unit(benchmark::kMicrosecond)->UseRealTime()->MinTime(0.005)->Repetitions(30);
  b->ComputeStatistics("min", least)->ReportAggregatesOnly();
}
BENCHMARK_CAPTURE(product, one, Threads::one)->Apply(shapes);
BENCHMARK_CAPTURE(product, blas, Threads::blas)->Apply(shapes);
BENCHMARK_CAPTURE(product, rows, Threads::rows)->Apply(shapes);

}  // namespace
}  // namespace asr
