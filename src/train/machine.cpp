// What a machine sustains: assumed for GPUs by name, timed on the CPU at hand.
#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/text.h"
#include "ops/cuda_tensors.h"
#include "tensor/runtime.h"
#include "train/estimate.h"

namespace asr {
namespace {

constexpr double kSameMemory = 1.1;    // data sheets round it, to either side
constexpr double kTouchedLater = 8e7;  // bytes of libraries that a run has used beyond those at its start

struct Gpu {
  const char* name;
  double peak, bandwidth, memory;  // bfloat16 TFLOP/s without sparsity, TB/s, GB
  double share = kUtilisation;     // of the peak, that is sustained
};

// From the makers' data sheets. The share of an H200 was measured in steps of a 7B model (docs/performance.md).
constexpr Gpu kGpus[] = {{"A100-80GB", 312, 2.0, 80},  {"A100-40GB", 312, 1.56, 40}, {"H100", 989, 3.35, 80},
                         {"H200", 989, 4.8, 141, 0.6}, {"L40S", 362, 0.86, 48},      {"RTX4090", 165, 1.0, 24}};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// How often `work` runs in a second: the best of several short turns, since other work only ever slows them. Every run
// begins with this, so it may take a tenth of a second in all.
template <class Work>
double rate_of(const Work& work) {
  work();
  double best = 0;
  for (int turn = 0; turn < 5; ++turn) {
    const double start = seconds_now();
    int64_t done = 0;
    do {
      work();
      ++done;
    } while (seconds_now() - start < 0.01);
    best = std::max(best, static_cast<double>(done) / (seconds_now() - start));
  }
  return best;
}

}  // namespace

std::vector<std::string> gpu_names() {
  std::vector<std::string> out;
  for (const auto& gpu : kGpus) out.emplace_back(gpu.name);
  return out;
}

Machine gpu_named(const std::string& name) {
  for (const auto& gpu : kGpus)
    if (name == gpu.name)
      return {name,
              cat(gpu.peak * gpu.share, " TFLOP/s, ", 100 * gpu.share, " % of the data sheet's ", gpu.peak,
                  " in bfloat16; ", gpu.bandwidth * kReadShare, " TB/s, ", 100 * kReadShare, " %"),
              true,
              gpu.peak * 1e12 * gpu.share,
              gpu.bandwidth * 1e12 * kReadShare,
              gpu.memory * 1e9};
  fail("a GPU '", printable(name), "' is not in the list", did_you_mean(name, gpu_names()));
}

Machine gpu_at_hand(const std::optional<DeviceMemory>& present) {
  if (!present) return gpu_named(kUsualGpu);
  const Gpu* like = nullptr;
  for (const auto& gpu : kGpus) {
    const double part = present->all / (gpu.memory * 1e9);
    if (part < 1 / kSameMemory || part > kSameMemory) continue;
    if (!like || gpu.peak * gpu.share < like->peak * like->share) like = &gpu;
  }
  auto out = gpu_named(like ? like->name : kUsualGpu);
  out.memory = present->all;
  out.kernels = has_cuda_kernels();
  out.name = cat("the GPU here, of ", human_bytes(out.memory));
  out.assumption = cat("as fast as an ", like ? like->name : kUsualGpu, ", ", out.assumption);
  return out;
}

Machine measure_cpu(const ModelShape& shape) {
  at::NoGradGuard no_grad;
  const int64_t rows = 2048;
  const auto x = at::randn({rows, shape.width}), weight = at::randn({shape.mlp, shape.width});
  auto y = at::empty({rows, shape.mlp});
  // As a step does it: rows over our threads, one BLAS thread under each.
  const double product = rate_of([&] {
    at::parallel_for(0, rows, rows / at::get_num_threads(), [&](int64_t begin, int64_t end) {
      auto part = y.narrow(0, begin, end - begin);
      at::mm_out(part, x.narrow(0, begin, end - begin), weight.t());
    });
  });
  const double operations = 2.0 * static_cast<double>(rows * shape.width * shape.mlp) * product;
  const auto large = at::ones({1 << 24});
  const double read = rate_of([&] { large.sum(); }) * static_cast<double>(large.nbytes());
  Machine out;
  out.name = "this CPU";
  out.flops = kCpuShare * operations;
  out.bandwidth = read;
  out.program = std::max(out.program, resident_at_start() + kTouchedLater);
  out.assumption = cat(static_cast<int64_t>(operations / 1e9), " GFLOP/s timed on products of width ", shape.width,
                       " with ", at::get_num_threads(), " threads; ", 100 * kCpuShare, " % of it in a step");
  return out;
}

}  // namespace asr
