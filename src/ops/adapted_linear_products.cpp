#include "ops/adapted_linear_products.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "ops/dispatch.h"
#include "ops/masked_low_rank.h"
#include "ops/weight_products.h"
#include "tensor/torch_version.h"

namespace asr {
namespace {

constexpr int64_t kTaskWork = 1 << 20;  // multiply-adds that are worth waking a thread for

bool splits_rows(const torch::Tensor& like) {
  return path_for(Kernels{kFloating, {}}, like.device(), like.scalar_type()) == Path::cpu;
}

// Runs work(begin, end) over rows; in several threads on the CPU, each with its own products. Inside, tensors are plain
// memory: nothing is recorded.
template <class Work>
void split_rows(const torch::Tensor& like, int64_t rows, int64_t work_per_row, const Work& work) {
  if (rows == 0) return;
  if (!splits_rows(like)) return work(0, rows);
  at::parallel_for(0, rows, std::max<int64_t>(16, kTaskWork / std::max<int64_t>(1, work_per_row)),
                   [&](int64_t begin, int64_t end) {
                     at::AutoDispatchBelowADInplaceOrView plain;
                     work(begin, end);
                   });
}

// to (+)= scale * left right.
void multiply(const torch::Tensor& to, const torch::Tensor& left, const torch::Tensor& right, double scale,
              bool accumulate) {
  auto out = to;
  at::addmm_out(out, to, left, right, accumulate ? 1 : 0, scale);
}

// The rows [begin, end) of a gate; one row serves all.
torch::Tensor gate_rows(const torch::Tensor& gate, int64_t begin, int64_t end) {
  return gate.size(0) == 1 ? gate : gate.narrow(0, begin, end - begin);
}

}  // namespace

torch::Tensor flat_rows(const torch::Tensor& x) {  // [rows, width]
  return x.reshape({-1, x.size(-1)}).contiguous();
}

void multiply_transposed(const torch::Tensor& to, const torch::Tensor& left, const torch::Tensor& right, double scale) {
  if (to.scalar_type() == left.scalar_type()) return multiply(to, left.t(), right, scale, false);
  auto out = to;
#if ASR_WIDE_PRODUCTS
  at::mm_out(out, left.t(), right, at::kFloat);
#else
  at::mm_out(out, left.t().to(at::kFloat), right.to(at::kFloat));
#endif
  if (scale != 1) out.mul_(scale);
}

LinearOperands plain_operands(const torch::Tensor& x, const std::vector<LinearMap>& maps) {
  LinearOperands out{flat_rows(x.detach()), maps};
  out.rows = out.x.size(0);
  out.width = out.x.size(1);
  out.kind = out.x.options();
  const auto type = x.scalar_type();  // a checkpoint's weights may be stored in fewer bits than are computed with
  for (auto& map : out.maps) {
    map.weight = for_products(map.weight, type);
    if (map.bias.defined()) map.bias = map.bias.detach().to(type);
    for (auto& expert : map.low_rank) {
      expert.a = expert.a.detach().to(type);
      expert.b = expert.b.detach().to(type);
      if (expert.input.defined()) expert.input = flat_rows(expert.input.detach());
      if (expert.gate.defined()) expert.gate = expert.gate.detach().to(type);
    }
  }
  return out;
}

LinearResult linears_forward(const LinearOperands& o) {
  LinearResult out;
  std::vector<torch::Tensor> inputs;  // of every expert in order; undefined where its middle is made beforehand
  std::vector<MaskedLowRank> masked;  // masks count in all rows at once
  for (const auto& map : o.maps) {
    out.y.push_back(torch::empty({o.rows, map.weight.rows()}, o.kind));
    for (const auto& expert : map.low_rank) {
      out.middle.push_back(torch::empty({o.rows, expert.a.size(0)}, o.kind));
      const bool draws = expert.dropout && !expert.input.defined();
      if (draws) masked.push_back({out.middle.back(), expert.a, 1, *expert.dropout});
      inputs.push_back(draws ? torch::Tensor() : o.input(expert));
    }
  }
  masked_middles(o.x, masked);
  split_rows(o.x, o.rows, o.work_per_row(), [&](int64_t begin, int64_t end) {
    const auto cut = [&](const torch::Tensor& t) { return t.narrow(0, begin, end - begin); };
    size_t e = 0;
    RowFactor x{cut(o.x)};
    for (size_t m = 0; m < o.maps.size(); ++m) {
      const auto& map = o.maps[m];
      auto y = cut(out.y[m]);
      multiply_by(y, x, map.weight, map.bias);
      for (const auto& expert : map.low_rank) {
        auto middle = cut(out.middle[e]);
        const auto& input = inputs[e++];
        if (input.defined()) at::mm_out(middle, cut(input), expert.a.t());
        const auto weighed = expert.gate.defined() ? middle * gate_rows(expert.gate, begin, end) : middle;
        multiply(y, weighed, expert.b.t(), expert.scale, true);
      }
    }
  });
  return out;
}

namespace {

// What is linear in the rows: gradients of x and of the experts' inputs, and dy B, which the experts' weights need too.
// `forward`: x A^T of every expert, which a gate's gradient needs.
void pull_inputs(const LinearOperands& o, const std::vector<torch::Tensor>& forward,
                 const std::vector<torch::Tensor>& dy, const LinearNeeds& needs, LinearGrads& out) {
  torch::Tensor some;  // for its device and type
  for (const auto& grad : dy)
    if (grad.defined()) some = grad;
  split_rows(some, o.rows, o.work_per_row(), [&](int64_t begin, int64_t end) {
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
        multiply_by_transposed(cut(out.x), pull, map.weight, started);
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
        if (needs.x && !expert.input.defined() && !expert.dropout)
          multiply(cut(out.x), middle, expert.a, expert.scale, true);
      }
    }
  });
}

// The same for experts behind a dropout: masks count in all rows at once.
void pull_through_masks(const LinearOperands& o, LinearGrads& out) {
  std::vector<MaskedLowRank> pulls;
  size_t e = 0;
  for (const auto& map : o.maps)
    for (const auto& expert : map.low_rank) {
      const auto& middle = out.experts[e++].middle;
      if (expert.dropout && !expert.input.defined() && middle.defined())
        pulls.push_back({middle, expert.a, expert.scale, *expert.dropout});
    }
  add_masked_pulls(out.x, pulls);
}

// Sums over all rows of half and bfloat16 numbers lose little where the result keeps more bits; only a GPU's library
// has such products.
bool sums_widely(const at::TensorOptions& kind) {
#if ASR_WIDE_PRODUCTS
  constexpr Kernels wide{{}, {at::kHalf, at::kBFloat16}};
  return path_for(wide, kind.device(), at::typeMetaToScalarType(kind.dtype())) == Path::library;
#else
  static_cast<void>(kind);
  return false;
#endif
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
  const bool split = splits_rows(list[0].to);
  for (size_t i = 0; i < list.size(); ++i)
    for (int64_t row = 0; row < list[i].to.size(0); row += split ? kPart : list[i].to.size(0))
      tasks.emplace_back(i, row);
  const auto run = [&](int64_t begin, int64_t end) {
    at::AutoDispatchBelowADInplaceOrView plain;
    for (int64_t k = begin; k < end; ++k) {
      const auto& p = list[tasks[k].first];
      const int64_t row = tasks[k].second, count = split ? std::min(kPart, p.to.size(0) - row) : p.to.size(0);
      multiply_transposed(p.to.narrow(0, row, count), p.left.narrow(1, row, count), p.right, p.scale);
    }
  };
  const int64_t work = kPart * list[0].right.numel();
  if (split)
    at::parallel_for(0, static_cast<int64_t>(tasks.size()),
                     std::max<int64_t>(1, kTaskWork / std::max<int64_t>(1, work)), run);
  else
    run(0, static_cast<int64_t>(tasks.size()));
}

}  // namespace

LinearGrads linears_backward(const LinearOperands& o, const std::vector<torch::Tensor>& middle,
                             const std::vector<torch::Tensor>& dy, const LinearNeeds& needs) {
  const auto& options = o.kind;
  const auto sums = sums_widely(o.kind) ? o.kind.dtype(at::kFloat) : o.kind;
  LinearGrads out;
  bool any = false;
  for (const auto& grad : dy) any = any || grad.defined();
  if (needs.x && any) out.x = torch::empty({o.rows, o.width}, options);
  std::vector<Transposed> products;
  std::vector<MaskedLowRank> masked;
  out.weight.resize(o.maps.size());
  out.bias.resize(o.maps.size());
  out.experts.resize(middle.size());
  size_t e = 0;
  for (size_t m = 0; m < o.maps.size(); ++m) {
    const auto& map = o.maps[m];
    const bool used = dy[m].defined();
    if (used && needs.weight[m])
      products.push_back(
          {out.weight[m] = torch::empty({map.weight.rows(), map.weight.columns()}, options), dy[m], o.x, 1});
    if (used && needs.bias[m]) out.bias[m] = dy[m].sum(0);
    for (const auto& expert : map.low_rank) {
      auto& grad = out.experts[e];
      const auto& need = needs.experts[e];
      const auto& h = middle[e++];
      if (!used) continue;
      const bool passes = expert.input.defined() ? need.input : needs.x;
      if (need.a || passes || need.gate) grad.middle = torch::empty({o.rows, expert.a.size(0)}, options);
      if (need.gate) grad.gate = torch::empty({o.rows, expert.a.size(0)}, options);
      if (need.input) grad.input = torch::empty(expert.input.sizes(), options);
      if (need.a) grad.a = torch::empty(expert.a.sizes(), sums);
      if (need.a && expert.dropout && !expert.input.defined())
        masked.push_back({grad.middle, grad.a, expert.scale, *expert.dropout});
      else if (need.a)
        products.push_back({grad.a, grad.middle, o.input(expert), expert.scale});
      const auto weighed = need.b && expert.gate.defined() ? h * expert.gate : h;
      if (need.b) products.push_back({grad.b = torch::empty(expert.b.sizes(), sums), dy[m], weighed, expert.scale});
    }
  }
  if (any) pull_inputs(o, middle, dy, needs, out);
  if (any && needs.x) pull_through_masks(o, out);
  masked_sums(o.x, masked);
  run_transposed(products);
  for (size_t i = 0, m = 0; m < o.maps.size(); ++m)
    for (const auto& expert : o.maps[m].low_rank) {
      auto& gate = out.experts[i++].gate;
      if (gate.defined() && expert.gate.size(0) == 1) gate = gate.sum(0, true);
    }
  return out;
}

}  // namespace asr
