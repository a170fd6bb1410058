#include "metrics/meteor_align.h"

#include <algorithm>
#include <cstdlib>
#include <tuple>

namespace asr {
namespace {

constexpr size_t kBeam = 40;

struct Path {
  Alignment alignment;
  std::vector<bool> used;  // [width]
  int moved = 0;
};

// A path with one more word, not yet made: most are dropped.
struct Step {
  size_t path;
  int partner, matches, chunks, moved;
  bool operator<(const Step& o) const {
    return std::tie(o.matches, chunks, moved, path, partner) < std::tie(matches, o.chunks, o.moved, o.path, o.partner);
  }
};

Step step(const std::vector<Path>& beam, size_t path, int word, int partner) {
  const auto& at = beam[path];
  Step out{path, partner, at.alignment.matches, at.alignment.chunks, at.moved};
  if (partner < 0) return out;
  const int before = word > 0 ? at.alignment.partner.back() : -1;
  ++out.matches;
  out.chunks += before < 0 || before + 1 != partner;
  out.moved += std::abs(word - partner);
  return out;
}

Path taken(const Path& from, const Step& step) {
  Path out = from;
  out.alignment.partner.push_back(step.partner);
  out.alignment.matches = step.matches;
  out.alignment.chunks = step.chunks;
  out.moved = step.moved;
  if (step.partner >= 0) out.used[static_cast<size_t>(step.partner)] = true;
  return out;
}

}  // namespace

Alignment align(const std::vector<std::vector<int>>& candidates, size_t width) {
  std::vector<Path> beam = {{{}, std::vector<bool>(width), 0}};
  std::vector<Step> steps;
  for (size_t i = 0; i < candidates.size(); ++i) {
    steps.clear();
    for (size_t p = 0; p < beam.size(); ++p) {
      steps.push_back(step(beam, p, static_cast<int>(i), -1));
      for (int partner : candidates[i])
        if (!beam[p].used[static_cast<size_t>(partner)]) steps.push_back(step(beam, p, static_cast<int>(i), partner));
    }
    const size_t kept = std::min(kBeam, steps.size());
    std::partial_sort(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(kept), steps.end());
    std::vector<Path> next;
    for (size_t k = 0; k < kept; ++k) next.push_back(taken(beam[steps[k].path], steps[k]));
    beam = std::move(next);
  }
  return beam[0].alignment;
}

}  // namespace asr
