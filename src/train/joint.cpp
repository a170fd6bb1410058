#include "train/joint.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"

namespace asr {

UnionDraw draw_union(const std::vector<UnionPart>& parts, uint64_t seed) {
  UnionDraw out;
  const bool alike =
      std::all_of(parts.begin(), parts.end(), [&](const UnionPart& p) { return p.epochs == parts[0].epochs; });
  if (alike) {
    for (const auto& part : parts) out.samples += part.samples;
    out.epochs = parts.empty() ? 1 : parts[0].epochs;
    return out;
  }
  int64_t first = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& part = parts[i];
    std::vector<int64_t> rows(static_cast<size_t>(part.samples));
    std::iota(rows.begin(), rows.end(), first);
    const auto whole = static_cast<int64_t>(part.epochs);
    for (int64_t k = 0; k < whole; ++k) out.rows.insert(out.rows.end(), rows.begin(), rows.end());
    const double rest = (part.epochs - static_cast<double>(whole)) * static_cast<double>(part.samples);
    Random({seed, 0x101e7, static_cast<uint64_t>(i)}).shuffle(rows);
    out.rows.insert(out.rows.end(), rows.begin(), rows.begin() + std::lround(rest));
    first += part.samples;
  }
  out.samples = static_cast<int64_t>(out.rows.size());
  return out;
}

}  // namespace asr
