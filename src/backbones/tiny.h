// The built-in backbones: a small vision transformer, a projector and a causal decoder. `tiny` puts the visual tokens
// before the text, as LLaVA does; `tiny_cross` looks at them through explicit cross-attention. Whatever holds here
// meets the same code paths as a real model.
#pragma once

#include "backbones/backbone.h"
#include "io/word_tokenizer.h"
#include "nn/decoder.h"
#include "nn/vit.h"

namespace asr {

struct TinyConfig {
  VitConfig vision;
  DecoderConfig text;  // text.cross makes it tiny_cross
  std::string size;    // "S", "M" or "L", or "custom"
  int64_t vocabulary = 0;
};
TinyConfig tiny_config(const std::string& kind, const std::string& size);  // "tiny" or "tiny_cross"

class TinyBackbone final : public Backbone {
 public:
  static std::unique_ptr<TinyBackbone> random(TinyConfig config, const WordTokenizer& tokenizer, uint64_t seed);
  static std::unique_ptr<TinyBackbone> load(const std::string& path);
  void save(const std::string& path) const;  // bfloat16, with the vocabulary

  std::string name() const override;
  int64_t image_size() const override { return config_.vision.image; }
  int64_t layers() const override { return config_.text.layers; }
  int64_t width() const override { return config_.text.width; }
  const WordTokenizer& tokenizer() const override { return tokenizer_; }
  at::Device device() const override { return embedding_.device(); }
  void to(at::Device device) override;

  torch::Tensor encode_images(const torch::Tensor& pixels) const override;
  Output forward(const Batch& batch, const Pass& pass, const Want& want) const override;
  Batch without_pictures(const Batch& batch) const override;
  std::vector<std::vector<int64_t>> generate(const Batch& batch, const Pass& pass, int64_t limit) const override;
  std::vector<AdapterSite> all_sites() override;
  torch::Tensor token_embedding() const override { return embedding_; }
  bool vision_adapted() const override { return vision_.adapted(); }
  NamedParameters named_weights() const;  // the base, without experts
  void configure(const BackboneOptions& options) override;

  const TinyConfig& config() const { return config_; }
  torch::Tensor logits(const torch::Tensor& hidden) const;  // tied to the embedding

 private:
  TinyConfig config_;
  BackboneOptions options_;
  WordTokenizer tokenizer_;
  Vit vision_;
  Linear projector_in_, projector_out_;
  torch::Tensor embedding_;  // [vocabulary, width]
  Decoder decoder_;

  struct Sequence {
    torch::Tensor tower, visual;  // states of the vision tower, visual tokens; undefined without a picture
    torch::Tensor seen;           // visual tokens and what is inserted after them
    int64_t visual_tokens = 0;
    int64_t shift = 0;  // where the text begins
  };
  Sequence sequence(const Batch& batch, const Pass& pass) const;
  torch::Tensor see(const torch::Tensor& pixels, const Pass& pass) const;
  torch::Tensor tower_states(const Batch& batch, const Pass& pass) const;
  std::pair<torch::Tensor, torch::Tensor> decoder_inputs(const Sequence& s, const torch::Tensor& words) const;
  TapRequest tap_request(const Batch& batch, const Want& want, const Sequence& s, Output& out) const;
  void early_output(const Batch& batch, const Sequence& s, const torch::Tensor& words, Output& out) const;
  void pooled_output(const Batch& batch, const Want& want, const Sequence& s, const torch::Tensor& state,
                     Output& out) const;
  void text_output(const Batch& batch, const Want& want, const torch::Tensor& text, Output& out) const;
  template <class Visit>
  static void visit(TinyBackbone& model, const Visit& visit);  // every weight with its name and shape, once
};

}  // namespace asr
