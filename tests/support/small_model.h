// A random built-in model of 32 pixels and two layers that knows the words of the world.
#pragma once

#include "backbones/tiny.h"
#include "streams/world/world.h"

namespace asr {

inline std::unique_ptr<TinyBackbone> small_model(const std::string& kind = "tiny") {
  auto config = tiny_config(kind, "S");
  config.vision = {32, 8, 1, 32, 2, 64};
  config.text.layers = 2;
  config.text.width = 32;
  config.text.heads = config.text.kv_heads = 2;
  config.text.mlp = 64;
  config.size = "test";
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < 2000; ++i) {
    const auto s = world::pretraining_sample(i);
    texts.push_back(s.question.text);
    texts.push_back(s.question.answer);
  }
  return TinyBackbone::random(config, WordTokenizer::from_texts(texts), 7);
}

}  // namespace asr
