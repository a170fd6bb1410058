// Which implementation serves: by device, type, emptiness and the caller's wish.
#include "ops/dispatch.h"

#include <gtest/gtest.h>

#include "tests/support/files.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

constexpr Kernels kBoth{kSingleAndDouble, kUpToSingle}, kNone{};

TEST(Dispatch, TheKernelServesItsTypesOnTheCpu) {
  const auto x = torch::zeros({2, 3});
  EXPECT_EQ(path_for(kBoth, x), Path::cpu);
  EXPECT_EQ(path_for(kBoth, x.to(at::kDouble)), Path::cpu);
  EXPECT_EQ(path_for(kBoth, x.to(at::kBFloat16)), Path::reference);
  EXPECT_EQ(path_for(kNone, x), Path::reference);
}

TEST(Dispatch, AllTensorsCountButUndefinedOnes) {
  const auto x = torch::zeros({2, 3});
  EXPECT_EQ(path_for(kBoth, x, x, torch::Tensor()), Path::cpu);
  EXPECT_EQ(path_for(kBoth, x, x.to(at::kDouble)), Path::reference);
  EXPECT_EQ(path_for(kBoth, x, torch::zeros({0, 3})), Path::reference);
  EXPECT_EQ(path_for(kBoth, torch::zeros({0, 3}), x), Path::reference);
}

TEST(Dispatch, TheLibraryServesItsTypesOnAGpu) {
  const auto x = torch::zeros({2, 3}, at::device(at::kMeta));  // neither
  EXPECT_EQ(path_for(kBoth, x), Path::reference);
  for (const auto& device : devices()) {
    if (device.is_cpu()) continue;
    const auto y = torch::zeros({2, 3}, device);
    EXPECT_EQ(path_for(kBoth, y), Path::library);
    EXPECT_EQ(path_for(kBoth, y.to(at::kBFloat16), y), Path::library);
    EXPECT_EQ(path_for(kBoth, y.to(at::kDouble)), Path::reference);
    EXPECT_EQ(path_for(kBoth, y, torch::zeros({2, 3})), Path::reference);
  }
}

TEST(Dispatch, AWishIsServedOrRefused) {
  EXPECT_EQ(path_for(Implementation::automatic, Path::library), Path::library);
  EXPECT_EQ(path_for(Implementation::reference, Path::cpu), Path::reference);
  EXPECT_EQ(path_for(Implementation::fused, Path::cpu), Path::cpu);
  EXPECT_CONTAINS(error_of([] { path_for(Implementation::fused, Path::reference); }), "use automatic or reference");
}

}  // namespace
}  // namespace asr
