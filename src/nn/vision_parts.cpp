#include "nn/vision_parts.h"

#include "base/error.h"
#include "nn/attention.h"

namespace asr {

TowerShape read_tower_shape(const ModelConfig& vision, const TowerShape& otherwise) {
  TowerShape out = otherwise;
  out.image = vision.sides("image_size", otherwise.image[0]);
  out.patch = vision.sides("patch_size", otherwise.patch[0]);
  out.channels = vision.count("num_channels", otherwise.channels);
  out.width = vision.count("hidden_size", otherwise.width);
  out.layers = vision.count("num_hidden_layers", otherwise.layers);
  out.heads = vision.count("num_attention_heads", otherwise.heads);
  out.mlp = vision.count("intermediate_size", otherwise.mlp);
  out.eps = vision.number("layer_norm_eps", otherwise.eps);
  if (vision.find("hidden_act")) out.activation = activation_named(vision.text("hidden_act", ""));
  check(out.width % out.heads == 0, vision.name_of("hidden_size"), " (", out.width,
        ") is no multiple of num_attention_heads (", out.heads, ")");
  check(out.rows() > 0 && out.columns() > 0, vision.name_of("image_size"), " is smaller than a patch");
  return out;
}

Linear take_patch_embedding(Weights& weights, const std::string& name, const TowerShape& shape, bool bias) {
  Linear out;
  out.weight = weights.take(name + ".weight", {shape.width, shape.channels, shape.patch[0], shape.patch[1]})
                   .view({shape.width, -1});
  if (bias) out.bias = weights.take(name + ".bias", {shape.width});
  return out;
}

torch::Tensor cut_patches(const torch::Tensor& pixels, const TowerShape& shape) {
  const int64_t p = shape.patch[0], q = shape.patch[1];
  check(pixels.dim() == 4 && pixels.size(1) == shape.channels && pixels.size(2) % p == 0 && pixels.size(3) % q == 0,
        "pixels ", pixels.sizes(), " cannot be cut into patches of ", shape.channels, " x ", p, " x ", q,
        "; is preprocessor_config.json of this checkpoint?");
  const int64_t batch = pixels.size(0), rows = pixels.size(2) / p, columns = pixels.size(3) / q;
  return pixels.reshape({batch, shape.channels, rows, p, columns, q})
      .permute({0, 2, 4, 1, 3, 5})
      .reshape({batch, rows * columns, shape.channels * p * q});
}

torch::Tensor embed_patches(const torch::Tensor& pixels, const Linear& patches, const torch::Tensor& class_token,
                            const TowerShape& shape, const Pass& pass) {
  const auto embedded = patches(cut_patches(pixels, shape), pass);  // [B, N, width]
  const auto first = class_token.to(embedded.scalar_type()).view({1, 1, -1});
  return at::cat({first.expand({embedded.size(0), 1, first.size(2)}), embedded}, 1);
}

torch::Tensor resize_positions(const torch::Tensor& positions, int64_t rows, int64_t columns, int64_t new_rows,
                               int64_t new_columns) {
  if (rows == new_rows && columns == new_columns) return positions;
  const auto real = positions.to(at::promote_types(positions.scalar_type(), at::kFloat));  // few bits would blur it
  const auto grid = real.narrow(0, 1, rows * columns);
  const auto planes = grid.t().reshape({1, -1, rows, columns});
  const auto resized = at::upsample_bicubic2d(planes, {new_rows, new_columns}, /*align_corners=*/false);
  return at::cat({real.narrow(0, 0, 1), resized.reshape({grid.size(1), -1}).t()}, 0);
}

torch::Tensor attend_all(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v) {
  return attend(q, k, v, {}, /*causal=*/false);
}

}  // namespace asr
