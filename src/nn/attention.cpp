#include "nn/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "nn/layer_kernels.h"

#if __has_include(<ATen/ops/scaled_dot_product_attention.h>)
#include <ATen/Context.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <optional>

#include "tensor/record.h"
#include "tensor/runtime.h"
#define ASR_HAVE_SDPA 1
#endif

namespace asr {
namespace {

// Expanded and copied, not repeated by index: the gradient is then a sum, whose bits do not change on a GPU.
torch::Tensor wide(const torch::Tensor& x, int64_t group) {
  if (group == 1) return x;
  const int64_t batch = x.size(0), heads = x.size(1), tokens = x.size(2), width = x.size(3);
  return x.unsqueeze(2).expand({batch, heads, group, tokens, width}).reshape({batch, heads * group, tokens, width});
}

torch::Tensor visible_keys(const torch::Tensor& key_mask, int64_t queries, bool causal) {  // [B, 1, T or 1, S]
  const int64_t keys = key_mask.size(1);
  const auto visible = key_mask.view({-1, 1, 1, keys});
  if (!causal) return visible;
  const auto key = at::arange(keys, key_mask.options().dtype(at::kLong)),
             query = at::arange(keys - queries, keys, key.options());
  return visible.logical_and(key.view({1, 1, 1, keys}).le(query.view({1, 1, queries, 1})));
}

#ifdef ASR_HAVE_SDPA
using torch::autograd::variable_list;

void fix_order(bool yes) {
  at::globalContext().setDeterministicAlgorithms(yes, /*warn_only=*/false);
}
struct OrderFixed {
  OrderFixed() { fix_order(true); }
  ~OrderFixed() { fix_order(false); }
};
struct FixOrder final : torch::autograd::FunctionPreHook {
  variable_list operator()(const variable_list& grads) override { return fix_order(true), grads; }
};
struct FreeOrder final : torch::autograd::FunctionPostHook {
  variable_list operator()(const variable_list& grads, const variable_list&) override {
    return fix_order(false), grads;
  }
};

// Fused attention adds up its gradient in an order that changes, unless the library is told otherwise: when it chooses
// a kernel, and when that kernel's gradient runs. Told for good, it would also replace fast operators whose sums have
// but one summand.
torch::Tensor library_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                const torch::Tensor& bias, bool causal) {
  const auto given = bias.defined() ? std::make_optional(bias) : std::nullopt;
  if (!deterministic() || !needs_gradient({q, k, v}))
    return at::scaled_dot_product_attention(q, k, v, given, 0.0, causal);
  const auto out = [&] {
    const OrderFixed while_chosen;
    return at::scaled_dot_product_attention(q, k, v, given, 0.0, causal);
  }();
  out.grad_fn()->add_pre_hook(std::make_unique<FixOrder>());
  out.grad_fn()->add_post_hook(std::make_unique<FreeOrder>());
  return out;
}

// Without a mask the library takes its flash kernel; with one its memory-efficient kernel, which reads a bias whose
// rows begin at multiples of 8 as it is, shared by all heads, where it would copy any other.
torch::Tensor attend_library(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                             const torch::Tensor& key_mask, bool causal) {
  const int64_t group = q.size(1) / k.size(1), queries = q.size(2), keys = k.size(2);
  const auto wide_k = wide(k, group), wide_v = wide(v, group);
  const bool order = causal && queries > 1;  // a single query is the last one: it sees every key
  if (!key_mask.defined() && (!order || queries == keys)) return library_attention(q, wide_k, wide_v, {}, order);
  const auto hidden = visible_keys(key_mask.defined() ? key_mask : all_keys(k), queries, order).logical_not();
  // Large and finite, in half precision too: a row without keys then stays free of NaN.
  const double low = q.scalar_type() == at::kHalf ? -3e4 : -1e9;
  const auto room =
      torch::zeros({hidden.size(0), 1, hidden.size(2), (keys + 7) / 8 * 8}, q.options().requires_grad(false));
  return library_attention(q, wide_k, wide_v, room.narrow(3, 0, keys).masked_fill_(hidden, low), false);
}
#endif

}  // namespace

torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                     const torch::Tensor& key_mask, bool causal) {
  if (has_kernel(q) && has_kernel(k) && has_kernel(v))
    return attend_fused(q, k, v, key_mask.defined() ? key_mask : all_keys(k), causal);
#ifdef ASR_HAVE_SDPA
  if (q.is_cuda() && q.scalar_type() != at::kDouble) return attend_library(q, k, v, key_mask, causal);
#endif
  return attend_reference(q, k, v, key_mask, causal);
}

torch::Tensor attend_reference(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const torch::Tensor& key_mask, bool causal) {
  const int64_t group = q.size(1) / k.size(1);
  const auto visible = visible_keys(key_mask.defined() ? key_mask : all_keys(k), q.size(2), causal);
  auto scores = q.matmul(wide(k, group).transpose(2, 3)) / std::sqrt(static_cast<double>(q.size(3)));
  // A padded query may see no key at all; a large finite number keeps its row, which nobody reads, free of NaN.
  scores = scores.masked_fill(visible.logical_not(), -1e9);  // [B, heads, T, S]
  return softmax_rows(scores).to(v.scalar_type()).matmul(wide(v, group));
}

torch::Tensor softmax_rows(const torch::Tensor& scores) {
  return scores.softmax(-1, at::promote_types(scores.scalar_type(), at::kFloat));
}

torch::Tensor all_keys(const torch::Tensor& k) {
  return torch::ones({k.size(0), k.size(2)}, k.options().dtype(at::kBool).requires_grad(false));
}

bool order_hides_padding(const torch::Tensor& mask) {
  const int64_t later = mask.size(1) - 1;
  if (later < 0) return true;
  const auto padding_before = mask.narrow(1, 0, later).logical_not();
  return !padding_before.logical_and(mask.narrow(1, 1, later)).any().item<bool>();
}

torch::Tensor split_heads(const torch::Tensor& x, int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
}
torch::Tensor join_heads(const torch::Tensor& x) {
  return x.transpose(1, 2).reshape({x.size(0), x.size(2), -1});
}

}  // namespace asr
