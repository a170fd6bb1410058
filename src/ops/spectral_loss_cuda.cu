// The spectral loss with its gradient in one launch of one block: a step has a few thousand numbers here. A warp takes
// a sample and looks at four prototypes at a time; then comes the mean.
#include "ops/cuda_common.cuh"
#include "ops/descriptor_cuda.h"

namespace asr::cuda {
namespace {

constexpr int kWarps = 16;

struct Angular {  // of this lane's bin
  float raw, p, log_p, floored_sum, denominator;
  bool moves;
};

__device__ Angular read_angular(const LossShape& s, const float* descriptor, int lane) {
  const bool here = lane < s.bins;
  const float value = here ? descriptor[s.angular_begin + lane] : 0;
  const float total = warp_sum(value);
  Angular a;
  a.denominator = s.eps_add ? total + s.eps : fmaxf(total, s.eps);
  a.moves = s.eps_add || total >= s.eps;
  a.raw = value / a.denominator;
  const float floored = here ? fmaxf(a.raw, s.floor) : 0;
  a.floored_sum = warp_sum(floored);
  a.p = floored / a.floored_sum;
  a.log_p = here ? logf(a.p) : 0;
  return a;
}

constexpr int kAtOnce = 4;  // prototypes whose sums are under way together

struct Compared {
  float distance[kAtOnce], divergence[kAtOnce];
};

// A sample with the prototypes first to first + 3; numbers beyond the last mean nothing.
__device__ Compared compare(const LossShape& s, const LossArrays& of, const float* x, const Angular& a, int first) {
  const int lane = threadIdx.x % 32;
  Compared out{};
#pragma unroll
  for (int i = 0; i < kAtOnce; ++i) {
    const int k = min(first + i, s.prototypes - 1);
    for (int d = lane; d < s.size; d += 32) {
      const float apart = x[d] - of.mean[k * s.size + d];
      out.distance[i] += apart * apart * of.precision[k * s.size + d];
    }
    if (lane >= s.bins) continue;
    const int at = k * s.bins + lane;
    out.divergence[i] = (a.p - of.angular[at]) * (a.log_p - of.log_angular[at]);
  }
  for (int step = 16; step > 0; step /= 2)
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      out.distance[i] += __shfl_xor_sync(0xffffffffu, out.distance[i], step);
      out.divergence[i] += __shfl_xor_sync(0xffffffffu, out.divergence[i], step);
    }
  return out;
}

__device__ void sample_loss(const LossShape& s, const LossArrays& of, int b, int lane) {
  const float* x = of.descriptor + int64_t(b) * s.size;
  const float* share = of.share + int64_t(b) * s.prototypes;
  const Angular a = read_angular(s, x, lane);
  float all = 0, nearest_distance = 0;
  int nearest = 0;
  for (int first = 0; first < s.prototypes; first += kAtOnce) {
    const Compared found = compare(s, of, x, a, first);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int k = first + i;
      if (k >= s.prototypes) continue;
      const float distance = found.distance[i], divergence = found.divergence[i] * s.kl_factor;
      all += share[k] * (distance + s.lambda * divergence);
      if (k == 0 || distance < nearest_distance) {
        nearest = k;
        nearest_distance = distance;
      }
      if (lane != 0) continue;
      of.distance[int64_t(b) * s.prototypes + k] = distance;
      of.divergence[int64_t(b) * s.prototypes + k] = divergence;
    }
  }
  const float weight = s.adaptive ? expf(-nearest_distance / s.tau) : s.fixed_weight;
  if (lane == 0) {
    of.weight[b] = weight;
    of.per_sample[b] = weight * all;
  }
  if (!of.grad) return;
  const float scale = weight / s.batch;
  float* grad = of.grad + int64_t(b) * s.size;
  for (int d = lane; d < s.size; d += 32) {
    float sum = 0;
#pragma unroll 4
    for (int k = 0; k < s.prototypes; ++k) {
      float factor = 2 * scale * share[k];
      if (s.confidence_moves && k == nearest) factor -= 2 * scale * all / s.tau;
      sum += factor * (x[d] - of.mean[k * s.size + d]) * of.precision[k * s.size + d];
    }
    grad[d] = sum;
  }
  __syncwarp();
  if (s.lambda == 0) return;
  float pull = 0;
  if (lane < s.bins)
#pragma unroll 4
    for (int k = 0; k < s.prototypes; ++k) {
      const int at = k * s.bins + lane;
      pull += scale * s.lambda * s.kl_factor * share[k] * (a.log_p - of.log_angular[at] + (a.p - of.angular[at]) / a.p);
    }
  const float along = warp_sum(pull * a.p);
  pull = lane < s.bins && a.raw >= s.floor ? (pull - along) / a.floored_sum : 0;
  const float along_raw = a.moves ? warp_sum(pull * a.raw) : 0;
  if (lane < s.bins) grad[s.angular_begin + lane] += (pull - along_raw) / a.denominator;
}

__global__ void batch_loss(LossShape s, LossArrays of) {
  const int lane = threadIdx.x % 32;
  for (int b = threadIdx.x / 32; b < s.batch; b += kWarps) sample_loss(s, of, b, lane);
  __syncthreads();
  if (threadIdx.x >= 32) return;
  float sum = 0;
  for (int b = lane; b < s.batch; b += 32) sum += of.per_sample[b];
  sum = warp_sum(sum);
  if (lane == 0) *of.loss = sum / s.batch;
}

}  // namespace

void spectral_loss(const LossShape& shape, const LossArrays& of, Stream stream) {
  batch_loss<<<1, kWarps * 32, 0, as_stream(stream)>>>(shape, of);
  check_launch("spectral loss");
}

}  // namespace asr::cuda
