// asr bench spectrum: forward, loss and backward of the fused path against the composed ATen graph, in one process
// under the same allocator. The README's speed table is this command's output.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <thread>

#include "base/error.h"
#include "base/progress.h"
#include "cli/command.h"
#include "cli/version.h"
#include "spectral/descriptor.h"
#include "spectral/spectral_loss.h"
#include "tensor/device.h"
#include "tensor/runtime.h"
#include "tensor/tensor_io.h"
#include "tensor/torch_compat.h"

namespace asr {
namespace {

using nlohmann::json;
using Shape = std::vector<int64_t>;

const std::vector<Shape> kShapes = {{16, 4, 32, 8, 24, 24}, {16, 4, 4, 12, 8, 8}, {4, 4, 28, 16, 32, 46}};
constexpr int64_t kSkills = 10;
constexpr int kTurn = 5, kInFlight = 200;

struct Case {
  torch::Tensor attention, weights, posterior;
  PrototypeTensors prototypes;
};

// Random softmax rows; every token counts, so nothing can be skipped.
Case make_case(const Shape& shape, const Options& options, at::Device device) {
  torch::manual_seed(7);
  Case out;
  const auto flat = torch::randn({shape[0], shape[1], shape[2], shape[3], shape[4] * shape[5]}).softmax(-1);
  out.attention = flat.view(shape).clone().to(device).requires_grad_();
  const auto ones = torch::ones({shape[0], shape[3]});
  out.weights = token_weights(ones, ones).to(device);
  out.posterior = torch::randn({shape[0], kSkills}).softmax(-1).to(device);
  out.prototypes.skill = torch::arange(kSkills);
  out.prototypes.mean = torch::rand({kSkills, options.spectral.dim()}, at::kDouble);
  out.prototypes.variance = torch::rand({kSkills, options.spectral.dim()}, at::kDouble) + 0.5;
  out.prototypes.angular = torch::rand({kSkills, options.spectral.angular_bins}, at::kDouble) + 0.1;
  return out;
}

struct Timing {
  double milliseconds = 0;
  double in_flight = 0;  // of a call among many that the device has been given, nobody waiting for one; on a GPU
  int64_t scratch = 0;   // peak tensor bytes beside the returned gradient
  double loss = 0;
};

// One side of the comparison: keeps its fastest call.
class Side {
 public:
  Side(const Case& c, const Options& options, Implementation implementation)
      : case_(c),
        encoder_(c.attention.size(4), c.attention.size(5), options.spectral, implementation),
        loss_(c.prototypes, options, c.attention.options().requires_grad(false), implementation) {
    // Warm-up: the allocator, the thread pool, and a processor that has left its idle state.
    const auto start = std::chrono::steady_clock::now();
    do call();
    while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(100));
    const TensorMemoryPeak peak;
    const int64_t gradient = call();
    timing_.scratch = std::max<int64_t>(0, peak.bytes() - gradient);
    timing_.milliseconds = 1e300;
  }
  void time_one() {
    const auto start = std::chrono::steady_clock::now();
    call();
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    timing_.milliseconds = std::min(timing_.milliseconds, taken.count());
  }
  void time_in_flight(int calls) {
    const auto start = std::chrono::steady_clock::now();
    torch::Tensor value;
    for (int i = 0; i < calls; ++i) value = started().first;
    timing_.loss = value.item<double>();
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    timing_.in_flight = taken.count() / calls;
  }
  const Timing& timing() const { return timing_; }

 private:
  std::pair<torch::Tensor, torch::Tensor> started() {  // loss and gradient
    const auto value = loss_(encoder_.descriptor(case_.attention, case_.weights), case_.posterior).loss;
    return {value, gradients(value, {case_.attention})[0]};
  }
  int64_t call() {  // returns the bytes of the gradient
    const auto [value, grad] = started();
    timing_.loss = value.item<double>();
    return static_cast<int64_t>(grad.numel()) * static_cast<int64_t>(grad.element_size());
  }

  const Case& case_;
  SpectralEncoder encoder_;
  SpectralLoss loss_;
  Timing timing_;
};

struct SpectrumBench {
  OptionFlags options;
  int calls = 20;
  std::vector<int> threads;
  std::vector<int64_t> shape;  // empty: the three standard ones
  std::string device = "cpu";
};

std::vector<int> threads_of(const SpectrumBench& bench) {
  if (!bench.threads.empty()) return bench.threads;
  if (runtime_info().threads >= 2) return {1, 2};
  return {1};
}

void run(const SpectrumBench& bench, const Common& common) {
  Options options = bench.options.resolve();
  const int calls = bench.calls;
  const auto shapes = bench.shape.empty() ? kShapes : std::vector<Shape>{bench.shape};
  const auto thread_counts = threads_of(bench);
  check(options.asr.spectrum != Spectrum::raw, "bench spectrum measures descriptors; asr.spectrum=raw has none");
  for (const auto& shape : shapes) {
    double numbers = 1;
    for (int64_t extent : shape) numbers *= static_cast<double>(extent);
    check(numbers <= 1 << 28, "--shape ", shape_text(shape), " has more than 2^28 numbers");
    make_frequency_plane(shape[4], shape[5], options.spectral);  // an error for a grid without frequencies
  }
  std::string said;
  Progress progress("bench", static_cast<int64_t>(shapes.size() * thread_counts.size()) * calls);
  json results = json::array();
  std::vector<std::vector<std::string>> rows = {
      {"shape (B, L, heads, T, H, W)", "threads", "composed ms", "fused ms", "ratio", "scratch/input"}};
  for (const auto& shape : shapes) {
    const Case c = make_case(shape, options, device_named(bench.device));
    const double bytes = static_cast<double>(c.attention.numel() * c.attention.element_size());
    for (int threads : thread_counts) {
      set_compute_threads(threads);
      Side composed_side(c, options, Implementation::reference), fused_side(c, options, Implementation::fused);
      // In turns of a few calls, so that a busy neighbour disturbs both alike and each still finds its own caches warm.
      for (int begin = 0; begin < calls; begin += kTurn) {
        const int turn = std::min(kTurn, calls - begin);
        for (int i = 0; i < turn; ++i) composed_side.time_one();
        for (int i = 0; i < turn; ++i) fused_side.time_one();
        progress.advance(turn);
      }
      if (c.attention.is_cuda()) {
        composed_side.time_in_flight(kInFlight);
        fused_side.time_in_flight(kInFlight);
      }
      const auto composed = composed_side.timing(), fused = fused_side.timing();
      const double ratio = composed.milliseconds / fused.milliseconds,
                   scratch = static_cast<double>(fused.scratch) / bytes;
      results.push_back({{"shape", shape},
                         {"threads", threads},
                         {"composed_ms", composed.milliseconds},
                         {"fused_ms", fused.milliseconds},
                         {"ratio", ratio},
                         {"composed_in_flight_ms", composed.in_flight},
                         {"fused_in_flight_ms", fused.in_flight},
                         {"composed_scratch_bytes", composed.scratch},
                         {"fused_scratch_bytes", fused.scratch},
                         {"scratch_over_input", scratch},
                         {"composed_loss", composed.loss},
                         {"fused_loss", fused.loss}});
      rows.push_back({cat(shape_text(shape)), std::to_string(threads), number(composed.milliseconds, 2),
                      number(fused.milliseconds, 2), number(ratio, 1), number(scratch, 4)});
      if (c.attention.is_cuda())
        said += fmt::format("{} calls in flight, a call: composed {:.3f} ms, fused {:.3f} ms\n", kInFlight,
                            composed.in_flight, fused.in_flight);
    }
  }
  progress.finish();
  const json result = {{"calls", calls},
                       {"dtype", "float32"},
                       {"statistic", "minimum"},
                       {"program", version_info()},
                       {"results", results}};
  if (common.json) return print_json(result);
  std::cout << fmt::format("forward + loss + backward, float32, minimum of {} calls, kernel {}\n", calls,
                           fused_kernel_name())
            << text_table(rows) << said;
}

}  // namespace

void add_bench_step(CLI::App& bench, Common& common);     // cli/bench_step.cpp
void add_bench_model(CLI::App& bench, Common& common);    // cli/bench_model.cpp
void add_bench_answers(CLI::App& bench, Common& common);  // cli/bench_answers.cpp

void add_bench_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("bench", "speed measured on this machine");
  command->require_subcommand(1);
  add_bench_step(*command, common);
  add_bench_model(*command, common);
  add_bench_answers(*command, common);
  auto arguments = std::make_shared<SpectrumBench>();
  auto* spectrum = command->add_subcommand("spectrum", "descriptor, loss and gradient: fused against composed");
  spectrum->add_option("--calls", arguments->calls, "timed calls of each; the fastest counts")
      ->capture_default_str()
      ->check(CLI::Range(1, 10000));
  spectrum
      ->add_option("--bench-threads", arguments->threads, "thread counts to measure (default: 1 and all, at most 2)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 256));
  spectrum->add_option("--shape", arguments->shape, "B,L,heads,T,H,W instead of the three standard shapes")
      ->delimiter(',')
      ->expected(6)
      ->check(CLI::Range(1, 4096));
  spectrum->add_option("--device", arguments->device, "cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "cuda"}));
  arguments->options.add_to(*spectrum);
  spectrum->callback([arguments, &common] { run(*arguments, common); });
}

}  // namespace asr
