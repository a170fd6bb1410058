#include "nn/adapted_linear.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "base/error.h"
#include "tensor/record.h"
#include "tensor/torch_compat.h"

namespace asr {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

constexpr int64_t kTaskWork = 1 << 20;  // multiply-adds that are worth waking a thread for

// Runs work(begin, end) over rows; in several threads on the CPU, each with its own products. Inside, tensors are plain
// memory: nothing is recorded.
template <class Work>
void split_rows(const torch::Tensor& like, int64_t rows, int64_t work_per_row, const Work& work) {
  if (rows == 0) return;
  if (!like.device().is_cpu()) return work(0, rows);
  at::parallel_for(0, rows, std::max<int64_t>(16, kTaskWork / std::max<int64_t>(1, work_per_row)),
                   [&](int64_t begin, int64_t end) {
                     at::AutoDispatchBelowADInplaceOrView plain;
                     work(begin, end);
                   });
}

torch::Tensor flat(const torch::Tensor& x) {  // [rows, width]
  return x.reshape({-1, x.size(-1)}).contiguous();
}

// to (+)= scale * left right.
void multiply(const torch::Tensor& to, const torch::Tensor& left, const torch::Tensor& right, double scale,
              bool accumulate) {
  auto out = to;
  at::addmm_out(out, to, left, right, accumulate ? 1 : 0, scale);
}

// The tensors of one call, flattened and without history.
struct Operands {
  torch::Tensor x;
  std::vector<LinearMap> maps;

  torch::Tensor input(const LowRank& expert) const { return expert.input.defined() ? expert.input : x; }
  int64_t work_per_row() const {
    int64_t sum = 0;
    for (const auto& map : maps) sum += map.weight.numel();
    return sum;
  }
};

Operands plain(const torch::Tensor& x, const std::vector<LinearMap>& maps) {
  Operands out{flat(x.detach()), maps};
  const auto type = x.scalar_type();  // a checkpoint's weights may be stored in fewer bits than are computed with
  for (auto& map : out.maps) {
    map.weight = map.weight.detach().to(type);
    if (map.bias.defined()) map.bias = map.bias.detach().to(type);
    for (auto& expert : map.low_rank) {
      expert.a = expert.a.detach().to(type);
      expert.b = expert.b.detach().to(type);
      if (expert.input.defined()) expert.input = flat(expert.input.detach());
      if (expert.gate.defined()) expert.gate = expert.gate.detach().to(type);
    }
  }
  return out;
}

struct Result {
  variable_list y;       // [rows, out] each
  variable_list middle;  // x A^T of every expert in order, [rows, r] each
};

// The rows [begin, end) of a gate; one row serves all.
torch::Tensor gate_rows(const torch::Tensor& gate, int64_t begin, int64_t end) {
  return gate.size(0) == 1 ? gate : gate.narrow(0, begin, end - begin);
}

Result run_forward(const Operands& o) {
  const int64_t rows = o.x.size(0);
  Result out;
  for (const auto& map : o.maps) {
    out.y.push_back(torch::empty({rows, map.weight.size(0)}, o.x.options()));
    for (const auto& expert : map.low_rank) out.middle.push_back(torch::empty({rows, expert.a.size(0)}, o.x.options()));
  }
  split_rows(o.x, rows, o.work_per_row(), [&](int64_t begin, int64_t end) {
    const auto cut = [&](const torch::Tensor& t) { return t.narrow(0, begin, end - begin); };
    size_t e = 0;
    for (size_t m = 0; m < o.maps.size(); ++m) {
      const auto& map = o.maps[m];
      auto y = cut(out.y[m]);
      if (map.bias.defined())
        at::addmm_out(y, map.bias, cut(o.x), map.weight.t());
      else
        at::mm_out(y, cut(o.x), map.weight.t());
      for (const auto& expert : map.low_rank) {
        auto middle = cut(out.middle[e++]);
        at::mm_out(middle, cut(o.input(expert)), expert.a.t());
        const auto weighed = expert.gate.defined() ? middle * gate_rows(expert.gate, begin, end) : middle;
        multiply(y, weighed, expert.b.t(), expert.scale, true);
      }
    }
  });
  return out;
}

// The gradients of a call; entries that nobody needs stay undefined.
struct Grads {
  struct Expert {
    torch::Tensor middle, a, b, input;  // middle: dy B, times the gate, [rows, r]
    torch::Tensor gate;                 // [rows, r]
  };
  torch::Tensor x;
  variable_list weight, bias;
  std::vector<Expert> experts;
};

// x first, then weight and bias of each map, then a, b, input and gate of each of its experts.
struct Needs {
  bool x = false;
  struct Expert {
    bool a, b, input, gate;
  };
  std::vector<bool> weight, bias;
  std::vector<Expert> experts;
};

// What is linear in the rows: gradients of x and of the experts' inputs, and dy B, which the experts' weights need too.
// `forward`: x A^T of every expert, which a gate's gradient needs.
void pull_inputs(const Operands& o, const variable_list& forward, const variable_list& dy, const Needs& needs,
                 Grads& out) {
  split_rows(o.x, o.x.size(0), o.work_per_row(), [&](int64_t begin, int64_t end) {
    const auto cut = [&](const torch::Tensor& t) { return t.narrow(0, begin, end - begin); };
    size_t e = 0;
    bool started = false;
    for (size_t m = 0; m < o.maps.size(); ++m) {
      const auto& map = o.maps[m];
      if (!dy[m].defined()) {
        e += map.low_rank.size();
        continue;
      }
      const auto pull = cut(dy[m]);
      if (needs.x) {
        multiply(cut(out.x), pull, map.weight, 1, started);
        started = true;
      }
      for (const auto& expert : map.low_rank) {
        auto& grad = out.experts[e];
        const auto& need = needs.experts[e];
        const auto& h = forward[e++];
        if (!grad.middle.defined()) continue;
        auto middle = cut(grad.middle);
        at::mm_out(middle, pull, expert.b);
        if (need.gate) {
          auto gate = cut(grad.gate);
          at::mul_out(gate, middle, cut(h));
          gate.mul_(expert.scale);
        }
        if (expert.gate.defined()) middle.mul_(gate_rows(expert.gate, begin, end));
        if (need.input) multiply(cut(grad.input), middle, expert.a, expert.scale, false);
        if (needs.x && !expert.input.defined()) multiply(cut(out.x), middle, expert.a, expert.scale, true);
      }
    }
  });
}

// Products over all rows: to = scale * left^T right, each split over rows of the result.
struct Transposed {
  torch::Tensor to, left, right;
  double scale;
};

void run_transposed(const std::vector<Transposed>& list) {
  if (list.empty()) return;
  constexpr int64_t kPart = 64;  // rows of a result a task, whatever the threads, so that bits do not depend on them
  std::vector<std::pair<size_t, int64_t>> tasks;
  const bool split = list[0].to.device().is_cpu();
  for (size_t i = 0; i < list.size(); ++i)
    for (int64_t row = 0; row < list[i].to.size(0); row += split ? kPart : list[i].to.size(0))
      tasks.emplace_back(i, row);
  const auto run = [&](int64_t begin, int64_t end) {
    at::AutoDispatchBelowADInplaceOrView plain;
    for (int64_t k = begin; k < end; ++k) {
      const auto& p = list[tasks[k].first];
      const int64_t row = tasks[k].second, count = split ? std::min(kPart, p.to.size(0) - row) : p.to.size(0);
      multiply(p.to.narrow(0, row, count), p.left.narrow(1, row, count).t(), p.right, p.scale, false);
    }
  };
  const int64_t work = kPart * list[0].right.numel();
  if (split)
    at::parallel_for(0, static_cast<int64_t>(tasks.size()),
                     std::max<int64_t>(1, kTaskWork / std::max<int64_t>(1, work)), run);
  else
    run(0, static_cast<int64_t>(tasks.size()));
}

Grads run_backward(const Operands& o, const variable_list& middle, const variable_list& dy, const Needs& needs) {
  const auto& options = o.x.options();
  const int64_t rows = o.x.size(0);
  Grads out;
  bool any = false;
  for (const auto& grad : dy) any = any || grad.defined();
  if (needs.x && any) out.x = torch::empty(o.x.sizes(), options);
  std::vector<Transposed> products;
  out.weight.resize(o.maps.size());
  out.bias.resize(o.maps.size());
  out.experts.resize(middle.size());
  size_t e = 0;
  for (size_t m = 0; m < o.maps.size(); ++m) {
    const auto& map = o.maps[m];
    const bool used = dy[m].defined();
    if (used && needs.weight[m])
      products.push_back({out.weight[m] = torch::empty(map.weight.sizes(), options), dy[m], o.x, 1});
    if (used && needs.bias[m]) out.bias[m] = dy[m].sum(0);
    for (const auto& expert : map.low_rank) {
      auto& grad = out.experts[e];
      const auto& need = needs.experts[e];
      const auto& h = middle[e++];
      if (!used) continue;
      const bool passes = expert.input.defined() ? need.input : needs.x;
      if (need.a || passes || need.gate) grad.middle = torch::empty({rows, expert.a.size(0)}, options);
      if (need.gate) grad.gate = torch::empty({rows, expert.a.size(0)}, options);
      if (need.input) grad.input = torch::empty(expert.input.sizes(), options);
      if (need.a)
        products.push_back(
            {grad.a = torch::empty(expert.a.sizes(), options), grad.middle, o.input(expert), expert.scale});
      const auto weighed = need.b && expert.gate.defined() ? h * expert.gate : h;
      if (need.b) products.push_back({grad.b = torch::empty(expert.b.sizes(), options), dy[m], weighed, expert.scale});
    }
  }
  if (any) pull_inputs(o, middle, dy, needs, out);
  run_transposed(products);
  for (size_t i = 0, m = 0; m < o.maps.size(); ++m)
    for (const auto& expert : o.maps[m].low_rank) {
      auto& gate = out.experts[i++].gate;
      if (gate.defined() && expert.gate.size(0) == 1) gate = gate.sum(0, true);
    }
  return out;
}

// ---- the autograd node: written out, because torch::autograd::Function takes no lists of tensors --------------------

struct SavedMap {
  SavedVariable weight;
  struct Expert {
    SavedVariable a, b, middle, input, gate;
    double scale;
    bool own_input, gated;
  };
  std::vector<Expert> experts;
};

struct LinearsBackward : torch::autograd::Node {
  SavedVariable x;
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
  Operands operands(variable_list* middle);
  Needs needs() const;
};

Operands LinearsBackward::operands(variable_list* middle) {
  Operands out{flat(x.unpack()), {}};
  const auto type = out.x.scalar_type();
  for (auto& saved : maps) {
    LinearMap map;
    map.weight = saved.weight.unpack().to(type);
    for (auto& expert : saved.experts) {
      map.low_rank.push_back({expert.a.unpack().to(type), expert.b.unpack().to(type), expert.scale,
                              expert.own_input ? flat(expert.input.unpack()) : torch::Tensor(),
                              expert.gated ? expert.gate.unpack().to(type) : torch::Tensor()});
      middle->push_back(expert.middle.unpack());
    }
    out.maps.push_back(std::move(map));
  }
  return out;
}

Needs LinearsBackward::needs() const {
  Needs out;
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
  for (const auto& grad : grads) dy.push_back(grad.defined() ? flat(grad) : grad);
  const auto found = run_backward(o, middle, dy, needs());
  variable_list out = {found.x.defined() ? found.x.view(shape) : found.x};
  size_t e = 0;
  for (size_t m = 0; m < maps.size(); ++m) {
    out.push_back(found.weight[m]);
    out.push_back(found.bias[m]);
    for (size_t i = 0; i < maps[m].experts.size(); ++i, ++e) {
      const auto& grad = found.experts[e];
      out.push_back(grad.a);
      out.push_back(grad.b);
      out.push_back(grad.input.defined() ? grad.input.view(wider[e]) : grad.input);
      out.push_back(grad.gate);
    }
  }
  return out;
}

variable_list inputs_of(const torch::Tensor& x, const std::vector<LinearMap>& maps) {
  variable_list out = {x};
  for (const auto& map : maps) {
    out.push_back(map.weight);
    out.push_back(map.bias);
    for (const auto& expert : map.low_rank)
      for (const auto& tensor : {expert.a, expert.b, expert.input, expert.gate}) out.push_back(tensor);
  }
  return out;
}

std::shared_ptr<LinearsBackward> make_node(const torch::Tensor& x, const std::vector<LinearMap>& maps,
                                           const variable_list& middle) {
  auto node = std::shared_ptr<LinearsBackward>(new LinearsBackward, torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs_of(x, maps)));
  node->x = SavedVariable(x, false);
  node->shape = x.sizes().vec();
  size_t e = 0;
  for (const auto& map : maps) {
    SavedMap saved;
    saved.weight = SavedVariable(map.weight, false);
    for (const auto& expert : map.low_rank) {
      const bool own = expert.input.defined();
      saved.experts.push_back({SavedVariable(expert.a, false), SavedVariable(expert.b, false),
                               SavedVariable(middle[e++], false), SavedVariable(expert.input, false),
                               SavedVariable(expert.gate, false), expert.scale, own, expert.gate.defined()});
      node->wider.push_back(own ? expert.input.sizes().vec() : std::vector<int64_t>());
    }
    node->maps.push_back(std::move(saved));
  }
  return node;
}

}  // namespace

namespace {

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
  Result result;
  {
    at::NoGradGuard no_grad;
    result = run_forward(plain(x, maps));
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

torch::Tensor adapted_linear(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                             const torch::Tensor& a, const torch::Tensor& b, double scale) {
  LinearMap map{weight, bias, {}};
  if (a.defined()) map.low_rank.push_back({a, b, scale, {}, {}});
  return adapted_linears(x, {map})[0];
}

torch::Tensor adapted_linear_reference(const torch::Tensor& x, const LinearMap& map) {
  auto y = map.bias.defined() ? at::linear(x, map.weight, map.bias) : at::linear(x, map.weight);
  for (const auto& expert : map.low_rank) {
    const auto& from = expert.input.defined() ? expert.input : x;
    auto middle = at::linear(from, expert.a);
    if (expert.gate.defined()) middle = middle * expert.gate;
    y = y + at::linear(middle, expert.b) * expert.scale;
  }
  return y;
}

}  // namespace asr
