// What a trainer needs of a model: pack nothing, know nothing of files; forward a batch with the loss on answer
// positions, tapped attention rows and pooled embeddings; name the linears that take adapters; generate.
#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "io/word_tokenizer.h"
#include "nn/linear.h"

namespace asr {

// A batch as a model takes it: text is padded on the right; labels are -1 except at answer tokens.
struct Batch {
  torch::Tensor pixels;          // [B, 3, H, W] in 0..1; not read where `features` is given
  torch::Tensor features;        // what encode_images made of them, or undefined
  torch::Tensor ids, mask;       // [B, T] int64, bool
  torch::Tensor labels;          // [B, T] int64: the token that must come at this position, or -1
  torch::Tensor question;        // [B, T] bool: question tokens, neither special nor answer
  int64_t question_tokens = -1;  // if all questions begin the text in one stretch, the length of the longest; else -1
  // For methods; models do not read these, and any may be undefined.
  torch::Tensor functional;                       // [B, T] bool
  torch::Tensor posterior;                        // [B, skills]
  torch::Tensor reference_image, reference_text;  // [B, width]: embeddings of the base model
  int64_t size() const { return ids.size(0); }
};

// What a forward pass should return beyond the loss; nothing else is computed.
struct Want {
  int64_t tap_layers = 0;  // attention of this many last fusion layers; 0 for none
  bool pooled = false;     // image and text embeddings
  bool logits = false;     // at answer positions
  bool state = false;      // the state that predicts the first answer token, for a closed answer head
  bool loss = true;
};

struct Output {
  torch::Tensor loss;         // scalar, the mean over answer tokens
  torch::Tensor logits;       // [answer tokens of the batch, vocabulary]
  torch::Tensor attention;    // [B, L, heads, Tq, grid, grid]; rows are question tokens, padded with zeros
  torch::Tensor rows;         // [B, Tq] positions in the text, -1 for padding
  torch::Tensor image, text;  // [B, width]: mean hidden state over visual and over question positions
  torch::Tensor state;        // [B, width]
};

class Backbone {
 public:
  virtual ~Backbone() = default;

  virtual std::string name() const = 0;  // "tiny-S"
  virtual int64_t image_size() const = 0;
  virtual int64_t layers() const = 0;  // that can be tapped
  virtual int64_t width() const = 0;   // of hidden states
  virtual const WordTokenizer& tokenizer() const = 0;
  virtual at::Device device() const = 0;
  virtual void to(at::Device device) = 0;

  // The part of the vision path that no adapter changes; computed once a sample and kept while its stage lasts.
  virtual torch::Tensor encode_images(const torch::Tensor& pixels) const = 0;
  virtual Output forward(const Batch& batch, const Pass& pass, const Want& want) const = 0;
  // Greedy continuation of each question by at most `limit` tokens; with a key-value cache.
  virtual std::vector<std::vector<int64_t>> generate(const Batch& batch, const Pass& pass, int64_t limit) const = 0;

  // LoRA sites: q and v of every attention of the language model, every tapped cross-attention, the projector.
  virtual std::vector<AdapterSite> sites() = 0;
  virtual torch::Tensor token_embedding() const = 0;  // [vocabulary, width]
  virtual NamedParameters named_weights() const = 0;  // the base, without experts
};

// A folder or file with a trained model.
std::unique_ptr<Backbone> load_backbone(const std::string& path);

}  // namespace asr
