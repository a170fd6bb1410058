// The CUDA kernels of the descriptor and of its loss, as plain functions (see ops/cuda_kernels.h). float32 alone.
#pragma once

#include <cstdint>

#include "ops/cuda_kernels.h"

namespace asr::cuda {

// A form of descriptor on the device (DescriptorForm). The half plane has height x (width / 2 + 1) entries; of two
// conjugate frequencies one entry counts, which `copies` says.
struct SpectrumTables {
  int height, width, columns;   // columns = width / 2 + 1
  int radial, angular;          // bins
  const float *cos_h, *sin_h;   // [height]: of 2 pi k / height
  const float *cos_w, *sin_w;   // [width]
  const float* bins;            // [radial + angular, height * columns]
  const float* copies;          // [height * columns]
  const float *radius, *angle;  // [height * width]
  const int* first;  // [height * columns]: smallest frequency of the entry that may be the peak, or INT32_MAX
  float power_scale, eps;
  bool eps_add, token_norm, peak_fraction, deviation;
};

// attention [samples, heads, tokens, height * width]; weights [samples, tokens].
struct SpectrumShape {
  int samples, heads, tokens;
};

// What a map's backward pass reads beside the attention.
struct MapStatistics {
  float map_sum, radial_sum, angular_sum, power_sum;
  int peak_entry;
};

struct SpectrumForward {
  const float *attention, *weights;
  float* map;           // [samples * heads, height * width], normalised
  float* head;          // [samples * heads, D0]
  float* descriptor;    // [samples, 2 D0]
  float* copy;          // the same once more, or null
  MapStatistics* kept;  // [samples * heads]
};
void spectrum_forward(const SpectrumTables& tables, const SpectrumShape& shape, const SpectrumForward& of,
                      Stream stream);

struct SpectrumBackward {
  const float *attention, *weights, *map, *head, *descriptor, *grad;  // grad [samples, 2 D0]
  const MapStatistics* kept;
  float* to;  // as attention
};
void spectrum_backward(const SpectrumTables& tables, const SpectrumShape& shape, const SpectrumBackward& of,
                       Stream stream);
// Bytes of shared memory that a block needs; above 48 KB the reference serves.
int64_t spectrum_room(const SpectrumTables& tables, int tokens);

// See SpectralTarget in ops/spectral_loss.h.
struct LossShape {
  int batch, prototypes, size, bins, angular_begin;
  float lambda, kl_factor, tau, fixed_weight, eps, floor;
  bool eps_add, adaptive, confidence_moves;
};
struct LossArrays {
  const float *descriptor, *share;                        // [batch, size], [batch, prototypes]
  const float *mean, *precision, *angular, *log_angular;  // [prototypes, size] twice, [prototypes, bins] twice
  float *distance, *divergence;                           // [batch, prototypes]
  float *weight, *per_sample, *loss;                      // [batch] twice, one number
  float* grad;                                            // [batch, size], or null
};
void spectral_loss(const LossShape& shape, const LossArrays& of, Stream stream);

}  // namespace asr::cuda
