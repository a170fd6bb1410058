// Attention maps to spectral descriptors: phi = [r, d, a, rho*, theta*, p*] per layer-head, then mean and second
// moment over the J = L * heads layer-heads (paper, "Attention-Spectrum Encoding"; docs/maths.md sections 1-7).
// Shapes: attention [B, L, heads, T, H, W], token weights [B, T], descriptor [B, D].
//
// Two implementations stand behind SpectralEncoder: a plain graph of ATen operators (float32/64, any device; the
// oracle) and a fused CPU path with a hand-written backward and no intermediate of the size of the input.
#pragma once

#include <torch/types.h>

#include <memory>

#include "spectral/frequency_plane.h"
#include "spectral/options.h"

namespace asr {

enum class Implementation { automatic, reference, fused };  // automatic: fused where it applies
template <>
struct EnumNames<Implementation> {
  static constexpr const char* names[] = {"automatic", "reference", "fused"};
};

// U(q) = functional and valid tokens, all valid ones where that is empty; each row sums to 1. Any numeric
// mask, true where nonzero. A sample without a valid token is an error.
torch::Tensor token_weights(const torch::Tensor& functional, const torch::Tensor& valid);  // [B, T] float64
// The same for tokens at positions `rows` [B, T] of functional [B, N]; -1 is no token.
torch::Tensor token_weights_at(const torch::Tensor& functional, const torch::Tensor& rows);

// What lies between attention and descriptor, for files and figures; no gradient.
struct SpectrumDetails {
  torch::Tensor map, power;       // [B, J, H, W]
  torch::Tensor peak;             // [B, J] int64, index u * W + v
  torch::Tensor head_descriptor;  // [B, J, D0]
  torch::Tensor descriptor;       // [B, D]
};

struct FusedPlan;  // tables of the fused path

// One encoder a grid size; cheap to keep, safe to share between threads.
class SpectralEncoder {
 public:
  SpectralEncoder(int64_t height, int64_t width, const SpectralOptions& options,
                  Implementation implementation = Implementation::automatic);

  torch::Tensor descriptor(const torch::Tensor& attention, const torch::Tensor& weights) const;  // differentiable
  SpectrumDetails details(const torch::Tensor& attention, const torch::Tensor& weights) const;

  // The normalised maps themselves, differentiable, for matching raw attention; [B, J, H, W].
  torch::Tensor maps(const torch::Tensor& attention, const torch::Tensor& weights) const;

  const FrequencyPlane& plane() const { return plane_; }
  const SpectralOptions& options() const { return options_; }

 private:
  bool use_fused(const torch::Tensor& attention) const;

  SpectralOptions options_;
  Implementation implementation_;
  FrequencyPlane plane_;
  std::shared_ptr<const FusedPlan> fused_;
};

// Parts of a descriptor [B, D]: the mean radial and angular spectrum over layer-heads.
torch::Tensor radial_part(const torch::Tensor& descriptor, const SpectralOptions& options);   // [B, K]
torch::Tensor angular_part(const torch::Tensor& descriptor, const SpectralOptions& options);  // [B, M]

// Bad values in attention, as one error that names sample, layer and head: NaN, infinite or negative entries, and
// maps without any mass on the tokens used. One pass over the input; for files, not for the training loop.
void check_attention(const torch::Tensor& attention, const torch::Tensor& weights);

// The two implementations, for SpectralEncoder and for tests of their agreement.
SpectrumDetails encode_reference(const torch::Tensor& attention, const torch::Tensor& weights,
                                 const FrequencyPlane& plane, const SpectralOptions& options);
torch::Tensor maps_reference(const torch::Tensor& attention, const torch::Tensor& weights,
                             const SpectralOptions& options);
std::shared_ptr<const FusedPlan> make_fused_plan(const FrequencyPlane& plane, const SpectralOptions& options);
torch::Tensor descriptor_fused(const torch::Tensor& attention, const torch::Tensor& weights,
                               const std::shared_ptr<const FusedPlan>& plan);
SpectrumDetails details_fused(const torch::Tensor& attention, const torch::Tensor& weights, const FusedPlan& plan);
const char* fused_kernel_name();  // the instruction set chosen for this CPU

}  // namespace asr
