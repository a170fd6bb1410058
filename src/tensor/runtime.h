// Process-wide set-up: compute threads from the CPU affinity, one BLAS thread in each, and an allocator that keeps
// freed memory (page faults otherwise cost up to half the time of a training step).
#pragma once

#include <cstdint>
#include <string>

namespace asr {

// `threads` 0 means one per CPU this process may run on, at most OMP_NUM_THREADS. Call once, first thing in main.
void configure_runtime(int threads);

// Another number of compute threads, for measurements.
void set_compute_threads(int threads);

// Whether sums on a GPU must have an order that does not change from run to run. Of what models use, libraries of
// convolutions and products are told here, before the first operator on a GPU; attention's gradient asks
// (nn/attention.cpp). Nothing else we know of adds several numbers to one place: gathered positions are
// distinct, but for padding, which adds zeros.
void set_deterministic(bool yes);
bool deterministic();

int compute_threads();

// Asks the CUDA library too, which then starts: a process that computes on a CPU has no need of that, and its children
// could not use a GPU any more.
struct RuntimeInfo {
  int threads = 0, blas_threads = 0;  // blas_threads 0: the BLAS in use does not tell
  bool allocator_tuned = false;
  std::string torch_version;
  bool cuda = false;
};
RuntimeInfo runtime_info();

// Bytes of host memory that this process held when configure_runtime was called: the program and its libraries. Those
// of a libtorch with CUDA are several times as large.
double resident_at_start();

// Peak bytes that tensors held beyond those alive at construction, while this object lives. CPU only;
// counts every tensor of the process.
class TensorMemoryPeak {
 public:
  TensorMemoryPeak();
  int64_t bytes() const;

 private:
  int64_t start_;
};

}  // namespace asr
