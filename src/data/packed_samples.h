// Samples whose batches the model packs itself: pictures are read when they are needed, ahead of time on threads of
// their own, so that memory stays bounded by a few batches.
#pragma once

#include "data/sample_set.h"

namespace asr {

class Prefetched;

// Where pictures come from, by row. May be called from any thread.
struct PictureSource {
  std::function<Image8(int64_t)> picture;
  std::function<PictureFile(int64_t)> file = {};  // may be empty: there are none
};

class PackedSamples final : public SampleSet {
 public:
  PackedSamples(std::vector<SampleInfo> info, PictureSource source, const Backbone& model,
                const QuestionAnalyser* analyser);

  void prefetch(const std::vector<int64_t>& index, std::optional<uint64_t> augment = {}) const override;
  Image8 picture(int64_t i) const override { return source_.picture(i); }
  PictureFile picture_file(int64_t i) const override { return source_.file ? source_.file(i) : PictureFile{}; }
  std::string picture_bytes(int64_t i) const override;
  Image8 shown_picture(int64_t i) const override;
  // Questions about one picture beside each other, so that it is read and seen once; pictures by their longest
  // question.
  std::vector<int64_t> answering_order() const override;
  int64_t pass_samples() const override { return 16; }  // a large model's insides for 128 samples fill a GPU
  // Embeddings of a large model's whole stream would take gigabytes of its device.
  at::Device embedding_device() const override { return at::kCPU; }
  std::shared_ptr<SampleSet> subset(const std::vector<int64_t>& index) const override;
  std::shared_ptr<SampleSet> made_of(std::vector<SampleInfo> info,
                                     std::function<Image8(int64_t)> picture) const override;
  std::shared_ptr<SampleSet> joined(const std::vector<const SampleSet*>& sets) const override;

 protected:
  Batch input_rows(const std::vector<int64_t>& index, std::optional<uint64_t> augment) const override;
  Batch composed_input(const std::vector<ComposedRow>& rows, const std::vector<SampleInfo>& info) const override;

 private:
  // On the CPU; a picture may stand in several rows.
  Batch pack(const std::vector<const Image8*>& pictures, const std::vector<SampleInfo>& info) const;
  Batch pack_rows(const std::vector<int64_t>& index, std::optional<uint64_t> augment) const;

  PictureSource source_;
  std::shared_ptr<Prefetched> prefetched_;
};

// `text` gives everything but the picture. The posterior is left to the caller.
std::shared_ptr<PackedSamples> packed_samples(int64_t count, const std::function<StreamSample(int64_t)>& text,
                                              PictureSource source, const Backbone& model,
                                              const QuestionAnalyser* analyser);

}  // namespace asr
