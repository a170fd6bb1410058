// Reproducible randomness keyed by what it is for (a seed, a stream, a sample), never by call order or thread. The
// same numbers on every platform: no standard distribution is used.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>

namespace asr {

class Random {
 public:
  // Mixes all keys; a different key anywhere gives an unrelated sequence.
  explicit Random(std::initializer_list<uint64_t> keys) {
    for (uint64_t key : keys) state_ = mix(state_ ^ mix(key + 0x9e3779b97f4a7c15));
  }

  uint64_t next() {  // SplitMix64
    state_ += 0x9e3779b97f4a7c15;
    return mix(state_);
  }
  // Uniform in 0 .. bound-1, without bias.
  uint32_t below(uint32_t bound) {
    const uint64_t limit = (uint64_t(1) << 32) / bound * bound;
    uint64_t value;
    do value = next() >> 32;
    while (value >= limit);
    return static_cast<uint32_t>(value % bound);
  }
  int between(int low, int high) { return low + static_cast<int>(below(static_cast<uint32_t>(high - low + 1))); }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)
  bool chance(double probability) { return uniform() < probability; }

  template <class List>
  const auto& pick(const List& list) {
    return *(list.begin() + below(static_cast<uint32_t>(list.end() - list.begin())));
  }
  template <class List>
  void shuffle(List& list) {
    for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[below(static_cast<uint32_t>(i))]);
  }

  static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_ = 0;
};

}  // namespace asr
