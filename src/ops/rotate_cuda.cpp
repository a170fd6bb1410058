#include "ops/cuda_tensors.h"
#include "ops/rotate.h"
#include "tensor/record.h"

namespace asr {
namespace {

torch::Tensor turned_on_gpu(const torch::Tensor& given, const RotaryTable& table, float direction) {
  const auto x = heads_fit_cuda(given) ? given : aligned(given);
  const int64_t batch = x.size(0), heads = x.size(1), tokens = x.size(2), width = x.size(3);
  const auto out = torch::empty({batch, tokens, heads, width}, x.options().requires_grad(false));
  cuda::Rotation of{};
  of.x = x.data_ptr();
  of.cosine = table.cosine.data_ptr();
  of.sine = table.sine.data_ptr();
  of.y = out.data_ptr();
  of.batch = batch;
  of.tokens = tokens;
  of.heads = heads;
  of.width = width;
  of.batch_stride = x.stride(0);
  of.token_stride = x.stride(2);
  of.head_stride = x.stride(1);
  of.table_stride = table.cosine.size(0) == 1 ? 0 : table.cosine.stride(0);
  of.direction = direction;
  of.number = number_of(x);
  cuda::rotate(of, stream_of(x));
  return out.transpose(1, 2);
}

}  // namespace

bool heads_fit_cuda(const torch::Tensor& x) {
  const auto size = static_cast<int64_t>(x.element_size());
  const auto whole = [&](int64_t numbers) { return numbers * size % 16 == 0; };
  return x.stride(3) == 1 && x.size(3) % 2 == 0 && whole(x.size(3) / 2) && whole(x.stride(0)) && whole(x.stride(1)) &&
         whole(x.stride(2)) && reinterpret_cast<uintptr_t>(x.data_ptr()) % 16 == 0;
}

torch::Tensor rotate_cuda(const torch::Tensor& x, const RotaryTable& table) {
  const bool with_grad = needs_gradient({x});
  at::NoGradGuard no_grad;
  const auto out = turned_on_gpu(x.detach(), table, 1);
  if (with_grad)
    record("the rotation", {x}, {out}, [table](const std::vector<torch::Tensor>& grads) {
      return std::vector<torch::Tensor>{turned_on_gpu(grads[0], table, -1)};
    });
  return out;
}

}  // namespace asr
