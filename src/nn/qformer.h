// The Q-Former of InstructBLIP: learnt query tokens and the instruction's words attend to each other; every few layers
// the queries also look at the image. These cross-attentions are what the tap sees.
#pragma once

#include <torch/types.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "nn/tap.h"
#include "nn/vision_parts.h"

namespace asr {

struct QFormerAttention {
  Linear query, key, value, dense;
  LayerNorm norm;  // of the sum with what came in
};

struct QFormerFeedForward {
  Mlp mlp;
  LayerNorm norm;
};

struct QFormerLayer {
  QFormerAttention self;
  std::optional<QFormerAttention> cross;
  QFormerFeedForward text, queries;
};

// What a forward pass should show of its attention. Only real text may be asked for as a row; -1 gives zeros.
struct QFormerTap {
  const TapRequest* cross =
      nullptr;  // layers count the cross-attentions; rows are queries, columns patches + 1 (0: CLS)
  TapResult* cross_result = nullptr;
  const TapRequest* self = nullptr;  // layers count all layers; rows and columns are places in [queries, text]
  TapResult* self_result = nullptr;
};

class QFormer {
 public:
  int64_t width = 0, heads = 0, queries = 0, image_width = 0;
  torch::Tensor query_tokens;                     // [queries, width]
  torch::Tensor word_embeddings, text_positions;  // [vocabulary, width], [longest, width]
  LayerNorm first_norm;
  std::vector<QFormerLayer> layers;

  QFormer() = default;
  // `config` is the whole config.json of an InstructBLIP model; `weights` stands above "query_tokens" and "qformer.".
  QFormer(const nlohmann::json& config, Weights weights);

  int64_t cross_attentions() const;

  // image [B, 1 + N, image width]; ids and mask [B, T], mask true at real words -> [B, queries + T, width]. T may be 0.
  torch::Tensor operator()(const torch::Tensor& image, const torch::Tensor& ids, const torch::Tensor& mask,
                           const Pass& pass, const QFormerTap& tap = {}) const;

  // The linears of every attention, named below `prefix` as PEFT names them:
  // "<prefix>encoder.layer.0.attention...".
  std::vector<AdapterSite> sites(const std::string& prefix);

  template <class F>
  void each(F&& f) {
    each_weight(f, query_tokens, word_embeddings, text_positions, first_norm);
    const auto attention = [&](QFormerAttention& a) { each_weight(f, a.query, a.key, a.value, a.dense, a.norm); };
    for (auto& l : layers) {
      attention(l.self);
      if (l.cross) attention(*l.cross);
      each_weight(f, l.text.mlp, l.text.norm, l.queries.mlp, l.queries.norm);
    }
  }

 private:
  torch::Tensor embed(const torch::Tensor& ids, at::ScalarType type) const;
  // x looks at the context, where key_mask is true or undefined.
  struct Looking {
    torch::Tensor x, context, key_mask;
  };
  torch::Tensor attention(const QFormerAttention& a, const Looking& looking, const Pass& pass,
                          const LayerTap& tap) const;
};

}  // namespace asr
