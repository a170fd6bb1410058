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

std::vector<StateShape> state_shapes(const std::string& method, const StateSizes& sizes) {
  constexpr int64_t any = INT64_MAX;  // of samples and teachers, which no method without replay keeps
  if (method == "asr") return memory_shapes(sizes);
  if (method == "ewc")
    return {{"fisher", StateKind::statistics, {sizes.parameters}},
            {"anchor", StateKind::statistics, {sizes.parameters}}};
  if (method == "lwf") return {{"count", StateKind::statistics, {1}}, {"teacher.*", StateKind::teacher, {any, any}}};
  if (method == "er")
    return {{"pixels", StateKind::sample, {any, any, any, any}},
            {"image_bytes", StateKind::sample, {any}},
            {"image_sizes", StateKind::sample, {any, any}},
            {"ids", StateKind::question, {any, any}},
            {"labels", StateKind::answer, {any, any}},
            {"mask", StateKind::sample, {any, any}},
            {"question", StateKind::sample, {any, any}},
            {"functional", StateKind::sample, {any, any}},
            {"posterior", StateKind::sample, {any, any}},
            {"texts", StateKind::question, {any}},
            {"stage", StateKind::statistics, {any}}};
  return {};
}

}  // namespace asr
