// Gaussian moments of a stage's keys, and what they say of a new key: which stage it fits. Kept are count, mean and
// scatter of each stage, never a key; the covariance is shared by all stages, and every dimension is divided by its
// total deviation, within and between stages, since a cue that is constant within a stage has no variance there.
#pragma once

#include <torch/types.h>

#include <vector>

#include "base/options.h"
#include "tensor/state.h"

namespace asr {

enum class KeyCovariance { full, diagonal };
template <>
struct EnumNames<KeyCovariance> {
  static constexpr const char* names[] = {"full", "diagonal"};
};

// Of some keys, in double on the host.
struct KeyMoments {
  int64_t count = 0;
  torch::Tensor mean, scatter;  // [D], [D, D] about the mean
};
KeyMoments key_moments(const torch::Tensor& keys);  // [N, D], N > 0
KeyMoments merged(const KeyMoments& a, const KeyMoments& b);
KeyMoments leading(const KeyMoments& of, int64_t numbers);  // of the first numbers of each key
// In blocks of a fixed size, merged in order: the same bits however the rows were shared out before.
KeyMoments key_moments_in_blocks(const torch::Tensor& keys);

// Numbers of a key that have a covariance with each other, by group; between groups there is none, and none is kept.
// Squared distances of groups add up. Empty: all numbers are one group.
using KeyGroups = std::vector<int64_t>;

// What is kept of all stages.
class StageKeyMoments {
 public:
  void set_groups(KeyGroups groups) { groups_ = std::move(groups); }  // before anything is added, or read
  int64_t widest_group(int64_t numbers) const;                        // among so many leading ones
  int64_t stages() const { return count_.defined() ? count_.size(0) : 0; }
  int64_t dimension() const { return mean_.defined() ? mean_.size(1) : 0; }
  // Rounded to float32 as they are stored, so that a resumed run reads the same numbers.
  void add(const KeyMoments& stage);
  KeyMoments of(int64_t stage) const;  // from 0
  // How far a new key of the stage may lie where so many leading numbers are looked at, all or fewer: a ratio to the
  // mean squared distance of those it was made of.
  void set_reach(int64_t stage, int64_t numbers, double ratio);
  double reach(int64_t stage, int64_t numbers) const;  // infinite where none was set

  void state(StateVisitor& visitor, bool with_leading);  // whether keys may be looked at in part

 private:
  torch::Tensor count_;          // [T] int64
  torch::Tensor mean_;           // [T, D] float32
  torch::Tensor scatter_;        // [T, D (D + 1) / 2] float32: lower triangles, row after row, within groups alone
  torch::Tensor reach_;          // [T] float32; 0: none was set
  torch::Tensor leading_reach_;  // the same where fewer than all numbers are looked at
  KeyGroups groups_;
};

// The moments, ready to be asked: dimensions scaled, one covariance with a ridge, and its Cholesky factor.
class KeyReading {
 public:
  // Of so many leading numbers of a key; 0: of all.
  KeyReading(const StageKeyMoments& kept, double ridge, KeyCovariance covariance, int64_t numbers = 0);

  torch::Tensor distances(const torch::Tensor& keys) const;  // [B, T] squared, in double
  // -(n / (n + 1)) distance - D log(1 + 1 / n): the log likelihood twice, up to what all stages share. The mean of few
  // keys is uncertain; for large n this is the plain distance.
  torch::Tensor scores(const torch::Tensor& distances) const;  // [B, T]
  // tr(R^-1 C) / n of every stage: the mean squared distance of the keys it was made of.
  torch::Tensor spread() const { return spread_; }  // [T]
  double ridge() const { return ridge_; }           // that was needed

 private:
  torch::Tensor deviation_;  // [D]
  torch::Tensor whitening_;  // [D, D]: inverse of the Cholesky factor
  torch::Tensor means_;      // [T, D], whitened
  torch::Tensor counts_;     // [T]
  torch::Tensor spread_;     // [T]
  double ridge_ = 0;
};

// The smallest number that at least `quantile` of new values like these stay below: the order statistic at
// ceil(quantile (n + 1)), infinite where there are too few to say.
double upper_quantile(const torch::Tensor& values, double quantile);

}  // namespace asr
