// Choosing few samples out of many, as Adapt-infinity does: clusters of their vectors, in every cluster the score that
// tells its samples apart best, budgets shared out among clusters, a draw that covers a score's range, and the removal
// of what is most alike. Plain numbers in, row numbers out; random choices are keyed.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "base/options.h"

namespace asr {

// Mini-batch k-means (Sculley 2010): centres begin as k-means++ draws them; in every round each row of a batch goes to
// the nearest centre, which moves to the mean of all rows that it has been given so far.
struct KMeans {
  int64_t clusters = 10;  // at most; no more than there are rows
  int64_t batch = 1024, rounds = 100;
  uint64_t key = 0;
};
// The cluster of every row of `vectors` [N, D], from 0; some may have no rows. On their device.
std::vector<int64_t> clusters_of(const torch::Tensor& vectors, const KMeans& how);
std::vector<std::vector<int64_t>> rows_by_cluster(const std::vector<int64_t>& cluster);

double deviation_of(const std::vector<double>& values);  // of the population; of at least one value

enum class ScoreHistogram { sound, released };
template <>
struct EnumNames<ScoreHistogram> {
  static constexpr const char* names[] = {"sound", "released"};
};
// Shannon entropy of the standardised values in 50 bins over +-4; what lies outside is not counted. `released`: over
// +-4 deviations of the values as they were, so that it depends on their unit. 0 where they do not differ.
double score_entropy(const std::vector<double>& values, ScoreHistogram histogram);

enum class PerplexityForm { sound, released };
template <>
struct EnumNames<PerplexityForm> {
  static constexpr const char* names[] = {"sound", "released"};
};
// Which sample each row of logits belongs to: one row a sample, or one for each of its answer tokens.
struct RowOwners {
  torch::Tensor sample;  // [rows], from 0
  int64_t samples = 0;
  torch::Tensor means(const torch::Tensor& values) const;  // of each sample's own rows, [rows] to [samples] in double
};
// Of the losses of all rows, [rows]: each sample's mean; `released`: log of the mean of their exp, which the worst
// decides. [samples]
torch::Tensor log_perplexities(const torch::Tensor& losses, const RowOwners& owners, PerplexityForm form);
// EL2N and entropy, each sample's means of |target - p| and of -sum p log p, of logits [rows, choices]: [samples, 2].
// Targets are choices [rows] or what each choice is worth [rows, choices].
torch::Tensor uncertainty(const torch::Tensor& logits, const torch::Tensor& targets, const RowOwners& owners);

// `total` shared out in proportion to the weights, none above its size; what some have no room for goes to the others.
// Weights that are all 0 count as equal.
std::vector<int64_t> shared_out(int64_t total, const std::vector<int64_t>& sizes, const std::vector<double>& weights);

// `wanted` positions of `values`, ascending: without the 5 % at both ends, as far as enough are left, the same number
// from each of 50 bins of equal width, from high to low. What a bin lacks is passed on to the next one.
std::vector<int64_t> covering_draw(const std::vector<double>& values, int64_t wanted, uint64_t key);

// Of each row the largest cosine to a row before it; -2, below any, for the first. [n] in double
torch::Tensor nearest_before(const torch::Tensor& vectors);

// `wanted` rows of all clusters, in equal shares, those least like what stands before them in their cluster; ascending.
std::vector<int64_t> least_alike(const torch::Tensor& vectors, const std::vector<std::vector<int64_t>>& clusters,
                                 int64_t wanted);

// A projection by a matrix of +1 and -1, over the root of the dimension: lengths stay on average. Drawn on the host, so
// that every machine has the same. Where the matrix would have more than `most` signs, the numbers are first summed
// into fewer buckets, each number with a sign of its own (a count sketch); where as few as `dimension` are left, their
// sums are what it gives.
class SignProjection {
 public:
  SignProjection(int64_t numbers, int64_t dimension, uint64_t key, int64_t most = int64_t(8) << 30);
  // [n, numbers] to [n, dimension], on x's device; x itself where it is shorter.
  torch::Tensor operator()(const torch::Tensor& x);

 private:
  torch::Tensor summed(const torch::Tensor& x);  // [n, numbers] to [n, buckets]; x itself where there are none

  int64_t dimension_, buckets_ = 0;
  torch::Tensor places_;       // [numbers], whose k-th of every `buckets` goes to bucket k; or undefined
  torch::Tensor place_signs_;  // [numbers] int8, of the numbers at these places
  torch::Tensor signs_;        // [numbers or buckets, dimension] int8, or floats up to 1 GiB; or undefined
};

}  // namespace asr
