// Attention maps to spectral descriptors: phi = [r, d, a, rho*, theta*, p*] per layer-head, then mean and second
// moment over the J = L * heads layer-heads (paper, "Attention-Spectrum Encoding"; docs/maths.md sections 1-7).
// Shapes: attention [B, L, heads, T, H, W], token weights [B, T], descriptor [B, D].
//
// The reference is a plain graph of ATen operators (float32/64, any device; the oracle); the kernels of the CPU
// (float32/64) and of a GPU (float32) have a hand-written backward and no intermediate of the size of the input.
#pragma once

#include <torch/types.h>

#include <memory>
#include <vector>

#include "ops/dispatch.h"

namespace asr {

// What is computed: a grid's frequencies with their bins, and the choices of the definition.
struct DescriptorForm {
  int64_t height = 0, width = 0;
  int64_t radial_bins = 0, angular_bins = 0;          // K, M
  std::vector<double> radius, angle;                  // [H*W], unshifted DFT order
  std::vector<int64_t> radial_bin, angular_bin;       // [H*W]
  std::vector<double> radial_weight, angular_weight;  // [H*W]: of a frequency in its bin
  double eps = 1e-8;                                  // guards every division by a sum
  bool eps_add = true;                                // sum + eps, or max(sum, eps)
  bool token_norm = true;                             // each token's map sums to 1 before the mean over tokens
  bool unitary = true;                                // the transform keeps the power's sum
  bool peak_at_dc = false;                            // may (0, 0) be the peak
  bool peak_fraction = true;                          // its power as a part of all power, or as it is
  bool deviation = true;                              // second moment: standard deviation, or variance

  int64_t head_dim() const { return radial_bins + 2 * angular_bins + 3; }  // D0
};

// What lies between attention and descriptor, for files and figures; no gradient.
struct SpectrumDetails {
  torch::Tensor map, power;       // [B, J, H, W]
  torch::Tensor peak;             // [B, J] int64, index u * W + v
  torch::Tensor head_descriptor;  // [B, J, D0]
  torch::Tensor descriptor;       // [B, D]
};

struct DescriptorTables;   // of the CPU kernel
class DescriptorOnDevice;  // of the CUDA kernel

// A form prepared; one a grid size, cheap to keep, safe to share between threads.
struct DescriptorPlan {
  DescriptorForm form;
  Implementation implementation = Implementation::automatic;
  std::shared_ptr<const DescriptorTables> tables;  // null where the kernel is not to be used
  std::shared_ptr<DescriptorOnDevice> on_device;   // the same
};
DescriptorPlan make_descriptor_plan(DescriptorForm form, Implementation implementation);

torch::Tensor spectral_descriptor(const torch::Tensor& attention, const torch::Tensor& weights,
                                  const DescriptorPlan& plan);  // differentiable
SpectrumDetails spectrum_details(const torch::Tensor& attention, const torch::Tensor& weights,
                                 const DescriptorPlan& plan);
// The normalised maps themselves, differentiable, for matching raw attention; [B, J, H, W].
torch::Tensor spectrum_maps(const torch::Tensor& attention, const torch::Tensor& weights, const DescriptorPlan& plan);

SpectrumDetails spectrum_reference(const torch::Tensor& attention, const torch::Tensor& weights,
                                   const DescriptorForm& form);
torch::Tensor maps_reference(const torch::Tensor& attention, const torch::Tensor& weights, const DescriptorForm& form);

std::shared_ptr<const DescriptorTables> make_descriptor_tables(const DescriptorForm& form);
torch::Tensor descriptor_cpu(const torch::Tensor& attention, const torch::Tensor& weights,
                             const std::shared_ptr<const DescriptorTables>& tables);
SpectrumDetails spectrum_cpu(const torch::Tensor& attention, const torch::Tensor& weights,
                             const DescriptorTables& tables);
std::shared_ptr<DescriptorOnDevice> make_descriptor_on_device(const DescriptorForm& form);
bool descriptor_fits_cuda(const DescriptorOnDevice& form, const torch::Tensor& attention);
torch::Tensor descriptor_cuda(const torch::Tensor& attention, const torch::Tensor& weights,
                              const std::shared_ptr<DescriptorOnDevice>& form);

// Where a frequency of the full plane stands in the output of a real transform [H, W/2+1]: one place for both
// frequencies of a conjugate pair.
int64_t half_plane_entry(int64_t u, int64_t v, int64_t height, int64_t width);
const char* fused_kernel_name();  // the instruction set chosen for this CPU

}  // namespace asr
