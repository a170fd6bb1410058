// What all Hugging Face models share: a decoder whose sequence holds image tokens, replaced by what the vision path
// makes of the pictures. A family adds its vision path, its positions, its grid and its chat template.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backbones/backbone.h"
#include "backbones/model_folder.h"
#include "backbones/prompt.h"
#include "backbones/visual_grid.h"
#include "io/image_processor.h"
#include "nn/language_model.h"

namespace asr {

struct Room;
struct RowGroups;
struct SharedPrefix;

class PretrainedBackbone : public Backbone {
 public:
  // `renames`: from the names of older checkpoints to those of the model's parts today (see Weights).
  using Renames = std::vector<std::pair<std::string, std::string>>;
  explicit PretrainedBackbone(const ModelFolder& folder, Renames renames = {});

  std::string name() const override;
  int64_t image_size() const override { return 0; }
  int64_t layers() const override { return static_cast<int64_t>(text_.decoder.layers.size()); }
  int64_t width() const override { return text_.decoder.config.width; }
  const Tokenizer& tokenizer() const override;
  at::Device device() const override { return text_.embedding.device(); }
  void to(at::Device device) override;
  void configure(const BackboneOptions& options) override;

  torch::Tensor encode_images(const torch::Tensor& pixels) const override;
  Batch pack(const std::vector<PackItem>& items) const override;
  Output forward(const Batch& batch, const Pass& pass, const Want& want) const override;
  Batch without_pictures(const Batch& batch) const override;
  std::vector<std::vector<int64_t>> generate(const Batch& batch, const Pass& pass, int64_t limit) const override;
  std::vector<AdapterSite> all_sites() override;
  std::string current_name(const std::string& module) const override;
  // The adaptable linears that a module of the checkpoint holds below one another, `groups` times in turn, each with
  // its rows in a group; none where it is no such module.
  struct PackedModule {
    int64_t groups = 1;
    Weights::Parts parts;
  };
  virtual PackedModule packed_module(const std::string&) const { return {}; }
  torch::Tensor token_embedding() const override { return text_.embedding; }

  // A pass with everything that can be looked at; `layers` of those that can be tapped.
  struct Inspection {
    torch::Tensor hidden;         // [B, T, width], after the last norm
    torch::Tensor features;       // as the vision path gives them to the decoder; undefined without pictures
    TapResult taps;               // [B, heads, T, V] a layer
    torch::Tensor rows, columns;  // [B, T], [B, V]
  };
  Inspection inspect(const Batch& batch, const Pass& pass, const std::vector<int64_t>& tapped,
                     const torch::Tensor& text_rows) const;
  bool has_tokenizer() const { return tokenizer_ != nullptr; }
  // One prompt with its pictures: token numbers, a question for the chat template, or (raw) the whole text.
  Batch pack_ids(const std::vector<int64_t>& ids, const std::vector<Image8>& pictures,
                 const std::vector<std::string>& names, const std::string& instruction = "") const;
  Batch pack_prompt(const std::string& prompt, const std::vector<Image8>& pictures,
                    const std::vector<std::string>& names, bool raw,
                    std::function<std::vector<bool>(const std::vector<Token>&)> functional = {}) const;
  const LanguageModel& language() const { return text_; }
  const ModelFolder& folder() const { return folder_; }
  int64_t image_token() const { return image_token_; }
  int64_t weight_bytes();
  int64_t context() const;                                   // tokens that the language model was made for
  void compute_in(at::ScalarType type) { compute_ = type; }  // double, to tell rounding from mistakes
  // Tokens after the chosen ones of each row, at most `limit`; rows that ended are filled with the padding token where
  // `fill` is set, and cut elsewhere.
  std::vector<std::vector<int64_t>> continue_greedily(const Batch& batch, const torch::Tensor& prompt, const Pass& pass,
                                                      int64_t limit, bool fill) const;

 protected:
  // What a vision path may be asked to tap; only those with attention of their own to the picture look at it.
  struct VisualTap {
    std::vector<int64_t> layers;  // none: nothing is tapped
    TapResult result;
    torch::Tensor rows, columns;
    torch::Tensor weights;  // of the rows
  };
  struct TowerStates {
    torch::Tensor first, max, mean;  // [B, tower width], see Output; zeros where a sample has no picture
  };
  struct VisualLook {
    VisualTap tap;
    bool states = false;  // `tower` is wanted
    TowerStates tower;
  };
  virtual int64_t tower_width() const { return 0; }  // of its last states; 0: there is no tower
  // [visual tokens of the batch, width], in the order of its image tokens. `look` may be null.
  virtual torch::Tensor visual_tokens(const Batch& batch, const Pass& pass, VisualLook* look) const;
  // Of each picture (or tile), in their order: rows of Batch::pixels and visual tokens. By default pictures are alike.
  struct PictureSizes {
    std::vector<int64_t> rows, tokens;
  };
  virtual PictureSizes picture_sizes(const Batch& batch) const;
  // The sample of each picture (or tile), from the visual tokens that each gives.
  std::vector<int64_t> picture_samples(const Batch& batch, const std::vector<int64_t>& tokens) const;
  // The pass of a vision path whose rows are pictures (or tiles) of `tokens` visual tokens each.
  Pass picture_pass(const Batch& batch, const Pass& pass, int64_t tokens) const;
  // Of states [pictures, tokens, width], the class token first where there is one; `samples` as above.
  TowerStates tower_states(const torch::Tensor& states, bool class_token, const std::vector<int64_t>& samples,
                           int64_t batch) const;
  virtual torch::Tensor positions(const Batch& batch, const torch::Tensor& ids, const torch::Tensor& mask) const;
  // Where the visual tokens of each sample lie; by default picture after picture, as picture_cells says.
  virtual std::vector<SampleCells> cells(const Batch& batch, const torch::Tensor& columns) const;
  struct PictureCells {
    ImageCells cells;    // `first` counts from the picture's own first token
    int64_t tokens = 0;  // all of the picture's, those without a cell too
  };
  virtual PictureCells picture_cells(const Batch& batch, int64_t image) const;
  virtual std::pair<int64_t, int64_t> grid() const { return {options_.grid, options_.grid}; }
  // What compute_in said; else float32 on the CPU, whatever the weights are stored in, and the weights' type on a GPU.
  at::ScalarType compute_type() const;
  virtual bool taps_vision_path() const { return false; }
  virtual int64_t image_tokens(const ProcessedImages& images, size_t index) const;  // of one picture
  // What a Q-Former reads, one text a sample.
  virtual void pack_instructions(const std::vector<std::string>&, Batch&) const {}
  virtual void each_vision_weight(const std::function<void(torch::Tensor&)>&) {}
  virtual std::vector<AdapterSite> vision_sites() { return {}; }
  // What stands around the text of an instruction benchmark; where nobody released one for the family, its own.
  virtual PromptTemplate instruction_prompt() const { return prompt_; }
  virtual std::string text_prefix() const { return "model.language_model."; }

  // For a family's constructor.
  void load_text(Weights weights, const std::string& head_prefix = "lm_head.");
  void load_processors(bool pictures);
  void add_end_token(const std::string& piece);  // where the tokenizer has it

  ModelFolder folder_;
  Renames renames_;
  BackboneOptions options_;
  LanguageModel text_;
  PromptTemplate prompt_;
  int64_t image_token_ = -1;

 private:
  struct Inputs {
    torch::Tensor x, features, positions;
  };
  struct TextColumns {
    torch::Tensor ids, mask, inserted;  // [B, T]; the last may be undefined
  };
  Inputs inputs(const Batch& batch, const TextColumns& text, const Pass& pass, VisualLook* look) const;
  // visual_tokens() where rows with the same pictures look at them once.
  torch::Tensor seen_once(const Batch& batch, const Pass& pass, VisualLook* look) const;
  Batch looking_rows(const Batch& batch, const std::vector<int64_t>& rows) const;  // what the vision path reads of them
  // A prompt that was read: the states of its tokens, and a cache that answers go on from.
  struct ReadPrompt {
    torch::Tensor hidden;     // [B, T, width], each row's last token in the last column
    torch::Tensor positions;  // of all columns, [B, T] or [3, B, T]
    KvCache cache;
  };
  ReadPrompt read_prompt(const Batch& batch, const TextColumns& text, const Pass& pass, int64_t limit) const;
  KvCache read_prefix(const SharedPrefix& prefix, const RowGroups& groups, const Batch& batch, const Pass& pass) const;
  bool shares_prefixes(const TextColumns& text, const Pass& pass) const;
  void check_tokens(const torch::Tensor& ids) const;
  int64_t filler() const;
  bool taps_vision_path(const Want& want) const;
  void check_tap(const Batch& batch, const Want& want) const;
  TapRequest text_tap(const Batch& batch, const Want& want, const torch::Tensor& images) const;
  void early_output(const Batch& batch, const torch::Tensor& images, const Inputs& in, const VisualLook& look,
                    Output& out) const;
  void pooled_output(const Batch& batch, const Want& want, const torch::Tensor& images, const torch::Tensor& state,
                     Output& out) const;
  void text_output(const Room& room, const Want& want, const torch::Tensor& hidden, const torch::Tensor& labels,
                   Output& out) const;
  PromptTemplate prompt_for(const PackItem& item) const;
  int64_t process(const Image8& image, const std::string& id, ProcessedImages& out) const;  // its visual tokens
  void attention_output(const Batch& batch, const torch::Tensor& rows, const TapResult& taps,
                        const torch::Tensor& columns, Output& out) const;

  std::unique_ptr<Tokenizer> tokenizer_;
  std::string no_tokenizer_;  // why there is none
  std::unique_ptr<ImageProcessor> processor_;
  std::string no_processor_;
  std::vector<int64_t> end_tokens_;
  std::optional<at::ScalarType> compute_;
};

// What an image processor made, into a batch.
void add_pixels(const ProcessedImages& images, Batch& batch);

// A Hugging Face folder, or an error where the path is something else.
std::unique_ptr<PretrainedBackbone> load_pretrained(const std::string& path);

}  // namespace asr
