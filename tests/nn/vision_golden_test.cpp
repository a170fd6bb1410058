// The vision towers against what Hugging Face transformers computes with the same small models.
#include <gtest/gtest.h>

#include <iostream>

#include "nn/clip_vit.h"
#include "nn/eva_vit.h"
#include "nn/intern_vit.h"
#include "nn/qformer.h"
#include "nn/qwen_vit.h"
#include "tests/support/golden.h"

namespace asr {
namespace {

constexpr double tolerance = 1e-4;

void expect_near(const torch::Tensor& found, const torch::Tensor& expected, const std::string& what) {
  ASSERT_EQ(found.sizes(), expected.sizes()) << what;
  const double apart = (found - expected).abs().max().item<double>();
  EXPECT_LE(apart, tolerance) << what;
  std::cout << what << ": largest difference " << apart << "\n";
}

Mlp projector(Weights& weights, const std::string& name, int64_t in, int64_t out) {
  return {weights.linear(name + ".linear_1", out, in, true), weights.linear(name + ".linear_2", out, out, true),
          Activation::gelu};
}

TEST(VisionGolden, Llava) {
  const auto golden = open_golden("llava-a");
  if (IsSkipped()) return;
  Weights weights(golden.folder);
  const ClipVit tower(golden.config, weights.below("vision_tower."));
  EXPECT_EQ(tower.layers.size(), 3u);  // the last of four is not needed
  const auto found = projector(weights, "multi_modal_projector", tower.width(), 64)(
      tower(golden.real("in.pixel_values"), Pass()), Pass());
  expect_near(found.flatten(0, 1), golden.real("out.image_features"), "llava-a");
}

TEST(VisionGolden, Internvl) {
  const auto golden = open_golden("internvl3-a");
  if (IsSkipped()) return;
  Weights weights(golden.folder);
  const InternVit tower(golden.config, weights.below("vision_tower."));
  const auto norm = weights.layer_norm("multi_modal_projector.layer_norm", tower.width(), 1e-5);
  const auto tokens = tower(golden.real("in.pixel_values"), Pass());
  const auto found = projector(weights, "multi_modal_projector", tower.width(), 64)(norm(tokens), Pass());
  expect_near(found, golden.real("out.image_features"), "internvl3-a");
}

TEST(VisionGolden, Qwen) {
  const auto golden = open_golden("qwen2_5_vl-a");
  if (IsSkipped()) return;
  const QwenVit tower(golden.config, Weights(golden.folder).below("visual."));
  const auto found = tower(golden.real("in.pixel_values"), golden.index("in.image_grid_thw"), Pass());
  expect_near(found, golden.real("out.image_features"), "qwen2_5_vl-a");
}

TEST(VisionGolden, Instructblip) {
  const auto golden = open_golden("instructblip-a");
  if (IsSkipped()) return;
  Weights weights(golden.folder);
  const EvaVit tower(golden.config, weights.below("vision_model."));
  const QFormer former(golden.config, weights);
  const auto image = tower(golden.real("in.pixel_values"), Pass());
  const auto ids = golden.index("in.qformer_input_ids"), mask = golden.index("in.qformer_attention_mask");
  TapRequest request;
  request.layers = {0, 1};
  request.rows = at::arange(former.queries).expand({2, -1});
  request.columns = at::arange(1, image.size(1)).expand({2, -1});
  TapResult tapped;
  const auto found = former(image, ids, mask, Pass(), {&request, &tapped});
  // Rows of padding words are nobody's.
  const auto real = at::cat({torch::ones({2, former.queries}), mask.to(at::kFloat)}, 1).unsqueeze(-1);
  expect_near(found * real, golden.real("out.qformer") * real, "instructblip-a, Q-Former");
  const auto projection = weights.linear("language_projection", 64, former.width, true);
  expect_near(projection(found.narrow(1, 0, former.queries), Pass()), golden.real("out.image_features"),
              "instructblip-a, image features");
  ASSERT_EQ(tapped.layers.size(), 2u);
  for (size_t i = 0; i < 2; ++i)
    expect_near(tapped.layers[i], golden.real("out.attn." + std::to_string(i)).slice(3, 1),
                "instructblip-a, cross-attention " + std::to_string(i));
}

}  // namespace
}  // namespace asr
