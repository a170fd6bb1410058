#include "data/drawn_rows.h"

#include <algorithm>
#include <numeric>

#include "base/random.h"

namespace asr {

std::vector<int64_t> drawn_rows(int64_t count, int64_t wanted, uint64_t key) {
  std::vector<int64_t> rows(static_cast<size_t>(std::max<int64_t>(0, count)));
  std::iota(rows.begin(), rows.end(), 0);
  if (wanted <= 0 || wanted >= count) return rows;
  Random({key}).shuffle(rows);
  rows.resize(static_cast<size_t>(wanted));
  std::sort(rows.begin(), rows.end());
  return rows;
}

std::vector<int64_t> spaced_rows(int64_t count, int64_t wanted) {
  const int64_t taken = std::min(count, std::max<int64_t>(1, wanted));
  std::vector<int64_t> out;
  for (int64_t i = 0; i < taken; ++i) out.push_back(i * count / taken);
  return out;
}

uint64_t draw_key(DrawPurpose purpose, uint64_t seed, int stage) {
  return Random({static_cast<uint64_t>(purpose), seed, static_cast<uint64_t>(stage)}).next();
}

uint64_t draw_key(DrawPurpose purpose, const std::string& task) {
  uint64_t text = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : task) {
    text ^= static_cast<unsigned char>(c);
    text *= 0x100000001b3;
  }
  return Random({static_cast<uint64_t>(purpose), text}).next();
}

}  // namespace asr
