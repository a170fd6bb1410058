// Samples of a built-in model, encoded once as tensors: text as the model takes it, images as bytes or as features of
// the frozen vision path. Batches are rows of them.
#pragma once

#include "data/sample_set.h"

namespace asr {

// Texts as a built-in model takes them: question, <answer>, answer, <end>, padded to the longest.
struct TextTensors {
  torch::Tensor ids, labels;                 // [N, T] int64
  torch::Tensor mask, question, functional;  // [N, T] bool
  std::vector<int64_t> length, asked;        // tokens of each text, and those of its question, which comes first

  void to(at::Device device);
};

// Samples that are to be encoded.
struct SampleSource {
  int64_t count = 0;
  std::function<StreamSample(int64_t)> sample;  // its picture is not looked at where `pixels` are given
  torch::Tensor pixels = {};                    // [N, 3, H, W] uint8 of the model's size, where they are known already
};

class EncodedSamples final : public SampleSet {
 public:
  EncodedSamples(const Backbone& model, const QuestionAnalyser* analyser) : SampleSet(model, analyser) {}

  Image8 picture(int64_t i) const override;  // at the model's size
  std::string picture_bytes(int64_t i) const override;
  Image8 shown_picture(int64_t i) const override { return picture(i); }
  PictureFile picture_file(int64_t i) const override { return file ? file(i) : PictureFile{}; }
  int64_t pass_samples() const override { return pixels_.is_cuda() ? 512 : 128; }  // launches are what a GPU waits for
  at::Device embedding_device() const override { return pixels_.device(); }
  std::shared_ptr<SampleSet> subset(const std::vector<int64_t>& index) const override;
  std::shared_ptr<SampleSet> made_of(std::vector<SampleInfo> info,
                                     std::function<Image8(int64_t)> picture) const override;
  std::shared_ptr<SampleSet> joined(const std::vector<const SampleSet*>& sets) const override;

  int64_t tokens(int64_t i) const { return texts_.length[static_cast<size_t>(i)]; }
  // Features of the frozen vision path, in blocks of a fixed size so that they never depend on the batches. Not where
  // adapters change that path.
  void keep_features(const Team& team) override;
  // Both as they are kept elsewhere (data/tensor_cache.h): pixels [N, 3, H, W], features that keep_features has made,
  // or undefined. Features of another number of samples are an error.
  const torch::Tensor& all_pixels() const { return pixels_; }
  const torch::Tensor& all_features() const { return features_; }
  void take_features(const torch::Tensor& features);

  std::function<PictureFile(int64_t)> file;  // where pictures were read from; may be empty

 protected:
  Batch input_rows(const std::vector<int64_t>& index, std::optional<uint64_t> augment) const override;
  Batch composed_input(const std::vector<ComposedRow>& rows, const std::vector<SampleInfo>& info) const override;
  std::function<torch::Tensor()> pixels_of(const std::vector<int64_t>& index) const override;

 private:
  bool uses_features() const { return features_.defined() && !model_->vision_adapted(); }
  friend EncodedSamples encode_samples(const SampleSource& source, const Backbone& model,
                                       const QuestionAnalyser* analyser, const Team* team);
  // Fills a set that is empty, all but its posterior.
  void encode(const SampleSource& source, const Team* team);

  torch::Tensor pixels_;    // [N, 3, H, W] uint8
  torch::Tensor features_;  // [N, ...] of the frozen vision path, or undefined
  TextTensors texts_;
};

// Encodes samples on all threads. `analyser` may be null: no posterior then, every question token functional.
// With `team` it shows its progress and can be stopped (data/walk.h); all its processes do the same then.
EncodedSamples encode_samples(const SampleSource& source, const Backbone& model, const QuestionAnalyser* analyser,
                              const Team* team = nullptr);
inline EncodedSamples encode_samples(int64_t count, const std::function<StreamSample(int64_t)>& sample,
                                     const Backbone& model, const QuestionAnalyser* analyser) {
  return encode_samples({count, sample}, model, analyser);
}

}  // namespace asr
