#include "nn/language_model.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "nn/adapter_sites.h"
#include "nn/model_config.h"

namespace asr {

namespace {

DecoderConfig decoder_config(const nlohmann::json& text_config, const std::string& path) {
  const ModelConfig text(text_config, path);
  const bool qwen = text.text("model_type", "llama").rfind("qwen2", 0) == 0;
  DecoderConfig c;
  c.layers = text.count("num_hidden_layers", 32);
  c.width = text.count("hidden_size", 4096);
  c.heads = text.count("num_attention_heads", 32);
  c.kv_heads = text.count("num_key_value_heads", qwen ? 32 : c.heads);
  c.mlp = text.count("intermediate_size", qwen ? 22016 : 11008);
  c.head_width = text.count("head_dim", 0);
  c.norm_eps = text.number("rms_norm_eps", 1e-6);
  c.rotary = rotary_config(text_config, path);
  check(c.layers > 0 && c.width > 0 && c.mlp > 0 && c.heads > 0 && c.kv_heads > 0 && c.heads % c.kv_heads == 0, path,
        ": the language model's sizes cannot be (", c.layers, " layers, width ", c.width, ", ", c.heads, " heads, ",
        c.kv_heads, " key-value heads)");
  check(c.head_width > 0 || c.width % c.heads == 0, path, ": width ", c.width, " is no multiple of ", c.heads,
        " heads");
  check(text.text("hidden_act", "silu") == "silu", path, ": hidden_act '", text.text("hidden_act", "silu"),
        "' of the language model is not supported; it must be silu");
  check(!text.flag("use_sliding_window", false), path, ": use_sliding_window is not supported");
  return c;
}

}  // namespace

void LanguageModel::load(const nlohmann::json& text_config, const std::string& path, Weights body, Weights lm_head,
                         bool tied) {
  const ModelConfig text(text_config, path);
  const auto type = text.text("model_type", "llama");
  check(type == "llama" || type == "qwen2" || type == "qwen2_5_vl_text" || type == "qwen2_5_vl", path,
        ": a language model of type '", type, "' is not supported; known: llama, qwen2, qwen2_5_vl");
  const bool qwen = type != "llama";
  const auto c = decoder_config(text_config, path);
  decoder.config = c;
  const int64_t vocabulary = text.count("vocab_size", qwen ? 151936 : 32000), head_width = c.head();
  embedding = body.take("embed_tokens.weight", {vocabulary, c.width});
  // Attention biases: Qwen2 always on q, k and v; LLaMA where the configuration says so, then on o too.
  const bool bias = qwen || text.flag("attention_bias", false);
  const bool mlp_bias = !qwen && text.flag("mlp_bias", false);
  decoder.layers.clear();
  for (int64_t i = 0; i < c.layers; ++i) {
    auto w = body.below(cat("layers.", i, "."));
    DecoderLayer l;
    l.attention_norm = w.rms_norm("input_layernorm", c.width, c.norm_eps);
    l.mlp_norm = w.rms_norm("post_attention_layernorm", c.width, c.norm_eps);
    l.q = w.linear("self_attn.q_proj", c.heads * head_width, c.width, bias);
    l.k = w.linear("self_attn.k_proj", c.kv_heads * head_width, c.width, bias);
    l.v = w.linear("self_attn.v_proj", c.kv_heads * head_width, c.width, bias);
    l.o = w.linear("self_attn.o_proj", c.width, c.heads * head_width, bias && !qwen);
    l.gate = w.linear("mlp.gate_proj", c.mlp, c.width, mlp_bias);
    l.up = w.linear("mlp.up_proj", c.mlp, c.width, mlp_bias);
    l.down = w.linear("mlp.down_proj", c.width, c.mlp, mlp_bias);
    decoder.layers.push_back(std::move(l));
  }
  decoder.final_norm = body.rms_norm("norm", c.width, c.norm_eps);
  tied_ = tied;
  if (tied && lm_head.has("weight")) lm_head.ignore("weight");  // a copy, saved by some versions
  head.weight = tied ? embedding : lm_head.take("weight", {vocabulary, c.width});
}

torch::Tensor LanguageModel::logits(const torch::Tensor& hidden) const {
  return head(hidden, Pass{0, nullptr});
}

std::vector<AdapterSite> LanguageModel::sites(const std::string& prefix) {
  std::vector<AdapterSite> out;
  for (size_t i = 0; i < decoder.layers.size(); ++i) {
    auto& l = decoder.layers[i];
    add_sites(out, cat(prefix, "layers.", i, "."), static_cast<int64_t>(i),
              {{"self_attn.q_proj", &l.q, SitePart::q},
               {"self_attn.k_proj", &l.k, SitePart::k},
               {"self_attn.v_proj", &l.v, SitePart::v},
               {"self_attn.o_proj", &l.o, SitePart::o},
               {"mlp.gate_proj", &l.gate, SitePart::gate},
               {"mlp.up_proj", &l.up, SitePart::up},
               {"mlp.down_proj", &l.down, SitePart::down}});
  }
  return out;
}

}  // namespace asr
