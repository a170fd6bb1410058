#include "spectral/exact_sum.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace asr {
namespace {

constexpr int kLowestValue = -1074, kLowestSquare = -2148;  // exponents of the smallest bit
constexpr int kSpareBits = 64;                              // room for 2^62 summands and the sign
constexpr int64_t kSettleEvery = int64_t(1) << 28;          // each addition moves a limb by less than 2^33

int lowest_bit(ExactSum::Of of) {
  return of == ExactSum::Of::values ? kLowestValue : kLowestSquare;
}

size_t limb_count(ExactSum::Of of) {
  const int highest = of == ExactSum::Of::values ? 1024 : 2048;
  return static_cast<size_t>((highest - lowest_bit(of) + kSpareBits + 31) / 32);
}

using Digits = std::vector<uint32_t>;
__extension__ typedef unsigned __int128 Wide;

void trim(Digits& digits) {
  while (!digits.empty() && digits.back() == 0) digits.pop_back();
}

Digits multiply(const Digits& a, const Digits& b) {
  Digits out(a.size() + b.size() + 1, 0);
  for (size_t i = 0; i < a.size(); ++i) {
    uint64_t carry = 0;
    for (size_t j = 0; j < b.size() || carry; ++j) {
      const uint64_t sum = out[i + j] + carry + (j < b.size() ? uint64_t(a[i]) * b[j] : 0);
      out[i + j] = static_cast<uint32_t>(sum);
      carry = sum >> 32;
    }
  }
  trim(out);
  return out;
}

Digits from_int(uint64_t value) {
  Digits out{static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32)};
  trim(out);
  return out;
}

// a - b for a >= b, as the Cauchy-Schwarz inequality grants below.
Digits subtract(const Digits& a, const Digits& b) {
  Digits out(a);
  int64_t borrow = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    int64_t digit = int64_t(out[i]) - borrow - (i < b.size() ? b[i] : 0);
    borrow = digit < 0;
    out[i] = static_cast<uint32_t>(digit + (borrow << 32));
  }
  trim(out);
  return out;
}

// digits * 2^exponent / divisor, rounded to the nearest double, ties to even.
double round_quotient(Digits digits, int exponent, uint64_t divisor) {
  if (digits.empty()) return 0;
  // Enough low zeros that the quotient has well over 64 bits; the remainder then only decides ties.
  const size_t added = 6;
  digits.insert(digits.begin(), added, 0);
  exponent -= static_cast<int>(32 * added);
  Wide remainder = 0;
  for (size_t i = digits.size(); i-- > 0;) {
    const Wide part = remainder << 32 | digits[i];
    digits[i] = static_cast<uint32_t>(part / divisor);
    remainder = part % divisor;
  }
  trim(digits);
  const int bits = static_cast<int>(32 * digits.size()) - __builtin_clz(digits.back());
  // Subnormal results keep fewer bits: the last one kept is never below 2^-1074.
  const int drop = std::max(bits - 53, -1074 - exponent);
  if (drop > bits) return 0;
  const auto bit = [&](int i) { return i >= 0 && (digits[i / 32] >> (i % 32) & 1); };
  uint64_t kept = 0;
  for (int i = bits - 1; i >= drop; --i) kept = kept << 1 | bit(i);
  bool below = remainder != 0;
  for (int i = drop - 2; i >= 0 && !below; --i) below = bit(i);
  if (bit(drop - 1) && (below || (kept & 1))) ++kept;
  return std::ldexp(static_cast<double>(kept), exponent + drop);
}

}  // namespace

ExactSum::ExactSum(Of of) : of_(of), limbs_(limb_count(of), 0) {}

void ExactSum::add_at(int64_t bit, uint64_t low, uint64_t high, bool negative) {
  const auto limb = static_cast<size_t>(bit / 32);
  const int shift = static_cast<int>(bit % 32);
  // 128 bits shifted by less than 32 fill at most five digits.
  const uint64_t words[3] = {low << shift, shift ? low >> (64 - shift) | high << shift : high,
                             shift ? high >> (64 - shift) : 0};
  for (size_t i = 0; i < 5; ++i) {
    const auto digit = static_cast<int64_t>(words[i / 2] >> (32 * (i % 2)) & 0xffffffff);
    if (digit) limbs_[limb + i] += negative ? -digit : digit;
  }
}

void ExactSum::add(double value) {
  check(std::isfinite(value), "a descriptor value is NaN or infinite");
  if (value == 0) return;
  if (++pending_ >= kSettleEvery) normalise();
  uint64_t bits;
  std::memcpy(&bits, &value, 8);
  const auto field = static_cast<int>(bits >> 52 & 0x7ff);
  const uint64_t mantissa = (bits & ((uint64_t(1) << 52) - 1)) | (field ? uint64_t(1) << 52 : 0);
  const int64_t position = std::max(field, 1) - 1;  // of the lowest mantissa bit above 2^-1074
  if (of_ == Of::values) return add_at(position, mantissa, 0, bits >> 63);
  const Wide square = static_cast<Wide>(mantissa) * mantissa;
  add_at(2 * position, static_cast<uint64_t>(square), static_cast<uint64_t>(square >> 64), false);
}

void ExactSum::normalise() {
  int64_t carry = 0;
  for (size_t i = 0; i + 1 < limbs_.size(); ++i) {
    const int64_t sum = limbs_[i] + carry;
    // arithmetic shift: carries may be negative
    limbs_[i] = sum & 0xffffffff;
    carry = sum >> 32;
  }
  limbs_.back() += carry;
  pending_ = 0;
}

void ExactSum::merge(const ExactSum& other) {
  check(of_ == other.of_, "sums of values and of squares cannot be merged");
  normalise();
  ExactSum settled = other;
  settled.normalise();
  for (size_t i = 0; i < limbs_.size(); ++i) limbs_[i] += settled.limbs_[i];
  normalise();
}

std::vector<int64_t> ExactSum::state() const {
  ExactSum settled = *this;
  settled.normalise();
  return settled.limbs_;
}

void ExactSum::restore(const std::vector<int64_t>& limbs) {
  check(limbs.size() == limbs_.size(), "stored sum has ", limbs.size(), " limbs; expected ", limbs_.size());
  for (size_t i = 0; i + 1 < limbs.size(); ++i) check(limbs[i] >= 0 && limbs[i] <= 0xffffffff, "stored sum is damaged");
  limbs_ = limbs;
  pending_ = 0;
}

ExactSum::Number ExactSum::number() const {
  auto limbs = state();
  Number out;
  out.exponent = lowest_bit(of_);
  out.negative = limbs.back() < 0;
  if (out.negative) {
    ExactSum negated(of_);
    for (size_t i = 0; i < limbs.size(); ++i) negated.limbs_[i] = -limbs[i];
    limbs = negated.state();
  }
  for (int64_t limb : limbs) out.digits.push_back(static_cast<uint32_t>(limb));
  trim(out.digits);
  return out;
}

double exact_mean(const ExactSum& values, int64_t count) {
  check(count > 0, "mean of no samples");
  const auto sum = values.number();
  const double magnitude = round_quotient(sum.digits, sum.exponent, static_cast<uint64_t>(count));
  return sum.negative ? -magnitude : magnitude;
}

double exact_variance(const ExactSum& values, const ExactSum& squares, int64_t count) {
  check(count > 0 && count < (int64_t(1) << 31), "variance of ", count, " samples is outside 1..2^31");
  if (count == 1) return 0;
  // (n Q - S^2) / (n (n - 1)): both terms have the exponent of the squares.
  const auto n = static_cast<uint64_t>(count);
  const auto sum = values.number(), square = squares.number();
  const Digits spread = subtract(multiply(square.digits, from_int(n)), multiply(sum.digits, sum.digits));
  return round_quotient(spread, square.exponent, n * (n - 1));
}

}  // namespace asr
