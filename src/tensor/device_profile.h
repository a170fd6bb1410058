// What a device did: the most memory that tensors held there, and the kernels it ran.
#pragma once

#include <torch/types.h>

#include <functional>
#include <string>
#include <vector>

namespace asr {

struct MemoryPeak {
  double allocated = 0, reserved = 0;  // bytes; 0 where this libtorch does not tell
};
void forget_memory_peak(at::Device device);
MemoryPeak memory_peak(at::Device device);  // since it was last forgotten

struct KernelTime {
  std::string name;
  double milliseconds = 0;
  int64_t calls = 0;
};
// What ran on a GPU while `work` did, longest first; empty where this libtorch does not tell.
std::vector<KernelTime> profile_kernels(const std::function<void()>& work);

}  // namespace asr
