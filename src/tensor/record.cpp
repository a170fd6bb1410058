#include "tensor/record.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "base/error.h"

namespace asr {
namespace {

using torch::autograd::variable_list;

struct RecordedNode : torch::autograd::Node {
  const char* what = "";
  Pull pull;

  std::string name() const override { return what; }
  void release_variables() override { pull = nullptr; }
  variable_list apply(variable_list&& grads) override {
    refuse_second_derivative(what);
    check(static_cast<bool>(pull), "a backward pass ran twice over the same graph");
    for (const auto& grad : grads)
      if (grad.defined()) return pull(grads);
    return variable_list(num_outputs());
  }
};

torch::Tensor scalar(double value, const torch::Tensor& like) {  // on the CPU
  const auto out = torch::empty({}, like.options().requires_grad(false));
  if (out.scalar_type() == at::kFloat)
    *out.data_ptr<float>() = static_cast<float>(value);
  else
    out.fill_(value);
  return out;
}

// x * factor, of a few numbers: the library's product takes longer to begin than to run.
torch::Tensor times(const torch::Tensor& x, const torch::Tensor& factor) {
  if (!x.is_cpu() || x.scalar_type() != at::kFloat || factor.scalar_type() != at::kFloat || !x.is_contiguous())
    return x * factor;
  const auto out = torch::empty(x.sizes(), x.options().requires_grad(false));
  const float *from = x.data_ptr<float>(), by = *factor.data_ptr<float>();
  float* to = out.data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) to[i] = from[i] * by;
  return out;
}

}  // namespace

void refuse_second_derivative(const char* what) {
  check(!at::GradMode::is_enabled(), what, " has no second derivative; use its plain form (*_reference)");
}

bool needs_gradient(const std::vector<torch::Tensor>& inputs) {
  return torch::autograd::compute_requires_grad(inputs);
}

void record(const char* what, const std::vector<torch::Tensor>& inputs, std::vector<torch::Tensor> outputs, Pull pull) {
  const auto node = std::shared_ptr<RecordedNode>(new RecordedNode, torch::autograd::deleteNode);
  node->what = what, node->pull = std::move(pull);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  torch::autograd::set_history(outputs, node);
}

torch::Tensor with_gradients(const char* what, const torch::Tensor& loss, const std::vector<torch::Tensor>& inputs,
                             const std::vector<torch::Tensor>& gradients) {
  record(what, inputs, {loss}, [gradients](const variable_list& grads) {
    variable_list out;
    for (const auto& gradient : gradients) out.push_back(times(gradient, grads[0]));
    return out;
  });
  return loss;
}

torch::Tensor weighted_sum(const std::vector<std::pair<torch::Tensor, double>>& terms) {
  variable_list inputs;
  std::vector<double> weights;
  for (const auto& [term, weight] : terms) inputs.push_back(term), weights.push_back(weight);
  const bool with_grad = needs_gradient(inputs);
  at::NoGradGuard no_grad;
  torch::Tensor out;
  if (inputs[0].is_cpu()) {
    double sum = 0;
    for (const auto& [term, weight] : terms) sum += term.item<double>() * weight;
    out = scalar(sum, inputs[0]);
  } else {  // nothing waits for the device
    out = inputs[0] * weights[0];
    for (size_t i = 1; i < inputs.size(); ++i) out.add_(inputs[i], weights[i]);
  }
  if (with_grad)
    record("a sum of losses", inputs, {out}, [weights](const variable_list& grads) {
      variable_list pulled;
      for (const double weight : weights)
        pulled.push_back(weight == 1         ? grads[0]
                         : grads[0].is_cpu() ? scalar(grads[0].item<double>() * weight, grads[0])
                                             : grads[0] * weight);
      return pulled;
    });
  return out;
}

}  // namespace asr
