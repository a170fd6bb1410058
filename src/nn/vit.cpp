#include "nn/vit.h"

#include <algorithm>

#include "base/error.h"
#include "nn/adapter_sites.h"
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

std::vector<AdapterSite> Vit::sites(const std::string& prefix) {
  std::vector<AdapterSite> out;
  for (size_t i = 0; i < layers.size(); ++i) {
    auto& l = layers[i];
    add_sites(out, cat(prefix, "layers.", i, "."), static_cast<int64_t>(i),
              {{"qkv", &l.qkv, SitePart::vision}, {"o", &l.o, SitePart::vision}});
  }
  return out;
}

bool Vit::adapted() const {
  return std::any_of(layers.begin(), layers.end(), [](const auto& l) { return any_adapted({&l.qkv, &l.o}); });
}

}  // namespace asr
