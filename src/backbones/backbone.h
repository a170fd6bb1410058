// What a trainer needs of a model: pack nothing, know nothing of files; forward a batch with the loss on answer
// positions, tapped attention rows and pooled embeddings; name the linears that take adapters; generate.
#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/image.h"
#include "io/tokenizer.h"
#include "nn/adapter_sites.h"

namespace asr {

// A batch as a model takes it: text is padded on the right; labels are -1 except at answer tokens.
struct Batch {
  torch::Tensor pixels;          // [B, 3, H, W] in 0..1, or what the model's image processor gives; not read where
                                 // `features` is given
  torch::Tensor features;        // what encode_images made of them, or undefined; not read where experts of the
                                 // tower take part
  torch::Tensor ids, mask;       // [B, T] int64, bool
  torch::Tensor labels;          // [B, T] int64: the token that must come at this position, or -1
  torch::Tensor question;        // [B, T] bool: question tokens, neither special nor answer
  int64_t question_tokens = -1;  // if all questions begin the text in one stretch, the length of the longest; else -1
  // What only some families have; on the CPU.
  torch::Tensor image_grid;                     // [images, 3] time, height and width in patches
  torch::Tensor tile_grid;                      // [images, 2] rows and columns of tiles
  torch::Tensor instruction, instruction_mask;  // [B, Ti]: the question as a Q-Former reads it
  torch::Tensor inserted;    // [B, n, width]: vectors that stand in the sequence after the visual tokens; or undefined
  torch::Tensor functional;  // [B, T] bool: question tokens that ask; made by packing, not read by models; or undefined
  // Of every row a number that rows with the same pictures share, so that a model may look at these once; empty:
  // unknown.
  std::vector<int64_t> same_picture;
  int64_t size() const { return ids.size(0); }
};

enum class TapRows { question, answer, text };  // whose attention is tapped; text: both
enum class TapColumns {
  visual,  // attention to visual tokens, as maps
  all      // to every position of the language model's sequence up to the row's own
};

// What a forward pass should return beyond the loss; nothing else is computed. A batch without pictures is a pass over
// the text alone: nothing is seen, and image statistics are zeros or undefined.
struct Want {
  int64_t tap_layers = 0;  // attention of this many last fusion layers; 0 for none
  TapRows tap_rows = TapRows::question;
  TapColumns tap_columns = TapColumns::visual;
  bool pooled = false;      // image and text embeddings
  bool states = false;      // those, and the largest entries beside the means
  bool early = false;       // statistics from before the language model, which is not run for them
  int64_t early_layer = 0;  // means of the states after so many layers, which run no further for them; 0: none
  bool logits = false;      // at answer positions
  bool all_logits = false;  // at every position of the text
  bool state = false;       // the state that predicts the first answer token, for a closed answer head
  bool loss = true;
};

struct Output {
  torch::Tensor loss;        // scalar, the mean over answer tokens
  torch::Tensor logits;      // [answer tokens of the batch, vocabulary]
  torch::Tensor all_logits;  // [B, T, vocabulary]
  // [B, L, heads, Tq, grid, grid]; rows are tokens of the text, padded with zeros. Of all columns [B, L, heads, Tq, S]:
  // S counts the language model's sequence (built-in: visual tokens, inserted vectors, text; else the text with its
  // image tokens and, after them, inserted vectors), and rows sum to 1.
  torch::Tensor attention;
  torch::Tensor rows;         // [B, Tq] positions in the text, -1 for padding
  torch::Tensor row_weights;  // [B, Tq] where the rows are no text (a Q-Former's queries); else undefined
  torch::Tensor image, text;  // [B, width]: mean hidden state over visual and over question positions
  torch::Tensor image_max, text_max;
  torch::Tensor state;  // [B, width]
  // Early: means of what enters the language model, [B, width], and of the vision tower's last states of each sample's
  // last picture (of several tiles, the last, which is the thumbnail): class token (the first patch where there is
  // none), largest entries and mean over patches. [B, tower width]; zeros where a sample has no picture.
  torch::Tensor image_input, text_input, tower_first, tower_max, tower_mean;
  // Of early_layer: mean over visual and over question positions behind the input norm of the layer after it, float32.
  // Where pictures are the context of cross-attention, their mean is that of the context.
  torch::Tensor early_image, early_text;  // [B, width]
};

// A question with its pictures, on the way into a batch.
struct PackItem {
  std::vector<const Image8*> images;
  std::string id, question, answer;
  bool instruction = false;  // the question is an instruction benchmark's: its release's template, whatever the recipe
  // Which of the question's tokens are functional; offsets count in the question. Empty: all of them.
  std::function<std::vector<bool>(const std::vector<Token>&)> functional;
};

// How a model is looked at and run; fixed for a run.
struct BackboneOptions {
  int64_t grid = 24;                   // cells a side of attention maps, where pictures differ in shape
  int64_t geometry_layer = 0;          // whose states are pooled; 0: the last
  bool recompute = false;              // gradient checkpointing
  bool text_weighted_queries = false;  // a Q-Former's queries weighted by the question's attention to them
  std::string recipe = "native";       // or asr-paper: the paper's prompt, text budget and image limit
  bool ended_rows_leave = true;        // the batch while answers are generated; false: for comparison
  bool prefixes_shared = true;         // by rows with the same pictures while answering; false: for comparison
  // Where only the loss is asked for, the last layer goes on with the positions that predict answers. Products of fewer
  // rows may have other bits.
  bool ends_at_answers = false;
};

class Backbone {
 public:
  virtual ~Backbone() = default;

  virtual std::string name() const = 0;  // "tiny-S"
  // Pixels a side; 0 where the model has its own image processor and batches come from pack().
  virtual int64_t image_size() const = 0;
  virtual int64_t layers() const = 0;  // that can be tapped
  virtual int64_t width() const = 0;   // of hidden states
  virtual const Tokenizer& tokenizer() const = 0;
  virtual at::Device device() const = 0;
  virtual void to(at::Device device) = 0;
  virtual void configure(const BackboneOptions& options) = 0;

  // The vision tower without adapters; computed once a sample and kept while its stage lasts, unless the tower is
  // adapted itself.
  virtual torch::Tensor encode_images(const torch::Tensor& pixels) const = 0;
  // Where image_size() is 0: text and pictures of some samples as a batch on the CPU. May be called from any thread.
  virtual Batch pack(const std::vector<PackItem>& items) const;
  virtual Output forward(const Batch& batch, const Pass& pass, const Want& want) const = 0;
  // The same questions with nothing to look at; what a chat template puts around pictures stays.
  virtual Batch without_pictures(const Batch& batch) const = 0;
  // Greedy continuation of each question by at most `limit` tokens; with a key-value cache.
  virtual std::vector<std::vector<int64_t>> generate(const Batch& batch, const Pass& pass, int64_t limit) const = 0;

  // Every linear that may be adapted: all of the language model's layers, cross-attention, a Q-Former's attention, the
  // vision tower's attention, the projector.
  virtual std::vector<AdapterSite> all_sites() = 0;
  // Those adapted by default: q and v of every attention of the language model and the Q-Former, of every
  // cross-attention, and the projector.
  std::vector<AdapterSite> sites() { return default_sites(all_sites()); }
  // Every linear that a loaded adapter may change, and the name used here for one that older files spell otherwise.
  std::vector<AdapterSite> adaptable() { return all_sites(); }
  virtual bool vision_adapted() const = 0;  // whether a linear of the vision tower carries an expert
  virtual std::string current_name(const std::string& module) const { return module; }
  virtual torch::Tensor token_embedding() const = 0;  // [vocabulary, width]
};

// A file with a built-in model, or a Hugging Face model folder; see backbones.def for the families.
std::unique_ptr<Backbone> load_backbone(const std::string& path);

struct BackboneInfo {
  std::string name, summary;
};
const std::vector<BackboneInfo>& backbone_infos();

Batch to_device(const Batch& batch, at::Device device);  // what models keep on the CPU stays there

}  // namespace asr
