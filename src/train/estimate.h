// What a run will need, before anything is loaded: memory of the device and of the host, disk, and time. Formulas over
// the model's sizes, the stream's counts and the run's options (docs/runbook.md states them); nothing is measured here.
// Every number is an estimate: kernels, fragmentation and the length of answers are not known beforehand.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tensor/cuda_facts.h"
#include "train/model_shape.h"
#include "train/run_options.h"

namespace asr {

// What does the work. `flops` and `bandwidth` are what is sustained, not what a data sheet promises.
struct Machine {
  std::string name, assumption;  // the latter says where the numbers are from
  bool gpu = false;
  double flops = 0, bandwidth = 0;  // a second: operations, bytes
  double memory = 0;                // bytes of one device
  int64_t processes = 1;            // devices that share the work
  double program = 2.5e8;           // bytes of a process on the CPU before any tensor, libtorch with it
  bool kernels = true;              // a GPU's: our own, which keep less for the backward pass than libtorch's operators
};

// A GPU by name, at kUtilisation of its peak in bfloat16, or what was measured of it, and kReadShare of its bandwidth.
inline constexpr double kUtilisation = 0.35, kReadShare = 0.6, kParallelShare = 0.9, kCpuShare = 0.5;
inline constexpr const char* kUsualGpu = "A100-80GB";
Machine gpu_named(const std::string& name);
std::vector<std::string> gpu_names();
// The GPU that is present, with its own memory, as fast as the slowest of those by name with as much of it. Where none
// has as much, or none is present: kUsualGpu.
Machine gpu_at_hand(const std::optional<DeviceMemory>& present);
Machine measure_cpu(const ModelShape& shape);  // times products of the model's width, for a fifth of a second or so

// What is computed on: the counts and mean lengths of a stream.
struct Workload {
  struct Task {
    std::string name;
    int64_t train = 0, scored = 0, novel = 0;
    double questions = 1;  // scored ones about one picture, which share what is made of it
  };
  std::vector<Task> tasks;
  double text_tokens = 40;               // of a training sample, template and answer with it
  double answer_tokens = 4;              // of them
  double new_tokens = 8;                 // generated until the longest answer of a batch has ended
  double question_tokens = 12;           // rows of tapped attention
  PictureTokens picture;                 // a sample
  double picture_bytes = 640 * 480 * 3;  // decoded

  double sequence() const { return picture.visual + text_tokens; }
  double train() const;    // samples of all tasks
  double scored() const;   // one row of all tasks
  double answers() const;  // generated over a run: the zero-shot row, and every seen task after every stage
  double answers_after_stages(size_t task) const;  // of one task, without the zero-shot row
  double questions() const;                        // about one picture, over all tasks
};

// Floating-point operations for one sample.
struct SampleWork {
  double vision = 0;   // the frozen tower, forward
  double forward = 0;  // the language model over the whole sequence
  double prefix = 0;   // of that, what is the same for every question about a picture
  double train = 0;    // forward and backward, of adapters alone; once more forward with gradient checkpointing
  double token = 0;    // one generated token
};
SampleWork sample_work(const ModelShape& shape, const Workload& work, bool recompute);

struct MemoryEstimate {  // bytes of one device
  double weights = 0, adapters = 0, optimizer = 0, method = 0, reference = 0, samples = 0, overhead = 0;
  double training = 0, evaluation = 0, measuring = 0;  // activations; one of the three at a time
  double host = 0;                                     // beside the device: texts, replayed pictures, reference
  double kept() const { return weights + adapters + optimizer + method + reference + samples; }
  double peak() const;
};

struct TimeEstimate {  // seconds of one run of one method
  std::string method;
  int64_t steps = 0;
  double training = 0, evaluation = 0, memory_pass = 0, method_pass = 0;
  double zero_shot = 0, reference = 0;  // of the base: once a process, shared by its runs
  double total() const { return training + evaluation + memory_pass + method_pass + zero_shot + reference; }
};

struct Estimate {
  MemoryEstimate memory;            // of the hungriest method
  std::vector<TimeEstimate> times;  // a method each
  double seconds = 0;               // of all runs: methods, seeds, orders
  double disk = 0;                  // bytes in output_dir
};

Estimate estimate_run(const RunConfig& config, const ModelShape& shape, const Workload& work, const Machine& machine);

}  // namespace asr
