// A tiny model computed by hand from its named weights, in double; `added` goes on top of the weights of these linears.
#pragma once

#include <map>
#include <string>

#include "backbones/tiny.h"
#include "base/error.h"
#include "tests/support/plain_decoder.h"

namespace asr {

class PlainTiny {
 public:
  explicit PlainTiny(const TinyBackbone& model, const std::map<std::string, torch::Tensor>& added = {}) {
    for (const auto& [name, weight] : model.named_weights()) weights_[name] = weight.to(at::kDouble);
    for (const auto& [name, product] : added) weights_.at(name + ".weight") += product.to(at::kDouble);
    decoder_.config = model.config().text;
    for (int64_t i = 0; i < decoder_.config.layers; ++i) {
      const auto at = cat("layers.", i, ".");
      DecoderLayer l;
      l.attention_norm = {weights_.at(at + "attention_norm.weight")};
      l.mlp_norm = {weights_.at(at + "mlp_norm.weight")};
      const std::map<std::string, Linear*> parts = {{"q", &l.q},       {"k", &l.k},   {"v", &l.v},      {"o", &l.o},
                                                    {"gate", &l.gate}, {"up", &l.up}, {"down", &l.down}};
      for (const auto& [name, linear] : parts) linear->weight = weights_.at(at + name + ".weight");
      if (decoder_.config.cross) {
        l.cross.norm = {weights_.at(at + "cross.norm.weight")};
        const std::map<std::string, Linear*> crossing = {
            {"q", &l.cross.q}, {"k", &l.cross.k}, {"v", &l.cross.v}, {"o", &l.cross.o}};
        for (const auto& [name, linear] : crossing) linear->weight = weights_.at(at + "cross." + name + ".weight");
      }
      decoder_.layers.push_back(l);
    }
    decoder_.final_norm = {weights_.at("final_norm.weight")};
  }
  torch::Tensor weight(const std::string& name) const { return weights_.at(name).to(at::kDouble); }
  torch::Tensor project(const torch::Tensor& features) const {
    const auto inner = features.to(at::kDouble).matmul(weight("projector.in.weight").t()) + weight("projector.in.bias");
    const auto middle = inner * 0.5 * (1 + (inner / std::sqrt(2.0)).erf());
    return middle.matmul(weight("projector.out.weight").t()) + weight("projector.out.bias");
  }
  torch::Tensor words(const torch::Tensor& ids) const { return at::embedding(weight("embedding.weight"), ids); }
  torch::Tensor logits(const torch::Tensor& hidden) const { return hidden.matmul(weight("embedding.weight").t()); }
  PlainStates run(const torch::Tensor& x, const torch::Tensor& mask, const torch::Tensor& memory) const {
    const auto positions = at::arange(x.size(1)).expand({x.size(0), x.size(1)});
    return PlainDecoder(decoder_)(x, positions, mask, memory);
  }
  torch::Tensor early(const torch::Tensor& x, const torch::Tensor& mask, const torch::Tensor& memory,
                      size_t layer) const {
    const auto positions = at::arange(x.size(1)).expand({x.size(0), x.size(1)});
    const auto first = first_layers(decoder_, layer);
    return PlainDecoder(first)(x, positions, mask, memory).hidden;
  }

 private:
  std::map<std::string, torch::Tensor> weights_;
  Decoder decoder_;
};

}  // namespace asr
