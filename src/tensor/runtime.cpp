#include "tensor/runtime.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <dlfcn.h>
#include <malloc.h>
#include <sched.h>
#include <torch/cuda.h>
#include <torch/version.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>

#include "base/log.h"
#include "base/text.h"
#include "tensor/block_cache.h"
#include "tensor/torch_compat.h"

namespace asr {
namespace {

bool g_allocator_tuned = false, g_deterministic = false;
double g_resident_at_start = 0;

// The tile instructions of newer CPUs must be asked of the kernel, and may be refused, as in many virtual machines; the
// oneDNN inside libtorch 1.13 uses them unasked, and the process dies. Said before main, since oneDNN looks once; what
// the user set stays.
[[maybe_unused]] const int g_without_tiles = setenv("DNNL_MAX_CPU_ISA", "AVX512_CORE_BF16", /*overwrite=*/0);

// OpenBLAS is asked by name, because Debian lets any BLAS stand behind libblas.
template <class Function>
Function blas_function(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

int blas_threads() {
  const auto get = blas_function<int (*)()>("openblas_get_num_threads");
  return get ? get() : 0;
}

std::string torch_version() {
  return cat(TORCH_VERSION_MAJOR, ".", TORCH_VERSION_MINOR, ".", TORCH_VERSION_PATCH);
}

// Bytes of this process that lie in memory; 0 where the kernel does not tell.
double resident_bytes() {
  double pages = 0, resident = 0;
  std::ifstream file("/proc/self/statm");
  file >> pages >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// Those of the affinity, and no more than OMP_NUM_THREADS says, as in other programs.
int usable_cpus() {
  cpu_set_t set;
  const int cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
  const char* asked = std::getenv("OMP_NUM_THREADS");
  int64_t most = 0;
  return asked && parse_int(asked, most) && most > 0 ? static_cast<int>(std::min<int64_t>(cpus, most)) : cpus;
}

// Counts what passes through the tensor allocator; installed on first use, then stays.
class CountingAllocator {
 public:
  static CountingAllocator& instance() {
    static CountingAllocator counter;
    return counter;
  }
  int64_t current() const { return current_; }
  int64_t peak() const { return peak_; }
  void reset_peak() { peak_ = current_.load(); }

 private:
  struct Block {
    c10::DataPtr inner;
    int64_t size;
  };
  struct Hook;

  CountingAllocator();
  static void release(void* context) {
    auto* block = static_cast<Block*>(context);
    instance().current_ -= block->size;
    delete block;
  }
  void count(int64_t size) {
    const int64_t now = current_ += size;
    int64_t seen = peak_;
    while (now > seen && !peak_.compare_exchange_weak(seen, now)) {
    }
  }

  std::atomic<int64_t> current_{0}, peak_{0};
  c10::Allocator* inner_ = nullptr;
};

struct CountingAllocator::Hook : c10::Allocator {
  explicit Hook(CountingAllocator* to) : owner(to) {}
  c10::DataPtr allocate(size_t size) ASR_ALLOCATE_CONST override {
    auto* block = new Block{owner->inner_->allocate(size), static_cast<int64_t>(size)};
    owner->count(block->size);
    return {block->inner.get(), block, &CountingAllocator::release, block->inner.device()};
  }
  ASR_ALLOCATOR_COPY
  CountingAllocator* owner;
};

CountingAllocator::CountingAllocator() : inner_(c10::GetCPUAllocator()) {
  static Hook hook(this);
  c10::SetCPUAllocator(&hook, /*priority=*/255);
}

}  // namespace

void set_compute_threads(int threads) {
  at::set_num_threads(threads);
  // One BLAS thread under each of ours (ops/adapted_linear.h splits the rows): at the shapes of a training step
  // OpenBLAS with two threads was no faster than with one, and its waiting threads take the processors from ours.
  if (auto set = blas_function<void (*)(int)>("openblas_set_num_threads")) set(1);
}

void set_deterministic(bool yes) {
  if (yes) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);  // cuBLAS promises no order without it
  at::globalContext().setDeterministicCuDNN(yes);
  g_deterministic = yes;
}

bool deterministic() {
  return g_deterministic;
}

void configure_runtime(int threads) {
  use_block_cache();
  // Large blocks come from the heap and stay there instead of being mapped and faulted in again each step.
  g_allocator_tuned = mallopt(M_MMAP_THRESHOLD, 1 << 30) == 1 && mallopt(M_TRIM_THRESHOLD, 0x7fffffff) == 1 &&
                      mallopt(M_TOP_PAD, 64 << 20) == 1;
  set_compute_threads(threads > 0 ? threads : usable_cpus());
  g_resident_at_start = resident_bytes();
  log_debug("threads ", compute_threads(), ", BLAS threads ", blas_threads(), ", allocator ",
            g_allocator_tuned ? "tuned" : "as found", ", libtorch ", torch_version());
}

double resident_at_start() {
  return g_resident_at_start;
}

int compute_threads() {
  return at::get_num_threads();
}

RuntimeInfo runtime_info() {
  RuntimeInfo info;
  info.threads = compute_threads();
  info.blas_threads = blas_threads();
  info.allocator_tuned = g_allocator_tuned;
  info.torch_version = torch_version();
  info.cuda = torch::cuda::is_available();
  return info;
}

TensorMemoryPeak::TensorMemoryPeak() : start_(0) {
  auto& counter = CountingAllocator::instance();
  counter.reset_peak();
  start_ = counter.current();
}

int64_t TensorMemoryPeak::bytes() const {
  return CountingAllocator::instance().peak() - start_;
}

}  // namespace asr
