// x [B, S] at some columns, int64 on the CPU: [B, count]; no gradient. A few hundred numbers in every training step,
// for which the library's operators take longer to begin than to run.
#pragma once

#include <torch/types.h>

namespace asr {

torch::Tensor pick_columns(const torch::Tensor& x, const torch::Tensor& columns);
torch::Tensor pick_columns_reference(const torch::Tensor& x, const torch::Tensor& columns);
torch::Tensor pick_columns_cpu(const torch::Tensor& x, const torch::Tensor& columns);

}  // namespace asr
