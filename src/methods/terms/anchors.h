// Anchors of a stage: what its training samples showed before its first step, measured once, kept on the host and gone
// with the stage. Which numbers of a sample are looked at is an AnchorView.
#pragma once

#include <torch/types.h>

#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "methods/method.h"
#include "spectral/descriptor.h"

namespace asr {

// What is seen of every sample of a batch, as numbers; differentiable.
class AnchorView {
 public:
  virtual ~AnchorView() = default;
  virtual Needs needs() const = 0;
  virtual torch::Tensor see(const SampleBatch& batch, const Output& output) = 0;  // [B, n]
};

// The spectral descriptor.
class SpectrumView final : public AnchorView {
 public:
  explicit SpectrumView(const SpectralOptions& options) : options_(options) {}
  Needs needs() const override;
  torch::Tensor see(const SampleBatch& batch, const Output& output) override;
  const SpectralEncoder& encoder(const Output& output);

 private:
  SpectralOptions options_;
  std::unique_ptr<SpectralEncoder> encoder_;
};

class Anchors {
 public:
  // Of at most `samples` of what the stage's passes will take (0: all), as training passes them but for dropout. Where
  // pictures are augmented a sample is anchored anew in every epoch, under the keys of the schedule.
  void measure(const StageContext& stage, AnchorView& view, int64_t samples);
  void shuffle(uint64_t key);  // every sample gets another's; one alone keeps its own
  void clear();
  const torch::Tensor& table() const { return table_; }  // [N, n] float32 on the CPU

  // For the samples of a batch: their anchors, zeros for those without, and 1 or 0 for whether they have one. Replayed
  // samples and stand-ins have none.
  struct Found {
    torch::Tensor anchor, has;  // [B, n], [B, 1]
  };
  Found of(const StepContext& step) const;

 private:
  using Key = std::pair<uint64_t, int64_t>;  // of the augmentation, 0 without; and the row
  std::map<Key, int64_t> place_;             // in the table
  torch::Tensor table_;
  int stage_ = 0;
};

}  // namespace asr
