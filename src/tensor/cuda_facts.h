// What the CUDA library of this build says of the machine, asked by name: no header of CUDA is needed, and a build
// without it has none.
#pragma once

#include <optional>
#include <string>

namespace asr {

struct CudaFacts {
  bool in_build = false;        // libtorch has CUDA
  int runtime = 0, driver = 0;  // versions as CUDA writes them: 12040 is 12.4; 0: there is no driver
  int devices = 0;
  std::string error;  // of counting them, in CUDA's words
};
CudaFacts cuda_facts();

// Why no GPU can be used, and what to do; empty: one can.
std::string cuda_problem(const CudaFacts& facts);

// Fails with that line where libtorch finds no GPU; `option` is how the user asked for one.
void check_cuda(const std::string& option);

struct DeviceMemory {
  double free = 0, all = 0;  // bytes
};
std::optional<DeviceMemory> device_memory();  // of the current GPU; nothing where there is none

}  // namespace asr
