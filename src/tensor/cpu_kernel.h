// Which of a CPU kernel's builds (cmake/kernels.cmake) this machine runs.
#pragma once

namespace asr {

enum class CpuKernel { portable, avx2, avx512 };  // ascending; a kernel without the widest build takes its next one

// The widest instruction set of this CPU; ASR_KERNEL=portable or avx2 asks for less, so that two machines can be
// compared bit by bit.
CpuKernel cpu_kernel();

}  // namespace asr
