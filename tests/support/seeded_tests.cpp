// Every test begins with the same random numbers: libtorch draws its first seed from the machine, so a test that sets
// none would see others each time, and fail once in a while.
#include <ATen/Context.h>
#include <gtest/gtest.h>

namespace asr {
namespace {

class SeedBeforeEachTest final : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override { at::manual_seed(1); }
};

[[maybe_unused]] const bool kListens = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new SeedBeforeEachTest);  // which owns it
  return true;
}();

}  // namespace
}  // namespace asr
