#include "methods/state_shapes.h"

namespace asr {

std::vector<StateShape> memory_shapes(const StateSizes& sizes) {
  constexpr auto kind = StateKind::prototypes;
  const int64_t n = sizes.prototypes;
  return {{"stages", kind, {1}},
          {"map_height", kind, {1}},
          {"map_width", kind, {1}},
          {"skill", kind, {n}},
          {"count", kind, {n}},
          {"mean", kind, {n, sizes.descriptor}},
          {"variance", kind, {n, sizes.descriptor}},
          {"angular", kind, {n, sizes.angular}},
          {"map", kind, {n, sizes.map}}};
}

std::vector<StateShape> replay_shapes() {
  return {{"pictures", StateKind::sample, {kAnySize}},
          {"picture_ends", StateKind::sample, {kAnySize}},
          {"posterior", StateKind::sample, {kAnySize, kAnySize}},
          {"texts", StateKind::question, {kAnySize}},
          {"stage", StateKind::sample, {kAnySize}}};
}

}  // namespace asr
