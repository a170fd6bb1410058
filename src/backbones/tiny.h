// The built-in backbone: a small vision transformer, a projector and a causal decoder over [visual tokens, question,
// answer]. It is LLaVA's architecture in the small, so that whatever holds here meets the same code paths as a real
// model.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "nn/decoder.h"
#include "nn/vit.h"

namespace asr {

struct TinyConfig {
  VitConfig vision;
  DecoderConfig text;
  int64_t vocabulary = 0;
};
TinyConfig tiny_config(const std::string& size, int64_t vocabulary);  // "S", "M" or "L"

// A batch as the model takes it: text is padded on the right, labels are -1 except at answer tokens.
struct TinyBatch {
  torch::Tensor pixels;     // [B, 3, H, W] in 0..1
  torch::Tensor ids, mask;  // [B, T] int64, bool
  torch::Tensor labels;     // [B, T] int64: the token that must come at this position, or -1
  torch::Tensor question;   // [B, T] bool: question tokens, neither special nor answer
};

struct TinyOutput {
  torch::Tensor loss;         // scalar, the mean over answer tokens
  torch::Tensor attention;    // [B, L, heads, Tq, grid, grid] if tapped; rows are question tokens, padded with zeros
  torch::Tensor rows;         // [B, Tq] positions in the text, -1 for padding
  torch::Tensor image, text;  // [B, width]: mean hidden state over visual and over question positions
};

class TinyBackbone {
 public:
  static TinyBackbone random(const TinyConfig& config, uint64_t seed);
  static TinyBackbone load(const std::string& path);
  void save(const std::string& path) const;  // bfloat16
  void to(at::Device device);

  // `tap_layers` last decoder layers are tapped; 0 for none.
  TinyOutput forward(const TinyBatch& batch, const Pass& pass, int64_t tap_layers) const;

  // Greedy continuation of each question by at most `limit` tokens, ending at `end`; with a key-value cache.
  std::vector<std::vector<int64_t>> generate(const TinyBatch& batch, const Pass& pass, int64_t limit,
                                             int64_t end) const;

  // LoRA on q and v of every decoder layer and on the projector. Returns the trainable tensors with their names.
  std::vector<std::pair<std::string, torch::Tensor>> add_experts(int64_t rank, double alpha, uint64_t seed);
  std::vector<std::pair<std::string, torch::Tensor>> named_weights() const;  // the base, without experts

  const TinyConfig& config() const { return config_; }
  torch::Tensor logits(const torch::Tensor& hidden) const;  // tied to the embedding

 private:
  TinyConfig config_;
  Vit vision_;
  Linear projector_in_, projector_out_;
  torch::Tensor embedding_;  // [vocabulary, width]
  Decoder decoder_;

  torch::Tensor visual_tokens(const torch::Tensor& pixels, const Pass& pass) const;
  template <class Visit>
  static void visit(TinyBackbone& model, const Visit& visit);  // every weight with its name and shape, once
};

}  // namespace asr
