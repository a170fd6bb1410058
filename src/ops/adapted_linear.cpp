#include "ops/adapted_linear.h"

#include <torch/csrc/autograd/functions/utils.h>

#include "base/error.h"
#include "ops/adapted_linear_products.h"
#include "ops/weight_products.h"
#include "tensor/record.h"

namespace asr {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// ---- the autograd node: written out, because torch::autograd::Function takes no lists of tensors --------------------

struct SavedMap {
  SavedWeight weight;
  struct Expert {
    SavedVariable a, b, middle, input, gate;
    double scale;
    bool own_input, gated;
    std::optional<DropoutKey> dropout;
  };
  std::vector<Expert> experts;
};

struct LinearsBackward : torch::autograd::Node {
  SavedVariable x;  // empty where no trained tensor needs it
  bool keeps_x = false;
  at::TensorOptions kind;  // of x
  std::vector<SavedMap> maps;
  std::vector<int64_t> shape;               // of x
  std::vector<std::vector<int64_t>> wider;  // of the experts' own inputs

  std::string name() const override { return "AdaptedLinearsBackward"; }
  void release_variables() override {
    x.reset_data();
    maps.clear();
    released = true;
  }
  variable_list apply(variable_list&& grads) override;

 private:
  bool released = false;
  LinearOperands operands(variable_list* middle);
  LinearNeeds needs() const;
};

LinearOperands LinearsBackward::operands(variable_list* middle) {
  LinearOperands out;
  if (keeps_x) out.x = flat_rows(x.unpack());
  out.kind = kind;
  out.width = shape.back();
  out.rows = 1;
  for (size_t d = 0; d + 1 < shape.size(); ++d) out.rows *= shape[d];
  const auto type = at::typeMetaToScalarType(kind.dtype());
  for (auto& saved : maps) {
    LinearMap map;
    map.weight = for_products(saved.weight.unpack(), type);
    for (auto& expert : saved.experts) {
      map.low_rank.push_back({expert.a.unpack().to(type), expert.b.unpack().to(type), expert.scale,
                              expert.own_input ? flat_rows(expert.input.unpack()) : torch::Tensor(),
                              expert.gated ? expert.gate.unpack().to(type) : torch::Tensor(), expert.dropout});
      middle->push_back(expert.middle.unpack());
    }
    out.maps.push_back(std::move(map));
  }
  return out;
}

LinearNeeds LinearsBackward::needs() const {
  LinearNeeds out;
  size_t edge = 0;
  const auto next = [&] { return task_should_compute_output(edge++); };
  out.x = next();
  for (const auto& map : maps) {
    out.weight.push_back(next());
    out.bias.push_back(next());
    for (size_t e = 0; e < map.experts.size(); ++e) {
      const bool a = next(), b = next(), input = next(), gate = next();
      out.experts.push_back({a, b, input, gate});
    }
  }
  return out;
}

variable_list LinearsBackward::apply(variable_list&& grads) {
  refuse_second_derivative("an adapted linear map");
  check(!released, "a backward pass ran twice over the same graph");
  variable_list middle, dy;
  const auto o = operands(&middle);
  for (const auto& grad : grads) dy.push_back(grad.defined() ? flat_rows(grad) : grad);
  const auto found = linears_backward(o, middle, dy, needs());
  variable_list out = {found.x.defined() ? found.x.view(shape) : found.x};
  size_t e = 0;
  for (size_t m = 0; m < maps.size(); ++m) {
    out.push_back(found.weight[m]);
    out.push_back(found.bias[m]);
    for (size_t i = 0; i < maps[m].experts.size(); ++i) {
      const auto& grad = found.experts[e];
      out.push_back(grad.a);
      out.push_back(grad.b);
      out.push_back(grad.input.defined() ? grad.input.view(wider[e]) : grad.input);
      out.push_back(grad.gate);
      ++e;
    }
  }
  return out;
}

variable_list inputs_of(const torch::Tensor& x, const std::vector<LinearMap>& maps) {
  variable_list out = {x};
  for (const auto& map : maps) {
    out.push_back(map.weight.data);
    out.push_back(map.bias);
    for (const auto& expert : map.low_rank)
      for (const auto& tensor : {expert.a, expert.b, expert.input, expert.gate}) out.push_back(tensor);
  }
  return out;
}

// The gradient of a trained A is a product with x, as is that of a trained weight.
bool needs_input(const std::vector<LinearMap>& maps) {
  for (const auto& map : maps) {
    if (map.weight.data.requires_grad()) return true;
    for (const auto& expert : map.low_rank)
      if (expert.a.requires_grad() && !expert.input.defined()) return true;
  }
  return false;
}

std::shared_ptr<LinearsBackward> make_node(const torch::Tensor& x, const std::vector<LinearMap>& maps,
                                           const variable_list& middle) {
  auto node = std::shared_ptr<LinearsBackward>(new LinearsBackward, torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs_of(x, maps)));
  node->keeps_x = needs_input(maps);
  if (node->keeps_x) node->x = SavedVariable(x, false);
  node->kind = x.options().requires_grad(false);
  node->shape = x.sizes().vec();
  size_t e = 0;
  for (const auto& map : maps) {
    SavedMap saved{SavedWeight(map.weight), {}};
    for (const auto& expert : map.low_rank) {
      const bool own = expert.input.defined();
      saved.experts.push_back({SavedVariable(expert.a, false), SavedVariable(expert.b, false),
                               SavedVariable(middle[e++], false), SavedVariable(expert.input, false),
                               SavedVariable(expert.gate, false), expert.scale, own, expert.gate.defined(),
                               expert.dropout});
      node->wider.push_back(own ? expert.input.sizes().vec() : std::vector<int64_t>());
    }
    node->maps.push_back(std::move(saved));
  }
  return node;
}

// A gate as the products take it: [rows, r], or [1, r] where one row serves all.
torch::Tensor spread_gate(const torch::Tensor& gate, const torch::Tensor& x) {
  const int64_t width = gate.size(-1);
  if (gate.numel() == width) return gate.reshape({1, width});
  auto shape = x.sizes().vec();
  shape.back() = width;
  return gate.expand(shape).reshape({-1, width});
}

}  // namespace

std::vector<torch::Tensor> adapted_linears(const torch::Tensor& x, const std::vector<LinearMap>& given) {
  auto maps = given;
  for (auto& map : maps)
    for (auto& expert : map.low_rank)
      if (expert.gate.defined()) expert.gate = spread_gate(expert.gate, x);
  LinearResult result;
  {
    at::NoGradGuard no_grad;
    result = linears_forward(plain_operands(x, maps));
    for (auto& y : result.y) {
      auto shape = x.sizes().vec();
      shape.back() = y.size(1);
      y = y.view(shape);
    }
  }
  if (torch::autograd::compute_requires_grad(inputs_of(x, maps)))
    torch::autograd::set_history(result.y, make_node(x, maps, result.middle));
  return std::move(result.y);
}

}  // namespace asr
