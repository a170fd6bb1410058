// Why a GPU cannot be used: each case has its own line and its own remedy.
#include "tensor/cuda_facts.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include "tests/support/files.h"

namespace asr {
namespace {

CudaFacts wheel(int runtime, int driver, int devices, const std::string& error = "") {
  return {true, runtime, driver, devices, error};
}

TEST(CudaFacts, AWheelOfAnotherCudaIsNamed) {
  const auto said =
      cuda_problem(wheel(13000, 12040, 0, "CUDA driver version is insufficient for CUDA runtime version"));
  EXPECT_CONTAINS(said, "for CUDA 13.0");
  EXPECT_CONTAINS(said, "up to 12.4");
  EXPECT_CONTAINS(said, "a libtorch for CUDA 12");
}

TEST(CudaFacts, EveryProblemIsOneLineWithARemedy) {
  EXPECT_EQ(cuda_problem(wheel(12040, 13000, 1)), "");
  EXPECT_CONTAINS(cuda_problem({}), "this build has no CUDA");
  EXPECT_CONTAINS(cuda_problem(wheel(13000, 0, 0, "no CUDA-capable device is detected")), "no NVIDIA driver");
  EXPECT_CONTAINS(cuda_problem(wheel(12040, 13000, 0, "no CUDA-capable device is detected")), "CUDA_VISIBLE_DEVICES");
  for (const auto& facts : {CudaFacts{}, wheel(13000, 12000, 0), wheel(13000, 0, 0), wheel(12000, 12000, 0)}) {
    EXPECT_CONTAINS(cuda_problem(facts), "use cpu");
    EXPECT_EQ(cuda_problem(facts).find('\n'), std::string::npos);
  }
}

TEST(CudaFacts, AgreeWithThisMachine) {
  const auto facts = cuda_facts();
  EXPECT_EQ(cuda_problem(facts).empty(), at::hasCUDA());
  EXPECT_EQ(device_memory().has_value(), at::hasCUDA());
  if (at::hasCUDA()) return;
  EXPECT_CONTAINS(error_of([] { check_cuda("device=cuda"); }), "device=cuda: ");
}

}  // namespace
}  // namespace asr
