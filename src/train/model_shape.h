// The sizes of a model, read from its config.json or from the header of a built-in model's file: no weight is loaded.
// What the estimates of memory and time in train/estimate.h are made of.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "io/image_processor.h"

namespace asr {

struct ModelShape {
  std::string type;  // model_type, "tiny" or "tiny_cross"
  // The language model.
  int64_t layers = 0, width = 0, heads = 0, kv_heads = 0, head = 0, mlp = 0, vocabulary = 0;
  bool tied = false, cross = false;  // one table for embedding and head; cross-attention to the picture
  // The vision tower; 0 layers: none.
  int64_t vision_layers = 0, vision_width = 0, vision_mlp = 0, vision_mlp_maps = 2;
  int64_t patch_side = 0, image_side = 0, fold = 1;    // fold x fold patches become one visual token
  std::vector<std::pair<int64_t, int64_t>> projector;  // in and out of its linears
  // The Q-Former; 0 layers: none.
  int64_t queries = 0, query_layers = 0, query_width = 0, query_mlp = 0, cross_every = 1;
  // As stored on disk; by the formula at 2 bytes a weight where there is no file.
  double weight_bytes = 0;
  int64_t weight_size = 2;  // bytes of most weights

  bool built_in() const { return type == "tiny" || type == "tiny_cross"; }
  double decoder_weights() const;                 // of its linears, neither embedding nor head
  double vision_weights() const;                  // of the tower's linears
  double weights() const;                         // all, by formula; norms and biases left out
  double adapter_weights(int64_t rank) const;     // on the usual sites, the projector among them
  double all_linear_weights(int64_t rank) const;  // the same with every linear of the language model
  double projector_adapter(int64_t rank) const;   // the projector's part of either
  double projector_weights() const;               // of its linears, whole
};

// From a parsed config.json; `path` names it in messages.
ModelShape shape_of_config(const nlohmann::json& config, const std::string& path);
// From a Hugging Face folder or a built-in model's file; headers of the weights are read for their bytes.
ModelShape read_model_shape(const std::string& path);

// A model whose files are not there, by its published sizes: the last part of the path is its name in
// assets/model-shapes.json.
struct PublishedModel {
  std::string name;
  ModelShape shape;
  std::unique_ptr<ImageProcessor> processor;
};
PublishedModel published_model(const std::string& path);  // an unknown name is an error that lists the known ones

// The same files as they are, by that name or by the short one of configs/backbones.
struct PublishedConfig {
  nlohmann::json config, image_processor;
};
PublishedConfig published_config(const std::string& name);

// What a picture of this size becomes: tokens of the language model, and positions of the vision tower, of which
// `together` attend to each other.
struct PictureTokens {
  double visual = 0, positions = 0, together = 0;
};
PictureTokens picture_tokens(const ModelShape& shape, const ImageProcessor* processor, int64_t height, int64_t width);

}  // namespace asr
