// Samples of one task and split. For a built-in model they are encoded once as tensors: text as the model takes it,
// images as bytes or as features of the frozen vision path. For a model with an image processor of its own, pictures
// are read and packed when a batch asks for them. Batches are rows of it.
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
#include "parallel/team.h"
#include "streams/stream.h"

namespace asr {

// A sample that was there when the stream was opened and cannot be read now.
struct UnreadableSample : Error {
  explicit UnreadableSample(const Error& error) : Error(error.what(), error.status) {}
};

struct QuestionAnalyser;
class Prefetched;

struct SampleSet {
  std::string name;                               // task and split, for people
  torch::Tensor pixels;                           // [N, 3, H, W] uint8
  torch::Tensor features;                         // [N, ...] of the frozen vision path, or undefined
  torch::Tensor ids, labels;                      // [N, T] int64
  torch::Tensor mask, question, functional;       // [N, T] bool
  torch::Tensor posterior;                        // [N, skills], or undefined
  torch::Tensor reference_image, reference_text;  // [N, width] of the base model, filled when first wanted
  std::vector<int64_t> length, asked;  // text tokens of each sample, and those of its question, which comes first
  std::vector<SampleInfo> texts;
  int64_t answer_tokens = 8;
  PromptStyle prompt = PromptStyle::recipe;  // of packed batches

  // Where a model packs its own batches; `pixels`, `ids` and their like are undefined then.
  const Backbone* packer = nullptr;
  const QuestionAnalyser* analyser = nullptr;
  std::function<Image8(int64_t)> read_picture;
  torch::Tensor image_bytes, image_sizes;  // pictures kept in memory instead: [bytes] one after another, [N, 2]
  std::shared_ptr<Prefetched> prefetched;

  Image8 picture(int64_t i) const;
  // Starts to pack rows that will be asked for soon, on a thread of its own; nothing where batches are not packed.
  void prefetch(const std::vector<int64_t>& index, std::optional<uint64_t> augment = {}) const;
  // Rows to train on: with `augment`, pictures are changed as data/augmentation.h says, keyed by it and the row.
  SampleBatch training_rows(const std::vector<int64_t>& index, std::optional<uint64_t> augment) const;

  int64_t size() const { return static_cast<int64_t>(texts.size()); }
  SampleBatch rows(const std::vector<int64_t>& index) const { return training_rows(index, std::nullopt); }

 private:
  Batch encoded_rows(const std::vector<int64_t>& index) const;
};

// Which question tokens are functional, and the posterior over skills; supplied by skills/.
struct QuestionAnalyser {
  virtual ~QuestionAnalyser() = default;
  virtual std::vector<bool> functional(const std::string& question, const std::vector<Token>& tokens) const = 0;
  virtual torch::Tensor posterior(const std::vector<std::string>& questions,
                                  const std::vector<std::string>& true_skills) const = 0;  // [N, skills]
};

// Encodes `count` samples on all threads. `analyser` may be null: no posterior then, every question token functional.
// With `team` it shows its progress and can be stopped (data/long_pass.h); all its processes do the same then.
SampleSet encode_samples(int64_t count, const std::function<StreamSample(int64_t)>& sample, const Backbone& model,
                         const QuestionAnalyser* analyser, const Team* team = nullptr);

// Posteriors over skills, likewise. [N, skills]
torch::Tensor question_posteriors(const std::vector<SampleInfo>& texts, const QuestionAnalyser& analyser,
                                  const Team* team = nullptr);

// Samples that `model` packs itself. `text` gives everything but the picture, `picture` that alone. Their posterior is
// left to the caller.
SampleSet packed_samples(int64_t count, const std::function<StreamSample(int64_t)>& text,
                         std::function<Image8(int64_t)> picture, const Backbone& model,
                         const QuestionAnalyser* analyser);
Batch packed_rows(const SampleSet& set, const std::vector<int64_t>& index, std::optional<uint64_t> augment = {});
SampleSet packed_subset(const SampleSet& set, const std::vector<int64_t>& index);  // with its pictures in memory
SampleSet packed_union(const std::vector<SampleSet>& sets);

// Features of the frozen vision path, in blocks of a fixed size so that they never depend on the batches.
void cache_features(SampleSet& set, const Backbone& model, const Team& team);

// Embeddings of the base model, adapters off, for every sample; likewise in blocks, which the processes share out.
void cache_reference(SampleSet& set, const Backbone& model, const Team& team);

// The same for the samples of one batch, as they are in it: replayed, or with augmented pictures.
void add_reference(SampleBatch& batch, const Backbone& model);

SampleSet subset(const SampleSet& set, const std::vector<int64_t>& index);  // without cached features and references
SampleSet concatenate(const std::vector<SampleSet>& sets);                  // features kept where all have them

std::string texts_to_json(const std::vector<SampleInfo>& texts);
std::vector<SampleInfo> texts_from_json(const std::string& json);
std::vector<int64_t> lengths_of(const torch::Tensor& mask);

std::vector<int64_t> range(int64_t begin, int64_t end);

}  // namespace asr
