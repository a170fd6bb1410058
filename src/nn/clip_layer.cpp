#include "nn/clip_layer.h"

#include "nn/attention.h"

namespace asr {

ClipLayer take_clip_layer(Weights weights, const ClipLayerShape& shape) {
  const int64_t width = shape.width;
  ClipLayer out;
  out.heads = shape.heads;
  out.attention_norm = weights.layer_norm("layer_norm1", width, shape.eps);
  out.mlp_norm = weights.layer_norm("layer_norm2", width, shape.eps);
  out.q = weights.linear("self_attn.q_proj", width, width, true);
  out.k = weights.linear("self_attn.k_proj", width, width, true);
  out.v = weights.linear("self_attn.v_proj", width, width, true);
  out.o = weights.linear("self_attn.out_proj", width, width, true);
  out.mlp = take_mlp(weights, "mlp.fc1", "mlp.fc2", {width, shape.mlp, shape.activation});
  return out;
}

torch::Tensor ClipLayer::operator()(const torch::Tensor& x, bool causal, const Pass& pass) const {
  const auto qkv = together({&q, &k, &v}, attention_norm(x), pass);
  const auto mixed =
      attend(split_heads(qkv[0], heads), split_heads(qkv[1], heads), split_heads(qkv[2], heads), {}, causal);
  const auto attended = x + o(join_heads(mixed), pass);
  return attended + mlp(mlp_norm(attended), pass);
}

}  // namespace asr
