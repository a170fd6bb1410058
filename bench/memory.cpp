// What the end of a stage costs: exact moments of its descriptors, and the update of the memory.
#include <benchmark/benchmark.h>

#include "spectral/memory.h"

namespace asr {
namespace {

void stage_moments(benchmark::State& state) {
  const Options options;
  const int64_t samples = state.range(0);
  const auto descriptor = torch::randn({samples, options.spectral.dim()}),
             angular = torch::rand({samples, options.spectral.angular_bins});
  const auto posterior = torch::randn({samples, 15}).mul(3).softmax(-1);
  for (auto _ : state) {
    StageMoments moments(options);
    moments.add(descriptor, angular, posterior, {}, 0);
    benchmark::DoNotOptimize(moments.result());
  }
  state.SetItemsProcessed(state.iterations() * samples);
}
BENCHMARK(stage_moments)->Arg(1000)->Arg(10000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace asr
