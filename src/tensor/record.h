// A hand-written gradient in the autograd graph: a node that holds a function. torch::autograd::Function does the same
// with more bookkeeping, which shows in steps of a few milliseconds.
#pragma once

#include <torch/types.h>

#include <functional>
#include <utility>
#include <vector>

namespace asr {

// A fused backward pass is itself no graph: asking for one would give wrong second derivatives.
void refuse_second_derivative(const char* what);

// Gradients of the inputs, in their order, from those of the outputs; undefined where there is none. It runs
// without recording, once unless the graph is retained; a second derivative is refused. At least one of the gradients
// it is given is defined.
using Pull = std::function<std::vector<torch::Tensor>(const std::vector<torch::Tensor>&)>;

// Whether gradients are recorded and one of the inputs, which may be undefined, has one.
bool needs_gradient(const std::vector<torch::Tensor>& inputs);

// Makes fresh `outputs`, computed without recording, depend on the inputs. `pull` must hold outputs detached: a node
// that holds its own result never goes away. `what` names the operation in the refusal. Only if needs_gradient(inputs).
void record(const char* what, const std::vector<torch::Tensor>& inputs, std::vector<torch::Tensor> outputs, Pull pull);

// A scalar whose gradients are known with it: `loss` then depends on the inputs, each with its gradient.
torch::Tensor with_gradients(const char* what, const torch::Tensor& loss, const std::vector<torch::Tensor>& inputs,
                             const std::vector<torch::Tensor>& gradients);

// Scalars times numbers, added up. The gradient passes by the scalars that with_gradients made: a hook on one of them
// would not see it.
torch::Tensor weighted_sum(const std::vector<std::pair<torch::Tensor, double>>& terms);

}  // namespace asr
