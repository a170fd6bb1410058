#include "nn/recompute.h"

#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "base/error.h"
#include "tensor/record.h"
#include "tensor/torch_compat.h"

namespace asr {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using Part = std::function<variable_list(const torch::Tensor&)>;

variable_list with_parameters(const torch::Tensor& x, const variable_list& parameters) {
  variable_list out = {x};
  out.insert(out.end(), parameters.begin(), parameters.end());
  return out;
}

struct RecomputeBackward : torch::autograd::Node {
  Part part;
  SavedVariable x;
  variable_list parameters;

  std::string name() const override { return "RecomputeBackward"; }
  void release_variables() override { x.reset_data(); }
  variable_list apply(variable_list&& grads) override {
    refuse_second_derivative("a recomputed part");
    const at::AutoGradMode record(true);
    const auto input = x.unpack().detach().requires_grad_(task_should_compute_output(0));
    const auto outputs = part(input);
    variable_list reached, pulls;
    for (size_t i = 0; i < outputs.size(); ++i)
      if (grads[i].defined() && outputs[i].requires_grad()) {
        reached.push_back(outputs[i]);
        pulls.push_back(grads[i]);
      }
    variable_list wanted;
    std::vector<size_t> places;
    const auto all = with_parameters(input, parameters);
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i].requires_grad() && task_should_compute_output(i)) {
        wanted.push_back(all[i]);
        places.push_back(i);
      }
    variable_list out(all.size());
    if (reached.empty() || wanted.empty()) return out;
    const auto found = torch::autograd::grad(reached, wanted, pulls, none, false, /*allow_unused=*/true);
    for (size_t i = 0; i < found.size(); ++i) out[places[i]] = found[i];
    return out;
  }
};

}  // namespace

std::vector<torch::Tensor> recompute(Part part, const torch::Tensor& x, const std::vector<torch::Tensor>& parameters) {
  const auto inputs = with_parameters(x, parameters);
  if (!torch::autograd::compute_requires_grad(inputs)) return part(x);
  variable_list outputs;
  {
    at::NoGradGuard no_grad;
    outputs = part(x.detach());
  }
  auto node = std::shared_ptr<RecomputeBackward>(new RecomputeBackward, torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  node->part = std::move(part);
  node->x = SavedVariable(x, false);
  node->parameters = parameters;
  torch::autograd::set_history(outputs, node);
  return outputs;
}

}  // namespace asr
