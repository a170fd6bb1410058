// The encoder of a grid size: attention maps to spectral descriptors (ops/descriptor.h), with the bins and choices that
// the options name. Shapes: attention [B, L, heads, T, H, W], token weights [B, T], descriptor [B, D].
#pragma once

#include <torch/types.h>

#include "ops/descriptor.h"
#include "ops/token_weights.h"
#include "spectral/frequency_plane.h"
#include "spectral/options.h"

namespace asr {

// One encoder a grid size; cheap to keep, safe to share between threads.
class SpectralEncoder {
 public:
  SpectralEncoder(int64_t height, int64_t width, const SpectralOptions& options,
                  Implementation implementation = Implementation::automatic);

  // Differentiable, [B, D]; with spectral.heads=kept the numbers of every layer-head follow those of heads together.
  torch::Tensor descriptor(const torch::Tensor& attention, const torch::Tensor& weights) const;
  // Of every layer-head by itself, differentiable, [B, J, D0].
  torch::Tensor heads(const torch::Tensor& attention, const torch::Tensor& weights) const;
  SpectrumDetails details(const torch::Tensor& attention, const torch::Tensor& weights) const;

  // The normalised maps themselves, differentiable, for matching raw attention; [B, J, H, W].
  torch::Tensor maps(const torch::Tensor& attention, const torch::Tensor& weights) const;

  const FrequencyPlane& plane() const { return plane_; }
  const SpectralOptions& options() const { return options_; }

 private:
  SpectralOptions options_;
  FrequencyPlane plane_;
  DescriptorPlan plan_;
};

// Parts of a descriptor [B, D]: the mean radial and angular spectrum over layer-heads.
torch::Tensor radial_part(const torch::Tensor& descriptor, const SpectralOptions& options);   // [B, K]
torch::Tensor angular_part(const torch::Tensor& descriptor, const SpectralOptions& options);  // [B, M]

// Shannon entropy (natural log) of every layer-head map, averaged over layer-heads: [B, J, H, W] -> [B].
torch::Tensor attention_entropy(const torch::Tensor& map);

// Bad values in attention, as one error that names sample, layer and head: NaN, infinite or negative entries, and
// maps without any mass on the tokens used. One pass over the input; for files, not for the training loop.
void check_attention(const torch::Tensor& attention, const torch::Tensor& weights);

}  // namespace asr
