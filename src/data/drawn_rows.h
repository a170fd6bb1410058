// Rows drawn at random where only some of the samples are looked at: which ones depends on a key alone, never on the
// order of calls, the process or the thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace asr {

// What a draw is for; part of its key, so that draws for different purposes have nothing in common.
enum class DrawPurpose : uint64_t {
  prototypes = 0xd4a1,
  fisher = 0xd4a2,
  analysis = 0xd4a3,
  probe = 0xd4a4,
  keys = 0xd4a5,
  held_out = 0xd4a6,
  anchors = 0xd4a9,
  styles = 0xd4b1
};

// `wanted` of `count` rows without repetition, in ascending order. 0, or no fewer than there are: all rows.
std::vector<int64_t> drawn_rows(int64_t count, int64_t wanted, uint64_t key);

// `wanted` of `count` rows, evenly spaced from the first on; one at least, and no more than there are.
std::vector<int64_t> spaced_rows(int64_t count, int64_t wanted);

uint64_t draw_key(DrawPurpose purpose, uint64_t seed, int stage);
// The same at every stage and for every method and seed: what is compared between them must be of the same samples.
uint64_t draw_key(DrawPurpose purpose, const std::string& task);

}  // namespace asr
