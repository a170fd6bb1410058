// asr bench step --backbone: a LoRA training step of a large model.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"

namespace asr {

struct BackboneBench {
  std::string backbone;  // a name of assets/model-shapes.json, or a model folder
  bool random = false;
  std::string device = "cuda", base_precision = "plain";
  int64_t batch = 16, text_tokens = 64;
  int64_t layers = 0;  // of every tower; 0: as the model has
  int64_t rank = 16;
  double dropout = 0.05;
  int calls = 20;
  bool checkpointing = false;
  bool deterministic = false;
  bool profile = false;
  bool brief = false;  // plain and spectral steps alone
};
void bench_backbone(const BackboneBench& arguments, const Common& common);

}  // namespace asr
