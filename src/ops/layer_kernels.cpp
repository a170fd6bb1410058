#include "ops/layer_kernels.h"

#include "tensor/cpu_kernel.h"

namespace asr {
namespace {

kernel::LayerKernels choose() {
  using namespace kernel;
#ifdef ASR_HAVE_KERNEL_avx512
  if (cpu_kernel() == CpuKernel::avx512) return {"avx512", avx512::attention_kernel(), avx512::row_kernel()};
#endif
#ifdef ASR_HAVE_KERNEL_avx2
  if (cpu_kernel() >= CpuKernel::avx2) return {"avx2", avx2::attention_kernel(), avx2::row_kernel()};
#endif
  return {"portable", portable::attention_kernel(), portable::row_kernel()};
}

}  // namespace

const kernel::LayerKernels& layer_kernels() {
  static const kernel::LayerKernels chosen = choose();
  return chosen;
}

}  // namespace asr
