// Sums of doubles and of their squares as exact integers, so that mean and variance come out correctly rounded
// and with the same bits for any order, split or number of workers (docs/maths.md section 8).
#pragma once

#include <cstdint>
#include <vector>

namespace asr {

// A signed fixed-point number wide enough for any sum of up to 2^62 doubles (or squares of doubles).
// Digits of 32 bits lie in 64-bit limbs; carries wait until a limb could overflow.
class ExactSum {
 public:
  enum class Of { values, squares };
  explicit ExactSum(Of of = Of::values);

  void add(double value);  // adds value or its square; value must be finite
  void merge(const ExactSum& other);

  // The sum as digits in base 2^32, two's complement sign separate, times 2^exponent.
  struct Number {
    bool negative = false;
    std::vector<uint32_t> digits;  // least significant first, no leading zeros; empty for 0
    int exponent = 0;
  };
  Number number() const;

  // For checkpoints and workers: the normalised limbs. `restore` fails on a wrong length.
  std::vector<int64_t> state() const;
  void restore(const std::vector<int64_t>& limbs);

 private:
  void add_at(int64_t bit, uint64_t low, uint64_t high, bool negative);
  void normalise();

  Of of_;
  int64_t pending_ = 0;  // additions since the carries were last settled
  std::vector<int64_t> limbs_;
};

double exact_mean(const ExactSum& values, int64_t count);                               // sum / n, rounded once
double exact_variance(const ExactSum& values, const ExactSum& squares, int64_t count);  // unbiased; n = 1 gives 0

}  // namespace asr
