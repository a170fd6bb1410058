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
  variable_list known;  // the gradients, if they are (with_gradients)

  std::string name() const override { return what; }
  void release_variables() override {
    pull = nullptr;
    known.clear();
  }
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

double value_of(const torch::Tensor& x) {  // of a scalar on the CPU
  return x.scalar_type() == at::kFloat ? *x.data_ptr<float>() : x.item<double>();
}

// x * factor, of a few numbers: the library's product takes longer to begin than to run.
torch::Tensor times(const torch::Tensor& x, const torch::Tensor& factor, double weight = 1) {
  if (!x.is_cpu() || x.scalar_type() != at::kFloat || factor.scalar_type() != at::kFloat || !x.is_contiguous())
    return weight == 1 ? x * factor : x * (factor * weight);
  const auto out = torch::empty(x.sizes(), x.options().requires_grad(false));
  const float* from = x.data_ptr<float>();
  const auto by = static_cast<float>(*factor.data_ptr<float>() * weight);
  float* to = out.data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) to[i] = from[i] * by;
  return out;
}

RecordedNode& attach(const char* what, torch::autograd::edge_list edges, variable_list& outputs, Pull pull) {
  const auto node = std::shared_ptr<RecordedNode>(new RecordedNode, torch::autograd::deleteNode);
  node->what = what;
  node->pull = std::move(pull);
  node->set_next_edges(std::move(edges));
  torch::autograd::set_history(outputs, node);
  return *node;
}

// The node of a scalar made by with_gradients, or null.
const RecordedNode* known_gradients(const torch::Tensor& x) {
  const auto* node = dynamic_cast<const RecordedNode*>(x.grad_fn().get());
  return node && !node->known.empty() ? node : nullptr;
}

}  // namespace

void refuse_second_derivative(const char* what) {
  check(!at::GradMode::is_enabled(), what, " has no second derivative; use its plain form (*_reference)");
}

bool needs_gradient(const std::vector<torch::Tensor>& inputs) {
  return torch::autograd::compute_requires_grad(inputs);
}

void record(const char* what, const std::vector<torch::Tensor>& inputs, std::vector<torch::Tensor> outputs, Pull pull) {
  attach(what, torch::autograd::collect_next_edges(inputs), outputs, std::move(pull));
}

torch::Tensor with_gradients(const char* what, const torch::Tensor& loss, const std::vector<torch::Tensor>& inputs,
                             const std::vector<torch::Tensor>& gradients) {
  variable_list outputs{loss};
  auto& node =
      attach(what, torch::autograd::collect_next_edges(inputs), outputs, [gradients](const variable_list& grads) {
        variable_list out;
        for (const auto& gradient : gradients) out.push_back(times(gradient, grads[0]));
        return out;
      });
  node.known = gradients;
  return loss;
}

torch::Tensor weighted_sum(const std::vector<std::pair<torch::Tensor, double>>& terms) {
  variable_list inputs;
  for (const auto& [term, weight] : terms) inputs.push_back(term);
  const bool with_grad = needs_gradient(inputs);
  at::NoGradGuard no_grad;
  torch::Tensor out;
  if (inputs[0].is_cpu()) {
    double sum = 0;
    for (const auto& [term, weight] : terms) sum += value_of(term) * weight;
    out = scalar(sum, inputs[0]);
  } else {  // nothing waits for the device
    out = inputs[0] * terms[0].second;
    for (size_t i = 1; i < terms.size(); ++i) out.add_(inputs[i], terms[i].second);
  }
  if (!with_grad) return out;
  // What a term with known gradients depends on is linked to the sum itself: a node less to go through.
  struct Link {
    double weight;
    torch::Tensor known;
  };
  std::vector<Link> links;
  torch::autograd::edge_list edges;
  for (const auto& [term, weight] : terms) {
    const auto* node = known_gradients(term);
    if (!node) {
      links.push_back({weight, {}});
      edges.push_back(torch::autograd::impl::gradient_edge(term));
    }
    for (size_t i = 0; node && i < node->known.size(); ++i) {
      links.push_back({weight, node->known[i]});
      edges.push_back(node->next_edge(i));
    }
  }
  variable_list outputs{out};
  attach("a sum of losses", std::move(edges), outputs, [links](const variable_list& grads) {
    variable_list pulled;
    for (const auto& [weight, known] : links)
      pulled.push_back(known.defined()     ? times(known, grads[0], weight)
                       : weight == 1       ? grads[0]
                       : grads[0].is_cpu() ? scalar(value_of(grads[0]) * weight, grads[0])
                                           : grads[0] * weight);
    return pulled;
  });
  return out;
}

}  // namespace asr
