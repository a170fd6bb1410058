// The geometry loss against its plain form: values and gradients.
#include "ops/geometry_loss.h"

#include "tests/support/files.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

TEST(GeometryLoss, FusedAgreesWithThePlainForm) {
  torch::manual_seed(11);
  for (const int64_t B : {1, 2, 32, 64})  // the largest goes through the library
    for (const auto type : {at::kFloat, at::kDouble}) {
      const auto random = [&] { return torch::randn({B, 27}, at::kDouble).to(type); };
      const auto wide = [](const torch::Tensor& x) { return x.detach().to(at::kDouble); };
      const auto image = random().requires_grad_(), text = random().requires_grad_(), a = random(), b = random();
      const auto image2 = wide(image).requires_grad_(), text2 = wide(text).requires_grad_();
      const auto found = geometry_loss_cpu(image, text, a, b) * 3,
                 expected = geometry_loss_reference(image2, text2, wide(a), wide(b)) * 3;
      const auto grads = gradients(found, {image, text}), right = gradients(expected, {image2, text2});
      const double tolerance = type == at::kFloat ? 2e-5 : 1e-12;
      if (B == 1) {  // one sample is like itself whatever it is
        EXPECT_EQ(found.item<double>(), 0);
        continue;
      }
      expect_close(found, expected, tolerance, cat("loss of ", B));
      for (size_t i = 0; i < 2; ++i) expect_close(grads[i], right[i], tolerance, cat("gradient ", i, " of ", B));
    }
  const auto x = torch::randn({3, 4}).requires_grad_(), r = torch::randn({3, 4});
  EXPECT_CONTAINS(
      error_of([&] { torch::autograd::grad({geometry_loss(x, r, r, r)}, {x}, {}, none, /*create_graph=*/true); }),
      "second derivative");
}

}  // namespace
}  // namespace asr
