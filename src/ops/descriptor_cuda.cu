// Attention maps to descriptors and back: a block a map, which reads its rows of attention once and keeps everything
// else in shared memory. Every sum has one order, so equal maps give equal bits and runs repeat.
#include "ops/descriptor_cuda.cuh"

namespace asr::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kMostBins = 64;  // of radius and angle together

// Shared memory of a block.
struct Room {
  float* map;              // [cells]
  float *wave_r, *wave_i;  // [half]: after the transform along rows
  float *full_r, *full_i;  // [half]: after both
  float* power;            // [half]
  float* token;            // [tokens]
  float* bins;             // [kMostBins]
  float *cos_h, *sin_h, *cos_w, *sin_w;
};

__device__ Room lay_out(float* memory, const SpectrumTables& t, int tokens) {
  const int cells = t.height * t.width, half = t.height * t.columns;
  Room r;
  const auto take = [&](int count) {
    float* at = memory;
    memory += count;
    return at;
  };
  r.map = take(cells);
  r.wave_r = take(half);
  r.wave_i = take(half);
  r.full_r = take(half);
  r.full_i = take(half);
  r.power = take(half);
  r.token = take(tokens);
  r.bins = take(kMostBins);
  r.cos_h = take(t.height);
  r.sin_h = take(t.height);
  r.cos_w = take(t.width);
  r.sin_w = take(t.width);
  return r;
}

__device__ void load_waves(const SpectrumTables& t, Room& r) {
  for (int i = threadIdx.x; i < t.height; i += kThreads) {
    r.cos_h[i] = t.cos_h[i];
    r.sin_h[i] = t.sin_h[i];
  }
  for (int i = threadIdx.x; i < t.width; i += kThreads) {
    r.cos_w[i] = t.cos_w[i];
    r.sin_w[i] = t.sin_w[i];
  }
}

// The half plane of the map's transform into full_r and full_i; a barrier before and after.
__device__ void transform(const SpectrumTables& t, Room& r) {
  const int half = t.height * t.columns;
  __syncthreads();
  for (int i = threadIdx.x; i < half; i += kThreads) {
    const int row = i / t.columns, v = i % t.columns;
    float real = 0, imaginary = 0;
    for (int x = 0, k = 0; x < t.width; ++x) {
      const float value = r.map[row * t.width + x];
      real += value * r.cos_w[k];
      imaginary -= value * r.sin_w[k];
      k += v;
      if (k >= t.width) k -= t.width;
    }
    r.wave_r[i] = real;
    r.wave_i[i] = imaginary;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < half; i += kThreads) {
    const int u = i / t.columns, v = i % t.columns;
    float real = 0, imaginary = 0;
    for (int y = 0, k = 0; y < t.height; ++y) {
      const float a = r.wave_r[y * t.columns + v], b = r.wave_i[y * t.columns + v];
      real += a * r.cos_h[k] + b * r.sin_h[k];
      imaginary += b * r.cos_h[k] - a * r.sin_h[k];
      k += u;
      if (k >= t.height) k -= t.height;
    }
    r.full_r[i] = real;
    r.full_i[i] = imaginary;
    r.power[i] = (real * real + imaginary * imaginary) * t.power_scale;
  }
  __syncthreads();
}

// Sums over the half plane, one a warp at a time: every bin, then all power.
__device__ void sum_bins(const SpectrumTables& t, Room& r) {
  const int half = t.height * t.columns, count = t.radial + t.angular, lane = threadIdx.x % 32;
  for (int bin = threadIdx.x / 32; bin <= count; bin += kWarps) {
    const float* table = bin < count ? t.bins + bin * half : t.copies;
    float sum = 0;
    for (int i = lane; i < half; i += 32) sum += table[i] * r.power[i];
    sum = warp_sum(sum);
    if (lane == 0) r.bins[bin] = sum;
  }
}

// The entry of the peak, by the first warp; ties go to the smallest frequency.
__device__ int peak_entry(const SpectrumTables& t, const Room& r) {
  const int half = t.height * t.columns, lane = threadIdx.x % 32;
  float most = -1;
  for (int i = lane; i < half; i += 32)
    if (t.first[i] != INT32_MAX) most = fmaxf(most, r.power[i]);
  for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
  int first = INT32_MAX, entry = half - 1;
  for (int i = lane; i < half; i += 32)
    if (t.first[i] < first && r.power[i] >= most * (1 - 1e-9f)) {
      first = t.first[i];
      entry = i;
    }
  for (int step = 16; step > 0; step /= 2) {
    const int other = __shfl_xor_sync(0xffffffffu, first, step), place = __shfl_xor_sync(0xffffffffu, entry, step);
    if (other < first) {
      first = other;
      entry = place;
    }
  }
  return entry;
}

__global__ void __launch_bounds__(kThreads) map_forward(SpectrumTables t, SpectrumShape shape, SpectrumForward of) {
  extern __shared__ float memory[];
  Room r = lay_out(memory, t, shape.tokens);
  const int cells = t.height * t.width, lane = threadIdx.x % 32, sample = blockIdx.x / shape.heads;
  const float* attention = of.attention + int64_t(blockIdx.x) * shape.tokens * cells;
  const float* weights = of.weights + int64_t(sample) * shape.tokens;
  load_waves(t, r);
  for (int token = threadIdx.x / 32; token < shape.tokens; token += kWarps) {
    const float weight = weights[token];
    float sum = 0;
    if (t.token_norm && weight > 0) {
      for (int c = lane; c < cells; c += 32) sum += attention[token * cells + c];
      sum = warp_sum(sum);
    }
    if (lane == 0) r.token[token] = t.token_norm ? weight / guarded(sum, t) : weight;
  }
  __syncthreads();
  float part = 0;
  for (int c = threadIdx.x; c < cells; c += kThreads) {
    float value = 0;
    for (int token = 0; token < shape.tokens; ++token)  // unused tokens may hold anything, NaN too
      if (weights[token] > 0) value += r.token[token] * attention[token * cells + c];
    r.map[c] = value;
    part += value;
  }
  const float map_sum = block_sum(part), scale = 1 / guarded(map_sum, t);
  for (int c = threadIdx.x; c < cells; c += kThreads) {
    r.map[c] *= scale;
    of.map[int64_t(blockIdx.x) * cells + c] = r.map[c];
  }
  transform(t, r);
  sum_bins(t, r);
  __syncthreads();
  if (threadIdx.x >= 32) return;
  const int entry = peak_entry(t, r);
  if (lane != 0) return;
  float* head = of.head + int64_t(blockIdx.x) * (t.radial + 2 * t.angular + 3);
  float radial = 0, angular = 0, mean = 0;
  for (int k = 0; k < t.radial; ++k) radial += r.bins[k];
  for (int m = 0; m < t.angular; ++m) angular += r.bins[t.radial + m];
  const float radial_guard = guarded(radial, t), angular_guard = guarded(angular, t);
  for (int k = 0; k < t.radial; ++k) head[k] = r.bins[k] / radial_guard;
  for (int m = 0; m < t.angular; ++m) {
    head[t.radial + m] = r.bins[t.radial + m] / angular_guard;
    mean += head[t.radial + m];
  }
  const float mean_guard = guarded(mean / t.angular, t);
  for (int m = 0; m < t.angular; ++m) head[t.radial + t.angular + m] = head[t.radial + m] / mean_guard;
  const float all = r.bins[t.radial + t.angular], peak = r.power[entry];
  float* last = head + t.radial + 2 * t.angular;
  const int frequency = t.first[entry] == INT32_MAX ? cells - 1 : t.first[entry];
  last[0] = t.radius[frequency];
  last[1] = t.angle[frequency];
  last[2] = t.peak_fraction ? peak / guarded(all, t) : peak;
  of.kept[blockIdx.x] = {map_sum, radial, angular, all, entry};
}

// Mean and second moment of a sample's heads, a warp a dimension; relative to the first head, so that equal heads have
// spread 0 exactly.
__global__ void head_moments(SpectrumTables t, SpectrumShape shape, SpectrumForward of) {
  const int D0 = t.radial + 2 * t.angular + 3, lane = threadIdx.x % 32;
  const float* head = of.head + int64_t(blockIdx.x) * shape.heads * D0;
  for (int d = threadIdx.x / 32; d < D0; d += blockDim.x / 32) {
    const float first = head[d];
    float sum = 0;
    for (int j = lane; j < shape.heads; j += 32) sum += head[j * D0 + d] - first;
    const float middle = warp_sum(sum) / shape.heads;
    float squares = 0;
    for (int j = lane; j < shape.heads; j += 32) {
      const float apart = head[j * D0 + d] - first - middle;
      squares += apart * apart;
    }
    const float variance = warp_sum(squares) / shape.heads;
    if (lane != 0) continue;
    const int64_t at = int64_t(blockIdx.x) * 2 * D0 + d;
    of.descriptor[at] = first + middle;
    of.descriptor[at + D0] = t.deviation ? sqrtf(variance) : variance;
    if (!of.copy) continue;
    of.copy[at] = of.descriptor[at];
    of.copy[at + D0] = of.descriptor[at + D0];
  }
}

// Gradients of a map's power, from those of its descriptor, by one thread: of every bin into r.bins, then of all power
// and of the peak. `g`: of the head's descriptor.
__device__ void pull_bins(const SpectrumTables& t, const float* g, const float* head, const MapStatistics& kept,
                          Room& r) {
  const int K = t.radial, M = t.angular;
  const float peak = r.power[kept.peak_entry];
  float* pull = r.bins;
  const float radial_guard = guarded(kept.radial_sum, t), angular_guard = guarded(kept.angular_sum, t);
  float along = 0;
  for (int k = 0; k < K; ++k) along += g[k] * head[k];
  along *= moves(kept.radial_sum, t);
  for (int k = 0; k < K; ++k) pull[k] = (g[k] - along) / radial_guard;
  float sum = 0, along_a = 0;
  for (int m = 0; m < M; ++m) {
    sum += head[K + m];
    along_a += g[K + M + m] * head[K + M + m];
  }
  const float mean_guard = guarded(sum / M, t);
  along_a *= moves(sum / M, t) / M;
  float along_d = 0;
  for (int m = 0; m < M; ++m) {
    const float d = g[K + m] + (g[K + M + m] - along_a) / mean_guard;
    pull[K + m] = d;
    along_d += d * head[K + m];
  }
  along_d *= moves(kept.angular_sum, t);
  for (int m = 0; m < M; ++m) pull[K + m] = (pull[K + m] - along_d) / angular_guard;
  const float p = g[K + 2 * M + 2], all_guard = guarded(kept.power_sum, t);
  pull[K + M] = t.peak_fraction ? -p * peak / (all_guard * all_guard) * moves(kept.power_sum, t) : 0;
  pull[K + M + 1] = t.peak_fraction ? p / all_guard : p;
}

// The gradient of the map into `map`, from that of the power: the transform turned round.
__device__ void transform_back(const SpectrumTables& t, Room& r, int peak) {
  const int half = t.height * t.columns, count = t.radial + t.angular;
  for (int i = threadIdx.x; i < half; i += kThreads) {
    float pull = r.bins[count] * t.copies[i];
    for (int bin = 0; bin < count; ++bin) pull += r.bins[bin] * t.bins[bin * half + i];
    if (i == peak) pull += r.bins[count + 1];
    pull *= 2 * t.power_scale;
    r.full_r[i] *= pull;
    r.full_i[i] *= pull;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < half; i += kThreads) {
    const int y = i / t.columns, v = i % t.columns;
    float real = 0, imaginary = 0;
    for (int u = 0, k = 0; u < t.height; ++u) {
      const float a = r.full_r[u * t.columns + v], b = r.full_i[u * t.columns + v];
      real += a * r.cos_h[k] - b * r.sin_h[k];
      imaginary += b * r.cos_h[k] + a * r.sin_h[k];
      k += y;
      if (k >= t.height) k -= t.height;
    }
    r.wave_r[i] = real;
    r.wave_i[i] = imaginary;
  }
  __syncthreads();
  for (int c = threadIdx.x; c < t.height * t.width; c += kThreads) {
    const int y = c / t.width, x = c % t.width;
    float sum = 0;
    for (int v = 0, k = 0; v < t.columns; ++v) {
      sum += r.wave_r[y * t.columns + v] * r.cos_w[k] - r.wave_i[y * t.columns + v] * r.sin_w[k];
      k += x;
      if (k >= t.width) k -= t.width;
    }
    r.map[c] = sum;
  }
}

__global__ void __launch_bounds__(kThreads) map_backward(SpectrumTables t, SpectrumShape shape, SpectrumBackward of) {
  extern __shared__ float memory[];
  Room r = lay_out(memory, t, shape.tokens);
  const int cells = t.height * t.width, lane = threadIdx.x % 32, sample = blockIdx.x / shape.heads;
  const int D0 = t.radial + 2 * t.angular + 3;
  const int64_t begin = int64_t(blockIdx.x) * shape.tokens * cells;
  const float* weights = of.weights + int64_t(sample) * shape.tokens;
  const float* map = of.map + int64_t(blockIdx.x) * cells;
  const float* head = of.head + int64_t(blockIdx.x) * D0;
  const MapStatistics kept = of.kept[blockIdx.x];
  load_waves(t, r);
  for (int c = threadIdx.x; c < cells; c += kThreads) r.map[c] = map[c];
  transform(t, r);
  __shared__ float g[kMostBins * 2];
  for (int d = threadIdx.x; d < D0; d += kThreads) {
    const float* grad = of.grad + int64_t(sample) * 2 * D0;
    const float* moments = of.descriptor + int64_t(sample) * 2 * D0;
    const float second = moments[D0 + d];
    const float slope = t.deviation ? (second > 0 ? 1 / second : 0.0f) : 2.0f;
    g[d] = (grad[d] + grad[D0 + d] * slope * (head[d] - moments[d])) / shape.heads;
  }
  __syncthreads();
  if (threadIdx.x == 0) pull_bins(t, g, head, kept, r);
  __syncthreads();
  transform_back(t, r, kept.peak_entry);
  // Through the map's own sum; a thread reads the cells that it wrote.
  float part = 0;
  for (int c = threadIdx.x; c < cells; c += kThreads) part += r.map[c] * map[c];
  const float along = block_sum(part) * moves(kept.map_sum, t), guard = guarded(kept.map_sum, t);
  for (int c = threadIdx.x; c < cells; c += kThreads) r.map[c] = (r.map[c] - along) / guard;
  __syncthreads();
  for (int token = threadIdx.x / 32; token < shape.tokens; token += kWarps) {
    const float weight = weights[token];
    const float* row = of.attention + begin + token * cells;
    float* to = of.to + begin + token * cells;
    float scale = weight, dot = 0;
    if (t.token_norm && weight > 0) {
      float sum = 0;
      for (int c = lane; c < cells; c += 32) {
        sum += row[c];
        dot += row[c] * r.map[c];
      }
      sum = warp_sum(sum);
      dot = warp_sum(dot) * moves(sum, t) / guarded(sum, t);
      scale = weight / guarded(sum, t);
    }
    for (int c = lane; c < cells; c += 32) to[c] = weight > 0 ? scale * (r.map[c] - dot) : 0.0f;
  }
}

size_t room_bytes(const SpectrumTables& t, int tokens) {
  const size_t cells = size_t(t.height) * t.width, half = size_t(t.height) * t.columns;
  return (cells + 5 * half + tokens + kMostBins + 2 * (size_t(t.height) + t.width)) * sizeof(float);
}

}  // namespace

int64_t spectrum_room(const SpectrumTables& tables, int tokens) {
  const bool fits =
      tables.radial + 2 * tables.angular + 3 <= 2 * kMostBins && tables.radial + tables.angular + 2 <= kMostBins;
  return fits ? static_cast<int64_t>(room_bytes(tables, tokens)) : INT64_MAX;
}

void spectrum_forward(const SpectrumTables& tables, const SpectrumShape& shape, const SpectrumForward& of,
                      Stream stream) {
  const auto blocks = static_cast<unsigned>(shape.samples) * shape.heads;
  if (is_grid_24(tables))
    maps_24_forward(tables, shape, of, stream);
  else
    map_forward<<<blocks, kThreads, room_bytes(tables, shape.tokens), as_stream(stream)>>>(tables, shape, of);
  head_moments<<<static_cast<unsigned>(shape.samples), 1024, 0, as_stream(stream)>>>(tables, shape, of);
  check_launch("spectral descriptor");
}

void spectrum_backward(const SpectrumTables& tables, const SpectrumShape& shape, const SpectrumBackward& of,
                       Stream stream) {
  const auto blocks = static_cast<unsigned>(shape.samples) * shape.heads;
  if (is_grid_24(tables)) return maps_24_backward(tables, shape, of, stream);
  map_backward<<<blocks, kThreads, room_bytes(tables, shape.tokens), as_stream(stream)>>>(tables, shape, of);
  check_launch("gradient of the spectral descriptor");
}

}  // namespace asr::cuda
