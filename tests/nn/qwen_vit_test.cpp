// The Qwen2.5-VL vision tower against a plain computation in double that reorders nothing, on small random models.
#include "nn/qwen_vit.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/random_model.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

using nlohmann::json;

constexpr int64_t width = 16, heads = 2, inner = 24;
constexpr int64_t patch_values = 3 * 2 * 2 * 2, out_width = 10;

RandomModel qwen_model() {
  RandomModel model(14);
  model.tensor("patch_embed.proj.weight", {width, 3, 2, 2, 2}, 0.3);
  for (int i = 0; i < 3; ++i) {
    const auto at = "blocks." + std::to_string(i) + ".";
    model.norm(at + "norm1", width, false);
    model.norm(at + "norm2", width, false);
    model.linear(at + "attn.qkv", 3 * width, width);
    model.linear(at + "attn.proj", width, width);
    model.linear(at + "mlp.gate_proj", inner, width);
    model.linear(at + "mlp.up_proj", inner, width);
    model.linear(at + "mlp.down_proj", width, inner);
  }
  model.norm("merger.ln_q", width, false);
  model.linear("merger.mlp.0", 4 * width, 4 * width);
  model.linear("merger.mlp.2", out_width, 4 * width);
  return model;
}

json qwen_config() {
  return {{"vision_config",
           {{"hidden_size", width},
            {"intermediate_size", inner},
            {"num_heads", heads},
            {"depth", 3},
            {"patch_size", 2},
            {"temporal_patch_size", 2},
            {"spatial_merge_size", 2},
            {"window_size", 8},  // two blocks of two patches of two pixels
            {"fullatt_block_indexes", {1}},
            {"out_hidden_size", out_width}}}};
}

// Where each patch of the sequence lies; blocks of 2 x 2 patches follow each other.
struct Place {
  int64_t image, frame, row, column;
};

std::vector<Place> places(const std::vector<PatchGrid>& grids) {
  std::vector<Place> out;
  for (size_t i = 0; i < grids.size(); ++i)
    for (int64_t n = 0; n < grids[i][0] * grids[i][1] * grids[i][2]; ++n) {
      const int64_t frame = n / (grids[i][1] * grids[i][2]), rest = n % (grids[i][1] * grids[i][2]);
      const int64_t block = rest / 4, blocks = grids[i][2] / 2;
      out.push_back({static_cast<int64_t>(i), frame, block / blocks * 2 + rest % 4 / 2, block % blocks * 2 + rest % 2});
    }
  return out;
}

// Turns pairs (j, j + d/2) of each head; d is 8 here: two pairs with the row, two with the column.
torch::Tensor plain_turn(const torch::Tensor& x, const std::vector<Place>& at) {  // [N, width]
  auto out = x.clone();
  const int64_t d = width / heads;
  for (int64_t n = 0; n < x.size(0); ++n)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t j = 0; j < d / 2; ++j) {
        const auto& place = at[static_cast<size_t>(n)];
        const double speed = std::pow(10000.0, -static_cast<double>(j % (d / 4)) / static_cast<double>(d / 4));
        const double angle = speed * static_cast<double>(j < d / 4 ? place.row : place.column);
        const auto a = x[n][h * d + j], b = x[n][h * d + j + d / 2];
        out[n][h * d + j] = a * std::cos(angle) - b * std::sin(angle);
        out[n][h * d + j + d / 2] = b * std::cos(angle) + a * std::sin(angle);
      }
  return out;
}

// Nothing is reordered here: who sees whom is one matrix.
torch::Tensor plain_qwen(const RandomModel& model, const torch::Tensor& pixels, const std::vector<PatchGrid>& grids) {
  const auto at = places(grids);
  const auto count = static_cast<int64_t>(at.size());
  auto other_frame = torch::ones({count, count}, at::kBool), other_window = other_frame.clone();
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j < count; ++j) {
      const auto &a = at[static_cast<size_t>(i)], &b = at[static_cast<size_t>(j)];
      const bool frame = a.image == b.image && a.frame == b.frame;
      if (frame) other_frame[i][j] = false;
      if (frame && a.row / 4 == b.row / 4 && a.column / 4 == b.column / 4) other_window[i][j] = false;
    }
  auto x = model.apply("patch_embed.proj", pixels.to(at::kDouble));
  for (int i = 0; i < 3; ++i) {
    const auto name = "blocks." + std::to_string(i) + ".";
    const auto qkv = model.apply(name + "attn.qkv", model.rms_normed(name + "norm1", x, 1e-6));
    const auto part = [&](int64_t which) { return qkv.narrow(1, which * width, width).contiguous(); };
    const auto weights = plain_weights(plain_turn(part(0), at).unsqueeze(0), plain_turn(part(1), at).unsqueeze(0),
                                       heads, i == 1 ? other_frame : other_window);
    x = x + model.apply(name + "attn.proj", plain_mix(weights, part(2).unsqueeze(0))[0]);
    const auto normed = model.rms_normed(name + "norm2", x, 1e-6);
    const auto gate = model.apply(name + "mlp.gate_proj", normed);
    x = x + model.apply(name + "mlp.down_proj", gate / (1 + (-gate).exp()) * model.apply(name + "mlp.up_proj", normed));
  }
  const auto joined = model.rms_normed("merger.ln_q", x, 1e-6).view({count / 4, 4 * width});
  return model.apply("merger.mlp.2", RandomModel::gelu(model.apply("merger.mlp.0", joined)));
}

torch::Tensor grid_tensor(const std::vector<PatchGrid>& grids) {
  auto out = torch::zeros({static_cast<int64_t>(grids.size()), 3}, at::kLong);
  for (size_t i = 0; i < grids.size(); ++i)
    for (size_t j = 0; j < 3; ++j) out[static_cast<int64_t>(i)][static_cast<int64_t>(j)] = grids[i][j];
  return out;
}

torch::Tensor random_patches(const std::vector<PatchGrid>& grids) {
  return torch::randn({static_cast<int64_t>(places(grids).size()), patch_values});
}

TEST(QwenVit, WindowsEqualMaskedFullAttention) {
  const auto model = qwen_model();
  const auto weights = model.weights();
  QwenVit tower(qwen_config(), weights);
  weights.finish();
  // Whole windows; windows cut at both edges; several images; a video; the smallest image.
  const std::vector<std::vector<PatchGrid>> cases = {
      {{1, 4, 8}}, {{1, 6, 10}}, {{1, 8, 8}, {1, 2, 6}, {1, 6, 4}}, {{3, 6, 4}, {1, 4, 4}}, {{1, 2, 2}}};
  for (const auto& grids : cases) {
    const auto pixels = random_patches(grids);
    const auto expected = plain_qwen(model, pixels, grids);
    expect_close(tower(pixels, grid_tensor(grids), Pass()), expected, 1e-5, "float");
  }
  const auto pixels = random_patches(cases[2]);
  const auto expected = plain_qwen(model, pixels, cases[2]);
  expect_close(tower(pixels.to(at::kBFloat16), grid_tensor(cases[2]), Pass()), expected, 0.05, "bfloat16");
  int64_t visited = 0;
  tower.each([&](torch::Tensor& weight) {
    visited += weight.numel();
    weight = weight.to(at::kDouble);
  });
  EXPECT_EQ(visited, model.size());
  expect_close(tower(pixels.to(at::kDouble), grid_tensor(cases[2]), Pass()), expected, 1e-12, "double");
}

TEST(QwenVit, WindowOrderKeepsWindowsTogether) {
  const auto windows = window_order({{1, 6, 6}, {2, 2, 4}}, 2, 2);  // 3 x 3 blocks, then two frames of 1 x 2
  EXPECT_EQ(windows.order, (std::vector<int64_t>{0, 1, 3, 4, 2, 5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(windows.lengths, (std::vector<int64_t>{4, 2, 2, 1, 2, 2}));
}

TEST(QwenVit, ImagesDoNotSeeEachOther) {
  const QwenVit tower(qwen_config(), qwen_model().weights());
  const std::vector<PatchGrid> one = {{1, 6, 6}}, other = {{1, 4, 8}};
  const auto a = random_patches(one), b = random_patches(other);
  const auto joint = tower(at::cat({a, b}), grid_tensor({one[0], other[0]}), Pass());
  expect_close(joint.slice(0, 0, 9), tower(a, grid_tensor(one), Pass()), 1e-5, "first");
  expect_close(joint.slice(0, 9), tower(b, grid_tensor(other), Pass()), 1e-5, "second");
}

TEST(QwenVit, GradientsReachExpertsOfTheMerger) {
  QwenVit tower(qwen_config(), qwen_model().weights());
  const std::vector<PatchGrid> grids = {{1, 6, 4}};
  const auto pixels = random_patches(grids);
  const auto base = tower(pixels, grid_tensor(grids), Pass());
  const auto experts =
      add_experts({{"visual.merger.mlp.0", &tower.merger_in}, {"visual.merger.mlp.2", &tower.merger_out}}, 2, 4, 1);
  EXPECT_TRUE(tower(pixels, grid_tensor(grids), Pass()).equal(base));  // B begins at zero
  std::vector<torch::Tensor> parameters;
  for (const auto& [name, tensor] : experts) {
    if (name.find("lora_B") != std::string::npos) tensor.data().normal_();
    parameters.push_back(tensor);
  }
  const auto loss = [&] { return tower(pixels, grid_tensor(grids), Pass()).square().sum(); };
  const auto grads = gradients(loss(), parameters);
  for (size_t i = 0; i < grads.size(); ++i) {
    ASSERT_TRUE(grads[i].defined()) << experts[i].first;
    EXPECT_GT(grads[i].abs().max().item<double>(), 0) << experts[i].first;
  }
  Pass without;
  without.slots = 0;
  EXPECT_TRUE(tower(pixels, grid_tensor(grids), without).equal(base));
}

TEST(QwenVit, ComputesTheSameOnEveryDevice) {
  QwenVit tower(qwen_config(), qwen_model().weights());
  const std::vector<PatchGrid> grids = {{1, 6, 10}, {2, 4, 4}};
  const auto pixels = random_patches(grids), grid = grid_tensor(grids);
  const auto expected = tower(pixels, grid, Pass());
  for (const auto& device : devices()) {
    tower.each([&](torch::Tensor& weight) { weight = weight.to(device); });
    expect_close(tower(pixels.to(device), grid, Pass()), expected, 1e-4, device.str());
    const auto coarse = tower(pixels.to(device, at::kBFloat16), grid.to(device), Pass());
    EXPECT_EQ(coarse.scalar_type(), at::kBFloat16);
    expect_close(coarse, expected, 0.05, device.str() + ", bfloat16");
  }
}

TEST(QwenVit, RefusesWrongGrids) {
  const QwenVit tower(qwen_config(), qwen_model().weights());
  const auto refused = [&](const std::vector<PatchGrid>& grids, int64_t patches) {
    return error_of([&] { tower(torch::zeros({patches, patch_values}), grid_tensor(grids), Pass()); });
  };
  EXPECT_CONTAINS(refused({{1, 4, 4}}, 12), "pixel_values has 12 patches, but image_grid_thw adds up to 16");
  EXPECT_CONTAINS(refused({{1, 3, 4}}, 12), "no multiple of blocks of 2 x 2");
  EXPECT_CONTAINS(refused({{0, 4, 4}}, 0), "image_grid_thw row 0");
}

}  // namespace
}  // namespace asr
