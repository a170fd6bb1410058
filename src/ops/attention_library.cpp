// Attention by libtorch's own fused operator, where it has one (2.x), on a GPU.
#include "ops/attention.h"

#if __has_include(<ATen/ops/scaled_dot_product_attention.h>)
#include <ATen/Context.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <optional>

#include "tensor/record.h"
#include "tensor/runtime.h"

namespace asr {
namespace {

using torch::autograd::variable_list;

void fix_order(bool yes) {
  at::globalContext().setDeterministicAlgorithms(yes, /*warn_only=*/false);
}
struct OrderFixed {
  OrderFixed() { fix_order(true); }
  ~OrderFixed() { fix_order(false); }
};
struct FixOrder final : torch::autograd::FunctionPreHook {
  variable_list operator()(const variable_list& grads) override {
    fix_order(true);
    return grads;
  }
};
struct FreeOrder final : torch::autograd::FunctionPostHook {
  variable_list operator()(const variable_list& grads, const variable_list&) override {
    fix_order(false);
    return grads;
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

}  // namespace

bool has_library_attention() {
  return true;
}

// Without a mask the library takes its flash kernel; with one its memory-efficient kernel, which reads a bias whose
// rows begin at multiples of 8 as it is, shared by all heads, where it would copy any other.
torch::Tensor attend_library(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                             const torch::Tensor& key_mask, bool causal) {
  const int64_t group = q.size(1) / k.size(1), queries = q.size(2), keys = k.size(2);
  if (group > 1 && queries == 1) {
    // The heads that share keys ask as queries of one head, so that no key is copied for each new token.
    const auto asked = q.reshape({q.size(0), k.size(1), group, q.size(3)});
    return attend_library(asked, k, v, key_mask, /*causal=*/false).reshape(q.sizes());
  }
  const auto wide_k = shared_heads(k, group), wide_v = shared_heads(v, group);
  const bool order = causal && queries > 1;  // a single query is the last one: it sees every key
  if (!key_mask.defined() && (!order || queries == keys)) return library_attention(q, wide_k, wide_v, {}, order);
  const auto hidden = visible_keys(key_mask.defined() ? key_mask : all_keys(k), queries, order).logical_not();
  // Large and finite, in half precision too: a row without keys then stays free of NaN.
  const double low = q.scalar_type() == at::kHalf ? -3e4 : -1e9;
  const auto room =
      torch::zeros({hidden.size(0), 1, hidden.size(2), (keys + 7) / 8 * 8}, q.options().requires_grad(false));
  return library_attention(q, wide_k, wide_v, room.narrow(3, 0, keys).masked_fill_(hidden, low), false);
}

}  // namespace asr

#else

namespace asr {

bool has_library_attention() {
  return false;
}

torch::Tensor attend_library(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                             const torch::Tensor& key_mask, bool causal) {
  return attend_reference(q, k, v, key_mask, causal);
}

}  // namespace asr

#endif
