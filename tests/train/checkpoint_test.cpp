#include "train/checkpoint.h"

#include <gtest/gtest.h>

#include "tests/support/files.h"

namespace asr {
namespace {

// A checksum can be forged with the tensors; a shape that does not fit is then named, not copied.
TEST(CheckpointTensors, OfAnotherShapeAreNamed) {
  Checkpoint checkpoint;
  checkpoint.tensors = {{"adapter.a", at::zeros({2, 3})}};
  EXPECT_EQ(checkpoint.at("adapter.a", {2, 3}).numel(), 6);
  EXPECT_CONTAINS(error_of([&] { checkpoint.at("adapter.a", {6}); }), "the checkpoint: 'adapter.a' has shape");
  EXPECT_CONTAINS(error_of([&] { checkpoint.at("adapter.b", {6}); }), "holds no 'adapter.b'");
}

}  // namespace
}  // namespace asr
