// Attention maps of 24 x 24 to descriptors and back, a warp a map. A lane transforms a whole row or column in its
// registers, with cosines that the compiler knows; the rows of attention are read once. Sums are made as in
// descriptor_cuda.cu up to their order, which does not change either.
#include "ops/descriptor_cuda.cuh"

namespace asr::cuda {
namespace {

constexpr int kSide = 24, kColumns = 13, kCells = kSide * kSide, kHalf = kSide * kColumns;
constexpr int kEach = kCells / 32;           // cells of a lane: lane, lane + 32, ...
constexpr int kEntries = (kHalf + 31) / 32;  // of the half plane, likewise
constexpr int kStride = kSide + 1;           // of a map's rows in shared memory, so that lanes meet different banks
constexpr int kWarps = 4;

// Of k times 15 degrees.
__host__ __device__ constexpr float cosine(int k) {
  k = k % kSide;
  if (k > 12) k = kSide - k;
  const bool negative = k > 6;
  if (negative) k = 12 - k;
  const float value = k == 0   ? 1.0f
                      : k == 1 ? 0.96592582628906829f
                      : k == 2 ? 0.86602540378443865f
                      : k == 3 ? 0.70710678118654752f
                      : k == 4 ? 0.5f
                      : k == 5 ? 0.25881904510252076f
                               : 0.0f;
  return negative ? -value : value;
}
__host__ __device__ constexpr float sine(int k) {
  return cosine(k + 18);
}

struct Waves {
  float cosines[kColumns], sines[kColumns];  // sum over n of x[n] cos(2 pi k n / 24), and with sin
};

__device__ inline Waves transform(const float (&x)[kSide]) {
  Waves out;
#pragma unroll
  for (int k = 0; k < kColumns; ++k) {
    float c = k % 2 ? x[0] - x[12] : x[0] + x[12], s = 0;
#pragma unroll
    for (int n = 1; n < 12; ++n) {
      if (cosine(k * n) != 0) c += (x[n] + x[kSide - n]) * cosine(k * n);
      if (sine(k * n) != 0) s += (x[n] - x[kSide - n]) * sine(k * n);
    }
    out.cosines[k] = c;
    out.sines[k] = s;
  }
  return out;
}

// Shared memory of a warp.
struct Room {
  float map[kSide * kStride];
  float real[kHalf], imaginary[kHalf];  // entry u * 13 + v, or y * 13 + v
  float pull[kHalf];
};

// The lanes 2 v and 2 v + 1 hold the real and the imaginary part of column v of the half plane.
struct Column {
  int v = static_cast<int>(threadIdx.x % 32 / 2), part = static_cast<int>(threadIdx.x % 2);
  bool here = v < kColumns;
};

// x turns into its transform along the column; direction 1, or -1: back.
__device__ void transform_column(const Column& column, float (&x)[kSide], int direction) {
  const Waves w = transform(x);
  const float sign = column.part == 0 ? static_cast<float>(direction) : static_cast<float>(-direction);
#pragma unroll
  for (int k = 0; k < kColumns; ++k) {
    const float other = sign * __shfl_xor_sync(0xffffffffu, w.sines[k], 1);
    x[k] = w.cosines[k] + other;
    if (k > 0 && k < 12) x[kSide - k] = w.cosines[k] - other;
  }
}

// The transform of r.map, a column's part a lane.
__device__ void transform_map(Room& r, const Column& column, float (&x)[kSide]) {
  const int lane = threadIdx.x % 32;
  __syncwarp();
  if (lane < kSide) {
    float row[kSide];
#pragma unroll
    for (int n = 0; n < kSide; ++n) row[n] = r.map[lane * kStride + n];
    const Waves w = transform(row);
#pragma unroll
    for (int v = 0; v < kColumns; ++v) {
      r.real[lane * kColumns + v] = w.cosines[v];
      r.imaginary[lane * kColumns + v] = -w.sines[v];
    }
  }
  __syncwarp();
  const float* from = column.part == 0 ? r.real : r.imaginary;
#pragma unroll
  for (int y = 0; y < kSide; ++y) x[y] = column.here ? from[y * kColumns + column.v] : 0;
  transform_column(column, x, 1);
}

__device__ void store_column(Room& r, const Column& column, const float (&x)[kSide]) {
  __syncwarp();
  float* to = column.part == 0 ? r.real : r.imaginary;
  if (column.here)
#pragma unroll
    for (int u = 0; u < kSide; ++u) to[u * kColumns + column.v] = x[u];
  __syncwarp();
}

__device__ inline float power_at(const SpectrumTables& t, const Room& r, int entry) {
  return (r.real[entry] * r.real[entry] + r.imaginary[entry] * r.imaginary[entry]) * t.power_scale;
}

// A lane's entries of the half plane's power; 0 beyond its end.
__device__ void read_power(const SpectrumTables& t, const Room& r, float (&power)[kEntries]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < kEntries; ++n) {
    const int i = lane + 32 * n;
    power[n] = i < kHalf ? power_at(t, r, i) : 0;
  }
}

__device__ float weighed_sum(const float* table, const float (&power)[kEntries]) {
  const int lane = threadIdx.x % 32;
  float sum = 0;
#pragma unroll
  for (int n = 0; n < kEntries; ++n)
    if (lane + 32 * n < kHalf) sum += table[lane + 32 * n] * power[n];
  return warp_sum(sum);
}

// The entry of the peak; ties go to the smallest frequency.
struct Peak {
  int entry, frequency;
};
__device__ Peak find_peak(const SpectrumTables& t, const float (&power)[kEntries]) {
  const int lane = threadIdx.x % 32;
  int frequency[kEntries];
  float most = -1;
#pragma unroll
  for (int n = 0; n < kEntries; ++n) {
    frequency[n] = lane + 32 * n < kHalf ? t.first[lane + 32 * n] : INT32_MAX;
    if (frequency[n] != INT32_MAX) most = fmaxf(most, power[n]);
  }
  for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
  Peak peak{kHalf - 1, INT32_MAX};
#pragma unroll
  for (int n = 0; n < kEntries; ++n)
    if (frequency[n] < peak.frequency && power[n] >= most * (1 - 1e-9f)) peak = {lane + 32 * n, frequency[n]};
  for (int step = 16; step > 0; step /= 2) {
    const Peak other = {__shfl_xor_sync(0xffffffffu, peak.entry, step),
                        __shfl_xor_sync(0xffffffffu, peak.frequency, step)};
    if (other.frequency < peak.frequency) peak = other;
  }
  return peak;
}

__device__ void load_cells(const float* from, float (&to)[kEach]) {
#pragma unroll
  for (int n = 0; n < kEach; ++n) to[n] = from[threadIdx.x % 32 + 32 * n];
}

__device__ inline float sum_of(const float (&x)[kEach]) {
  float sum = 0;
#pragma unroll
  for (int n = 0; n < kEach; ++n) sum += x[n];
  return warp_sum(sum);
}

__device__ inline int place_in_map(int n) {
  const int cell = static_cast<int>(threadIdx.x % 32) + 32 * n;
  return cell / kSide * kStride + cell % kSide;
}

__global__ void __launch_bounds__(kWarps * 32)
    forward_24(SpectrumTables t, SpectrumShape shape, SpectrumForward of, int maps) {
  __shared__ Room rooms[kWarps];
  Room& r = rooms[threadIdx.x / 32];
  const int index = static_cast<int>(blockIdx.x * kWarps + threadIdx.x / 32), lane = threadIdx.x % 32;
  if (index >= maps) return;
  const Column column;
  const float* attention = of.attention + int64_t(index) * shape.tokens * kCells;
  const float* weights = of.weights + int64_t(index / shape.heads) * shape.tokens;
  float map[kEach] = {}, next[kEach];
  load_cells(attention, next);
  for (int token = 0; token < shape.tokens; ++token) {
    float values[kEach];
#pragma unroll
    for (int n = 0; n < kEach; ++n) values[n] = next[n];
    if (token + 1 < shape.tokens) load_cells(attention + (token + 1) * kCells, next);
    const float weight = weights[token];
    if (!(weight > 0)) continue;  // unused tokens may hold anything, NaN too
    const float factor = t.token_norm ? weight / guarded(sum_of(values), t) : weight;
#pragma unroll
    for (int n = 0; n < kEach; ++n) map[n] += factor * values[n];
  }
  const float map_sum = sum_of(map), scale = 1 / guarded(map_sum, t);
#pragma unroll
  for (int n = 0; n < kEach; ++n) {
    map[n] *= scale;
    of.map[int64_t(index) * kCells + lane + 32 * n] = map[n];
    r.map[place_in_map(n)] = map[n];
  }
  float x[kSide], power[kEntries];
  transform_map(r, column, x);
  store_column(r, column, x);
  read_power(t, r, power);
  float radial = 0, angular = 0;  // of this lane's bin
  for (int k = 0; k < t.radial; ++k) {
    const float sum = weighed_sum(t.bins + k * kHalf, power);
    if (lane == k) radial = sum;
  }
  for (int m = 0; m < t.angular; ++m) {
    const float sum = weighed_sum(t.bins + (t.radial + m) * kHalf, power);
    if (lane == m) angular = sum;
  }
  const float all = weighed_sum(t.copies, power);
  const Peak peak = find_peak(t, power);
  const float radial_sum = warp_sum(radial), angular_sum = warp_sum(angular);
  angular /= guarded(angular_sum, t);
  const float mean = warp_sum(angular) / static_cast<float>(t.angular);
  float* head = of.head + int64_t(index) * (t.radial + 2 * t.angular + 3);
  if (lane < t.radial) head[lane] = radial / guarded(radial_sum, t);
  if (lane < t.angular) {
    head[t.radial + lane] = angular;
    head[t.radial + t.angular + lane] = angular / guarded(mean, t);
  }
  if (lane != 0) return;
  float* last = head + t.radial + 2 * t.angular;
  const int frequency = peak.frequency == INT32_MAX ? kCells - 1 : peak.frequency;
  const float peak_power = power_at(t, r, peak.entry);
  last[0] = t.radius[frequency];
  last[1] = t.angle[frequency];
  last[2] = t.peak_fraction ? peak_power / guarded(all, t) : peak_power;
  of.kept[index] = {map_sum, radial_sum, angular_sum, all, peak.entry};
}

// Gradients of a map's power from those of its descriptor: a lane's bin of radius and of angle, all power, the peak.
struct PowerPulls {
  float radial, angular, all, peak;
};

__device__ PowerPulls pull_bins(const SpectrumTables& t, const SpectrumShape& shape, const SpectrumBackward& of,
                                int index, float peak) {
  const MapStatistics kept = of.kept[index];
  const int D0 = t.radial + 2 * t.angular + 3, lane = threadIdx.x % 32;
  const int64_t sample = index / shape.heads;
  const float* head = of.head + int64_t(index) * D0;
  const float* grad = of.grad + sample * 2 * D0;
  const float* moments = of.descriptor + sample * 2 * D0;
  const auto pull_of = [&](int d) {
    const float second = moments[D0 + d];
    const float slope = t.deviation ? (second > 0 ? 1 / second : 0.0f) : 2.0f;
    return (grad[d] + grad[D0 + d] * slope * (head[d] - moments[d])) / static_cast<float>(shape.heads);
  };
  PowerPulls out{};
  const bool in_radial = lane < t.radial, in_angular = lane < t.angular;
  const float r = in_radial ? head[lane] : 0, to_r = in_radial ? pull_of(lane) : 0;
  const float along_r = warp_sum(to_r * r) * moves(kept.radial_sum, t);
  out.radial = in_radial ? (to_r - along_r) / guarded(kept.radial_sum, t) : 0;

  const int at_d = t.radial + lane, at_a = at_d + t.angular;
  const float d = in_angular ? head[at_d] : 0, a = in_angular ? head[at_a] : 0;
  const float to_d = in_angular ? pull_of(at_d) : 0, to_a = in_angular ? pull_of(at_a) : 0;
  const float count = static_cast<float>(t.angular), mean = warp_sum(d) / count;
  const float along_a = warp_sum(to_a * a) * moves(mean, t) / count;
  const float pull = in_angular ? to_d + (to_a - along_a) / guarded(mean, t) : 0;
  const float along_d = warp_sum(pull * d) * moves(kept.angular_sum, t);
  out.angular = in_angular ? (pull - along_d) / guarded(kept.angular_sum, t) : 0;

  const float p = pull_of(D0 - 1), guard = guarded(kept.power_sum, t);
  out.all = t.peak_fraction ? -p * peak / (guard * guard) * moves(kept.power_sum, t) : 0;
  out.peak = t.peak_fraction ? p / guard : p;
  return out;
}

// Of every entry of the half plane into r.pull, by this lane's entries.
__device__ void spread_pulls(const SpectrumTables& t, const PowerPulls& pulls, int peak, Room& r) {
  const int lane = threadIdx.x % 32;
  float sum[kEntries];
#pragma unroll
  for (int n = 0; n < kEntries; ++n) sum[n] = lane + 32 * n < kHalf ? pulls.all * t.copies[lane + 32 * n] : 0;
  const auto add = [&](const float* table, float factor) {
#pragma unroll
    for (int n = 0; n < kEntries; ++n)
      if (lane + 32 * n < kHalf) sum[n] += factor * table[lane + 32 * n];
  };
  for (int k = 0; k < t.radial; ++k) add(t.bins + k * kHalf, __shfl_sync(0xffffffffu, pulls.radial, k));
  for (int m = 0; m < t.angular; ++m) add(t.bins + (t.radial + m) * kHalf, __shfl_sync(0xffffffffu, pulls.angular, m));
#pragma unroll
  for (int n = 0; n < kEntries; ++n) {
    const int i = lane + 32 * n;
    if (i == peak) sum[n] += pulls.peak;
    if (i < kHalf) r.pull[i] = 2 * t.power_scale * sum[n];
  }
  __syncwarp();
}

// The gradient of the map into r.map, from a column's part a lane.
__device__ void transform_back(Room& r, const Column& column, float (&x)[kSide]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int u = 0; u < kSide; ++u) x[u] *= column.here ? r.pull[u * kColumns + column.v] : 0;
  transform_column(column, x, -1);
  store_column(r, column, x);
  if (lane < kSide) {
    float real[kColumns], imaginary[kColumns];
#pragma unroll
    for (int v = 0; v < kColumns; ++v) {
      real[v] = r.real[lane * kColumns + v];
      imaginary[v] = r.imaginary[lane * kColumns + v];
    }
#pragma unroll
    for (int k = 0; k < kColumns; ++k) {
      float even = 0, odd = 0;
#pragma unroll
      for (int v = 0; v < kColumns; ++v) {
        if (cosine(k * v) != 0) even += real[v] * cosine(k * v);
        if (sine(k * v) != 0) odd += imaginary[v] * sine(k * v);
      }
      r.map[lane * kStride + k] = even - odd;
      if (k > 0 && k < 12) r.map[lane * kStride + kSide - k] = even + odd;
    }
  }
  __syncwarp();
}

__global__ void __launch_bounds__(kWarps * 32)
    backward_24(SpectrumTables t, SpectrumShape shape, SpectrumBackward of, int maps) {
  __shared__ Room rooms[kWarps];
  Room& r = rooms[threadIdx.x / 32];
  const int index = static_cast<int>(blockIdx.x * kWarps + threadIdx.x / 32), lane = threadIdx.x % 32;
  if (index >= maps) return;
  const Column column;
  const int64_t begin = int64_t(index) * shape.tokens * kCells;
  const float* weights = of.weights + int64_t(index / shape.heads) * shape.tokens;
  const MapStatistics kept = of.kept[index];
  float map[kEach], next[kEach];
  load_cells(of.map + int64_t(index) * kCells, map);
  load_cells(of.attention + begin, next);
#pragma unroll
  for (int n = 0; n < kEach; ++n) r.map[place_in_map(n)] = map[n];
  float x[kSide];
  transform_map(r, column, x);
  store_column(r, column, x);
  const float peak = power_at(t, r, kept.peak_entry);
  spread_pulls(t, pull_bins(t, shape, of, index, peak), kept.peak_entry, r);
  transform_back(r, column, x);
  // Through the map's own sum.
  float pull[kEach], along = 0;
#pragma unroll
  for (int n = 0; n < kEach; ++n) {
    pull[n] = r.map[place_in_map(n)];
    along += pull[n] * map[n];
  }
  along = warp_sum(along) * moves(kept.map_sum, t);
  const float guard = guarded(kept.map_sum, t);
#pragma unroll
  for (int n = 0; n < kEach; ++n) pull[n] = (pull[n] - along) / guard;
  for (int token = 0; token < shape.tokens; ++token) {
    float values[kEach];
#pragma unroll
    for (int n = 0; n < kEach; ++n) values[n] = next[n];
    if (token + 1 < shape.tokens) load_cells(of.attention + begin + (token + 1) * kCells, next);
    const float weight = weights[token];
    float scale = weight, dot = 0;
    if (t.token_norm && weight > 0) {
      const float sum = sum_of(values);
#pragma unroll
      for (int n = 0; n < kEach; ++n) dot += values[n] * pull[n];
      dot = warp_sum(dot) * moves(sum, t) / guarded(sum, t);
      scale = weight / guarded(sum, t);
    }
    float* to = of.to + begin + token * kCells;
#pragma unroll
    for (int n = 0; n < kEach; ++n) to[lane + 32 * n] = weight > 0 ? scale * (pull[n] - dot) : 0.0f;
  }
}

}  // namespace

void maps_24_forward(const SpectrumTables& tables, const SpectrumShape& shape, const SpectrumForward& of,
                     Stream stream) {
  const int maps = shape.samples * shape.heads;
  forward_24<<<blocks_for(maps, kWarps), kWarps * 32, 0, as_stream(stream)>>>(tables, shape, of, maps);
  check_launch("spectral descriptor of 24 x 24");
}

void maps_24_backward(const SpectrumTables& tables, const SpectrumShape& shape, const SpectrumBackward& of,
                      Stream stream) {
  const int maps = shape.samples * shape.heads;
  backward_24<<<blocks_for(maps, kWarps), kWarps * 32, 0, as_stream(stream)>>>(tables, shape, of, maps);
  check_launch("gradient of the spectral descriptor of 24 x 24");
}

}  // namespace asr::cuda
