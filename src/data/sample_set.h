// Samples of one task and split, reachable by row. Two kinds stand behind this interface: encoded once as tensors, for
// built-in models (data/encoded_samples.h), and packed when a batch asks for them, for models with an image processor
// of their own (data/packed_samples.h). Nobody else need know which.
#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backbones/backbone.h"
#include "base/error.h"
#include "data/sample_batch.h"
#include "io/image.h"
#include "parallel/team.h"
#include "streams/stream.h"

namespace asr {

// A sample that was there when the stream was opened and cannot be read now.
struct UnreadableSample : Error {
  explicit UnreadableSample(const Error& error) : Error(error.what(), error.status) {}
};

// Which question tokens are functional, and the posterior over skills; supplied by skills/.
struct QuestionAnalyser {
  virtual ~QuestionAnalyser() = default;
  virtual std::vector<bool> functional(const std::string& question, const std::vector<Token>& tokens) const = 0;
  virtual torch::Tensor posterior(const std::vector<std::string>& questions,
                                  const std::vector<std::string>& true_skills) const = 0;  // [N, skills]
};

// A row put together anew: the picture of one row under the text of another, or under a text of its own.
inline constexpr int64_t kBlankPicture = -1;
struct ComposedRow {
  int64_t picture = kBlankPicture;  // of this row; kBlankPicture: black, of the size that the text's own picture has
  int64_t text = 0;                 // question and answer of this row, and all else that is known of it
  std::optional<std::string> question = std::nullopt, answer = std::nullopt;  // instead of that row's
};

std::vector<int64_t> range(int64_t begin, int64_t end);

class SampleSet {
 public:
  virtual ~SampleSet() = default;

  std::string name;                               // task and split, for people
  int64_t answer_tokens = 8;                      // generation stops there at the latest
  PromptStyle prompt = PromptStyle::recipe;       // of models that have prompts
  torch::Tensor posterior;                        // [N, skills], or undefined
  torch::Tensor reference_image, reference_text;  // [N, width] of the base model, filled when first wanted

  int64_t size() const { return static_cast<int64_t>(info_.size()); }
  const SampleInfo& info(int64_t i) const { return info_[static_cast<size_t>(i)]; }
  const std::vector<SampleInfo>& infos() const { return info_; }
  void set_group(const std::vector<int64_t>& index, const std::string& group);
  void set_stage(int stage);  // of all rows

  SampleBatch rows(const std::vector<int64_t>& index) const { return training_rows(index, std::nullopt); }
  // Rows to train on: with `augment`, pictures are changed as data/augmentation.h says, keyed by it and the row. Those
  // of encoded samples never are.
  SampleBatch training_rows(const std::vector<int64_t>& index, std::optional<uint64_t> augment) const;
  // Starts to make rows that will be asked for soon, on a thread of its own, where that takes time.
  virtual void prefetch(const std::vector<int64_t>& /*index*/, std::optional<uint64_t> /*augment*/ = {}) const {}
  // Without references: those are of other pictures or texts.
  SampleBatch composed(const std::vector<ComposedRow>& rows) const;

  virtual Image8 picture(int64_t i) const = 0;
  virtual PictureFile picture_file(int64_t /*i*/) const { return {}; }  // none where pictures are drawn
  virtual std::string picture_bytes(int64_t i) const = 0;               // as an image file; empty: there is none
  virtual Image8 shown_picture(int64_t i) const = 0;                    // for reports: all of one size

  // Makes what can be kept of the pictures as long as the vision tower has no adapters; every process must come here.
  virtual void keep_features(const Team& /*team*/) {}
  // All rows in the order in which they are best answered, in blocks: rows that have something to share beside each
  // other, rows of like length in one block.
  virtual std::vector<int64_t> answering_order() const { return range(0, size()); }
  // Samples that go through the model at once outside training, and where embeddings of all samples are kept.
  virtual int64_t pass_samples() const = 0;
  virtual at::Device embedding_device() const = 0;

  virtual std::shared_ptr<SampleSet> subset(const std::vector<int64_t>& index) const = 0;  // without references
  // Other samples for the same model, under the same prompt. Their posterior is left to the caller.
  virtual std::shared_ptr<SampleSet> made_of(std::vector<SampleInfo> info,
                                             std::function<Image8(int64_t)> picture) const = 0;
  // The rows of several sets of this kind below each other, this one's among them only if it is listed.
  virtual std::shared_ptr<SampleSet> joined(const std::vector<const SampleSet*>& sets) const = 0;

 protected:
  SampleSet(const Backbone& model, const QuestionAnalyser* analyser) : model_(&model), analyser_(analyser) {}
  BatchPictures pictures_of(const std::vector<int64_t>& index) const;
  std::string picture_key(int64_t i) const;  // one for rows whose picture is the same file
  Image8 composed_picture(const ComposedRow& row) const;
  virtual std::function<torch::Tensor()> pixels_of(const std::vector<int64_t>& /*index*/) const { return {}; }
  virtual Batch input_rows(const std::vector<int64_t>& index, std::optional<uint64_t> augment) const = 0;
  // `info` has the texts of the rows, rewritten where they are to be.
  virtual Batch composed_input(const std::vector<ComposedRow>& rows, const std::vector<SampleInfo>& info) const = 0;

  // Fields that a subset or a union has like the set it is made of.
  void take_settings(const SampleSet& other);
  void take_rows(const SampleSet& other, const std::vector<int64_t>& index);
  void take_union(const std::vector<const SampleSet*>& sets);

  const Backbone* model_;
  const QuestionAnalyser* analyser_;  // may be null: no posterior, every question token functional
  std::vector<SampleInfo> info_;
};

std::shared_ptr<SampleSet> concatenate(const std::vector<const SampleSet*>& sets);

SampleInfo info_of(StreamSample&& sample);  // an empty question or answer is an error

// Posteriors over skills. With `team` it shows its progress and can be stopped (data/walk.h); all its processes do
// the same then. [N, skills]
torch::Tensor question_posteriors(const std::vector<SampleInfo>& info, const QuestionAnalyser& analyser,
                                  const Team* team = nullptr);

// Embeddings of the base model, adapters off, for every sample; in blocks, which the processes share out.
void cache_reference(SampleSet& set, const Backbone& model, const Team& team);

// The same for the samples of one batch, as they are in it: replayed, or with augmented pictures.
void add_reference(SampleBatch& batch, const Backbone& model);

}  // namespace asr
