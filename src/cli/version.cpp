#include "cli/version.h"

#include <fmt/format.h>

#include "spectral/descriptor.h"
#include "tensor/numeric_kernels.h"
#include "tensor/runtime.h"

namespace asr {

std::string program_version() {
  return ASR_VERSION;
}

nlohmann::json version_info() {
  const auto runtime = runtime_info();
  const auto kernels = numeric_kernels();
  return {{"version", ASR_VERSION},
          {"build", ASR_BUILD_TYPE},
          {"libtorch", runtime.torch_version},
          {"kernel", fused_kernel_name()},
          {"cpu", kernels.cpu},
          {"blas", kernels.blas},
          {"aten", kernels.aten},
          {"threads", runtime.threads},
          {"blas_threads", runtime.blas_threads},
          {"allocator_tuned", runtime.allocator_tuned},
          {"cuda", runtime.cuda}};
}

std::string version_text() {
  const auto info = version_info();
  return fmt::format("asr {} ({}, libtorch {}, kernel {}, {} threads, CUDA {})", info["version"].get<std::string>(),
                     info["build"].get<std::string>(), info["libtorch"].get<std::string>(),
                     info["kernel"].get<std::string>(), info["threads"].get<int>(),
                     info["cuda"].get<bool>() ? "yes" : "no");
}

}  // namespace asr
