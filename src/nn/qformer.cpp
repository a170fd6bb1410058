#include "nn/qformer.h"

#include <algorithm>

#include "base/error.h"
#include "nn/adapter_sites.h"
#include "nn/attention.h"

namespace asr {
namespace {

QFormerAttention take_attention(Weights weights, int64_t width, int64_t context_width, double eps) {
  QFormerAttention out;
  out.query = weights.linear("attention.query", width, width, true);
  out.key = weights.linear("attention.key", width, context_width, true);
  out.value = weights.linear("attention.value", width, context_width, true);
  out.dense = weights.linear("output.dense", width, width, true);
  out.norm = weights.layer_norm("output.LayerNorm", width, eps);
  return out;
}

torch::Tensor run(const QFormerFeedForward& f, const torch::Tensor& x, const Pass& pass) {
  return f.norm(f.mlp(x, pass) + x);
}

// The request if it names this layer.
const TapRequest* for_layer(const TapRequest* tap, int64_t layer) {
  return tap && std::binary_search(tap->layers.begin(), tap->layers.end(), layer) ? tap : nullptr;
}

}  // namespace

QFormer::QFormer(const nlohmann::json& json, Weights weights) {
  const ModelConfig config(json, "config.json");
  const auto part = config.part("qformer_config");
  width = part.count("hidden_size", 768);
  heads = part.count("num_attention_heads", 12);
  check(width % heads == 0, part.name_of("hidden_size"), " (", width, ") is no multiple of num_attention_heads (",
        heads, ")");
  image_width = part.count("encoder_hidden_size", 1408);
  queries = config.count("num_query_tokens", 32);
  const int64_t inner = part.count("intermediate_size", 3072), every = part.count("cross_attention_frequency", 2);
  const double eps = part.number("layer_norm_eps", 1e-12);
  const auto activation = activation_named(part.text("hidden_act", "gelu"));

  query_tokens = weights.take("query_tokens", {1, queries, width}).view({queries, width});
  auto own = weights.below("qformer.");
  word_embeddings = own.take("embeddings.word_embeddings.weight", {part.count("vocab_size", 30522), width});
  text_positions =
      own.take("embeddings.position_embeddings.weight", {part.count("max_position_embeddings", 512), width});
  own.ignore("embeddings.position_ids");  // 0, 1, 2, ... in files of older versions
  first_norm = own.layer_norm("embeddings.layernorm", width, eps);
  for (int64_t i = 0; i < part.count("num_hidden_layers", 12); ++i) {
    auto from = own.below("encoder.layer." + std::to_string(i) + ".");
    QFormerLayer layer;
    layer.self = take_attention(from.below("attention."), width, width, eps);
    if (i % every == 0) layer.cross = take_attention(from.below("crossattention."), width, image_width, eps);
    const auto feed_forward = [&](const std::string& which) {
      return QFormerFeedForward{
          take_mlp(from, "intermediate" + which + ".dense", "output" + which + ".dense", {width, inner, activation}),
          from.layer_norm("output" + which + ".LayerNorm", width, eps)};
    };
    layer.text = feed_forward("");
    layer.queries = feed_forward("_query");
    layers.push_back(std::move(layer));
  }
}

int64_t QFormer::cross_attentions() const {
  return std::count_if(layers.begin(), layers.end(), [](const QFormerLayer& l) { return l.cross.has_value(); });
}

std::vector<AdapterSite> QFormer::sites(const std::string& prefix) {
  std::vector<AdapterSite> out;
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto name = prefix + "encoder.layer." + std::to_string(i) + ".";
    const auto layer = static_cast<int64_t>(i);
    auto& self = layers[i].self;
    add_sites(out, name + "attention.", layer,
              {{"attention.query", &self.query, SitePart::q},
               {"attention.key", &self.key, SitePart::k},
               {"attention.value", &self.value, SitePart::v},
               {"output.dense", &self.dense, SitePart::o}});
    if (!layers[i].cross) continue;
    auto& cross = *layers[i].cross;
    add_sites(out, name + "crossattention.", layer,
              {{"attention.query", &cross.query, SitePart::cross_q},
               {"attention.key", &cross.key, SitePart::cross_k},
               {"attention.value", &cross.value, SitePart::cross_v},
               {"output.dense", &cross.dense, SitePart::cross_o}});
  }
  return out;
}

torch::Tensor QFormer::embed(const torch::Tensor& ids, at::ScalarType type) const {
  const int64_t batch = ids.size(0), length = ids.size(1);
  check(length <= text_positions.size(0), "an instruction of ", length, " tokens is longer than the Q-Former's ",
        text_positions.size(0), " positions; cut it");
  const auto words = at::embedding(word_embeddings, ids).to(type) + text_positions.narrow(0, 0, length).to(type);
  const auto first = query_tokens.to(type).unsqueeze(0).expand({batch, queries, width});
  return first_norm(at::cat({first, words}, 1));
}

torch::Tensor QFormer::attention(const QFormerAttention& a, const Looking& looking, const Pass& pass,
                                 const LayerTap& tap) const {
  const auto q = split_heads(a.query(looking.x, pass), heads);
  const auto kv = together({&a.key, &a.value}, looking.context, pass);
  const auto k = split_heads(kv[0], heads), v = split_heads(kv[1], heads);
  if (tap.request) tap.result->layers.push_back(attention_rows(q, k, looking.key_mask, /*causal=*/false, *tap.request));
  const auto mixed = attend(q, k, v, looking.key_mask, /*causal=*/false);
  return a.norm(a.dense(join_heads(mixed), pass) + looking.x);
}

torch::Tensor QFormer::operator()(const torch::Tensor& image, const torch::Tensor& ids, const torch::Tensor& mask,
                                  const Pass& pass, const QFormerTap& tap) const {
  check((!tap.cross || tap.cross_result) && (!tap.self || tap.self_result), "a tap needs a place for its result");
  auto x = embed(ids, image.scalar_type());
  const auto visible =
      at::cat({torch::ones({ids.size(0), queries}, mask.options().dtype(at::kBool)), mask.to(at::kBool)}, 1);
  int64_t crossing = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto& l = layers[i];
    const LayerTap self_tap{for_layer(tap.self, static_cast<int64_t>(i)), tap.self_result};
    const auto mixed = attention(l.self, {x, x, visible}, pass, self_tap);
    auto first = mixed.narrow(1, 0, queries);
    if (l.cross) {
      const LayerTap cross_tap{for_layer(tap.cross, crossing++), tap.cross_result};
      first = attention(*l.cross, {first, image, {}}, pass, cross_tap);
    }
    x = at::cat({run(l.queries, first, pass), run(l.text, mixed.slice(1, queries), pass)}, 1);
  }
  return x;
}

}  // namespace asr
