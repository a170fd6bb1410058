#include "nn/vit.h"

#include "nn/attention.h"

namespace asr {

torch::Tensor Vit::operator()(const torch::Tensor& pixels, const Pass& pass) const {
  const int64_t batch = pixels.size(0), grid = config.grid(), patch = config.patch;
  // [B, 3, grid, p, grid, p] -> [B, grid, grid, 3, p, p]
  const auto cut = pixels.view({batch, 3, grid, patch, grid, patch})
                       .permute({0, 2, 4, 1, 3, 5})
                       .reshape({batch, grid * grid, 3 * patch * patch});
  auto x = patches(cut, pass) + positions;
  for (const auto& l : layers) {
    const auto parts = l.qkv(l.attention_norm(x), pass).chunk(3, -1);
    const auto mixed = attend(split_heads(parts[0], config.heads), split_heads(parts[1], config.heads),
                              split_heads(parts[2], config.heads), {}, /*causal=*/false);
    x = x + l.o(join_heads(mixed), pass);
    x = x + l.down(at::gelu(l.up(l.mlp_norm(x), pass)), pass);
  }
  return final_norm(x);
}

}  // namespace asr
