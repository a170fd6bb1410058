// The Qwen2.5-VL vision tower. It takes images of any size as rows of patches, already in the order of the merger's
// blocks. Most layers attend within windows of the image, some within whole frames; nothing of the size of the whole
// sequence squared is formed. The merger, which joins blocks of patches into tokens of the language model, is part of
// it.
#pragma once

#include <torch/types.h>

#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "nn/attention.h"
#include "nn/vision_parts.h"

namespace asr {

// Stretches of a sequence that attend within themselves. Those of equal length are computed together.
struct Segments {
  struct Group {
    int64_t length = 0;
    torch::Tensor index;  // positions of its segments one after another; undefined where they are the whole sequence
  };
  std::vector<Group> groups;
  torch::Tensor back;  // where each position lies in the joined groups; undefined for one group
};
Segments make_segments(const std::vector<int64_t>& lengths, at::Device device);

// q, k, v [1, heads, N, d] -> [1, N, heads * d].
torch::Tensor attend_within(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const Segments& segments);

// An image's (or video's) patches: frames, height and width.
using PatchGrid = std::array<int64_t, 3>;

// In which order the merger's blocks stand so that windows of `window` x `window` blocks are stretches of the sequence.
struct WindowOrder {
  std::vector<int64_t> order;    // the block at each place
  std::vector<int64_t> lengths;  // blocks of each window
};
WindowOrder window_order(const std::vector<PatchGrid>& grids, int64_t merge, int64_t window);

struct QwenVisionLayer {
  RmsNorm attention_norm, mlp_norm;
  Linear qkv, o, gate, up, down;
};

class QwenVit {
 public:
  struct Config {
    int64_t width = 0, heads = 0, mlp = 0, channels = 3, frames = 2, patch = 14;
    int64_t merge = 2;   // sides of the blocks of patches that become one token
    int64_t window = 4;  // sides of an attention window, in blocks
    int64_t out = 0;     // the language model's width
    double theta = 10000;
    Activation activation = Activation::silu;
  } config;

  Linear patches;
  std::vector<QwenVisionLayer> layers;
  std::vector<bool> whole;  // a layer: attends within whole frames
  RmsNorm merger_norm;
  Linear merger_in, merger_out;  // "merger.mlp.0" and "merger.mlp.2"

  QwenVit() = default;
  // `config` is the whole config.json of a Qwen2.5-VL model, `weights` stands below the tower's prefix.
  QwenVit(const nlohmann::json& config, Weights weights);

  // pixels [N, channels * frames * patch * patch] of all images one after another, grid [images, 3] int64 ->
  // [N / merge^2, out], in the order of the images. `states`, where asked for, gets those before the merger, [N,
  // width]: image after image, the patches of each in another order.
  // `pass.row_samples`, where given, counts the patches.
  torch::Tensor operator()(const torch::Tensor& pixels, const torch::Tensor& grid, const Pass& pass,
                           torch::Tensor* states = nullptr) const;

  // The linears of its attention, named below `prefix` as transformers names them.
  std::vector<AdapterSite> sites(const std::string& prefix);
  bool adapted() const;  // whether one of them carries an expert

  template <class F>
  void each(F&& f) {
    each_weight(f, patches, merger_norm, merger_in, merger_out);
    for (auto& l : layers) each_weight(f, l.attention_norm, l.mlp_norm, l.qkv, l.o, l.gate, l.up, l.down);
  }

 private:
  torch::Tensor run_layer(const QwenVisionLayer& l, const torch::Tensor& x, const RotaryTable& rotary,
                          const Segments& segments, const Pass& pass) const;
};

}  // namespace asr
