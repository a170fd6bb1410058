#include "ops/keyed_dropout.h"

#include "ops/dispatch.h"

namespace asr {

torch::Tensor keyed_dropout(const torch::Tensor& x, const DropoutKey& key) {
  if (x.numel() == 0) return x;
  check(key.positions.empty() || x.numel() % static_cast<int64_t>(key.positions.size()) == 0, "dropout of ", x.numel(),
        " entries cannot be shared by ", key.positions.size(), " samples");
  constexpr Kernels kernels{kFloating, {}};
  return path_for(kernels, x) == Path::cpu ? keyed_dropout_cpu(x, key) : keyed_dropout_reference(x, key);
}

}  // namespace asr
