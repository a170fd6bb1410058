// Whose arithmetic this process uses: results are equal to the last bit only where all of these are.
#pragma once

#include <string>

namespace asr {

struct NumericKernels {
  std::string cpu;   // model name
  std::string blas;  // library and, where it tells, the CPU type whose kernels it chose
  std::string aten;  // the widest vectors of libtorch's own operators
  std::string own;   // the widest of ours
};
NumericKernels numeric_kernels();

std::string numeric_kernels_text();  // one line

}  // namespace asr
