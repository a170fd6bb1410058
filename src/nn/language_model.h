// The language model of a Hugging Face folder: the decoders of LLaMA (and Vicuna), Qwen2 and Qwen2.5-VL, with token
// embedding and vocabulary projection. Weights stay in the checkpoint's type; they are computed with in that of the
// input.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "nn/decoder.h"
#include "nn/weights.h"

namespace asr {

class LanguageModel {
 public:
  // Names below `body` ("model.language_model.") and `head` ("lm_head."); `tied` where the projection is the embedding.
  void load(const nlohmann::json& text_config, const std::string& config_path, Weights body, Weights head, bool tied);

  Decoder decoder;
  torch::Tensor embedding;  // [vocabulary, width]
  Linear head;              // [vocabulary, width]

  int64_t vocabulary() const { return embedding.size(0); }
  torch::Tensor logits(const torch::Tensor& hidden) const;

  // Every linear of every layer, named as PEFT names them; `prefix` as for `body`.
  std::vector<AdapterSite> sites(const std::string& prefix);

  template <class Visit>
  void each_weight(const Visit& visit) {
    visit(embedding);
    if (!tied_) visit(head.weight);
    for (auto& l : decoder.layers) {
      visit(l.attention_norm.weight);
      visit(l.mlp_norm.weight);
      for (auto* linear : {&l.q, &l.k, &l.v, &l.o, &l.gate, &l.up, &l.down}) {
        visit(linear->weight);
        if (linear->bias.defined()) visit(linear->bias);
      }
    }
    visit(decoder.final_norm.weight);
    if (tied_) head.weight = embedding;
  }

 private:
  bool tied_ = false;
};

}  // namespace asr
