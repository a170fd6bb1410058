// What the vision towers of Hugging Face models share: patches as rows of a matrix, learnt positions at another size,
// attention over all tokens, and a visit of every weight, with which a model moves to a device.
#pragma once

#include <torch/types.h>

#include <array>
#include <string>

#include "nn/activation.h"
#include "nn/linear.h"
#include "nn/model_config.h"
#include "nn/weights.h"

namespace asr {

// The numbers that every tower with one square or oblong grid of patches has.
struct TowerShape {
  std::array<int64_t, 2> image{}, patch{};  // height and width in pixels
  int64_t channels = 3, width = 0, layers = 0, heads = 0, mlp = 0;
  double eps = 0;
  Activation activation = Activation::gelu;

  int64_t rows() const { return image[0] / patch[0]; }
  int64_t columns() const { return image[1] / patch[1]; }
};

// `otherwise` holds the defaults of the family.
TowerShape read_tower_shape(const ModelConfig& vision, const TowerShape& otherwise);

// A convolution whose stride is its kernel, as a linear map of flattened patches: [width, channels, p, q] read as
// [width, channels * p * q].
Linear take_patch_embedding(Weights& weights, const std::string& name, const TowerShape& shape, bool bias);

// [B, C, H, W] -> [B, H / p * W / q, C * p * q], rows of patches first.
torch::Tensor cut_patches(const torch::Tensor& pixels, const TowerShape& shape);

// Class token and patches of an image, [B, 1 + N, width]; no positions yet.
torch::Tensor embed_patches(const torch::Tensor& pixels, const Linear& patches, const torch::Tensor& class_token,
                            const TowerShape& shape, const Pass& pass);

// Positions [1 + rows * columns, width] of class token and grid, the grid resized (bicubic) to another one.
torch::Tensor resize_positions(const torch::Tensor& positions, int64_t rows, int64_t columns, int64_t new_rows,
                               int64_t new_columns);

// Every query sees every key; q, k, v [B, heads, T, d].
torch::Tensor attend_all(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v);

// Calls f(torch::Tensor&) on the weights of the base. Experts are put on a model after it has moved.
template <class F>
void each_weight(F& f, Linear& linear) {
  f(linear.weight);
  if (linear.bias.defined()) f(linear.bias);
}
template <class F>
void each_weight(F& f, LayerNorm& norm) {
  f(norm.weight);
  f(norm.bias);
}
template <class F>
void each_weight(F& f, RmsNorm& norm) {
  f(norm.weight);
}
template <class F>
void each_weight(F& f, Mlp& mlp) {
  each_weight(f, mlp.up);
  each_weight(f, mlp.down);
}
template <class F>
void each_weight(F& f, torch::Tensor& tensor) {
  if (tensor.defined()) f(tensor);
}
template <class F, class... Parts>
requires(sizeof...(Parts) > 1) void each_weight(F& f, Parts&... parts) {
  (each_weight(f, parts), ...);
}

}  // namespace asr
