#include "nn/clip_text.h"

#include "base/error.h"
#include "nn/model_config.h"

namespace asr {
namespace {

ClipLayerShape text_shape(const ModelConfig& text) {
  ClipLayerShape out;
  out.width = text.count("hidden_size", 512);
  out.heads = text.count("num_attention_heads", 8);
  out.mlp = text.count("intermediate_size", 2048);
  out.eps = text.number("layer_norm_eps", 1e-5);
  if (text.find("hidden_act")) out.activation = activation_named(text.text("hidden_act", ""));
  check(out.width % out.heads == 0, text.name_of("hidden_size"), " (", out.width,
        ") is no multiple of num_attention_heads (", out.heads, ")");
  return out;
}

}  // namespace

ClipText::ClipText(const nlohmann::json& json, Weights weights) {
  const ModelConfig config(json, "config.json");
  const auto text = config.part("text_config");
  const auto type = text.text("model_type", "clip_text_model");
  check(type == "clip_text_model", text.name_of("model_type"), " is '", type, "'; only clip_text_model is known");
  const auto shape = text_shape(text);
  width = shape.width;
  vocabulary = text.count("vocab_size", 49408);
  longest = text.count("max_position_embeddings", 77);
  check(longest >= 2, text.name_of("max_position_embeddings"), " is ", longest,
        "; a text needs a place for its first and its end token");
  end_token = text.integers("eos_token_id", {49407}).at(0);

  tokens = weights.take("embeddings.token_embedding.weight", {vocabulary, width});
  positions = weights.take("embeddings.position_embedding.weight", {longest, width});
  const int64_t count = text.count("num_hidden_layers", 12);
  for (int64_t i = 0; i < count; ++i)
    layers.push_back(take_clip_layer(weights.below("encoder.layers." + std::to_string(i) + "."), shape));
  last_norm = weights.layer_norm("final_layer_norm", width, shape.eps);
}

torch::Tensor ClipText::read_at(const torch::Tensor& ids) const {
  // The first of the largest, whose order no library promises among equals: the end token may be padding too.
  const auto ends = reads_largest() ? ids == ids.amax(1, true) : ids == end_token;
  const auto places = torch::arange(ids.size(1), ids.options());
  const auto at = places.unsqueeze(0).expand_as(ids).masked_fill(ends.logical_not(), ids.size(1)).amin(1);
  check(at.max().item<int64_t>() < ids.size(1), "a text without its end token ", end_token,
        "; is the tokenizer of this CLIP model?");
  return at;
}

torch::Tensor ClipText::operator()(const torch::Tensor& ids) const {
  check(ids.dim() == 2 && ids.size(1) >= 1 && ids.size(1) <= longest, "texts of ", ids.sizes(),
        " tokens where CLIP's text tower takes at most ", longest);
  const Pass base{0, nullptr};
  auto x = tokens.index_select(0, ids.flatten()).view({ids.size(0), ids.size(1), width});
  x = x + positions.narrow(0, 0, ids.size(1));
  for (const auto& layer : layers) x = layer(x, /*causal=*/true, base);
  const auto at = read_at(ids).view({-1, 1, 1}).expand({ids.size(0), 1, width});
  return last_norm(x.gather(1, at).squeeze(1));
}

}  // namespace asr
