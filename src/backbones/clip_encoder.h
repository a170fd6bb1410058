// A frozen CLIP model beside the backbone, from a Hugging Face folder: pictures and texts as vectors of one space, for
// methods that route by them. Always float32. Samples go through it one at a time, so that a vector never depends on
// what else was asked for: not on batches, processes or what a cache knew already.
#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "io/image.h"
#include "io/image_processor.h"
#include "io/tokenizer.h"
#include "nn/clip_text.h"
#include "nn/clip_vit.h"

namespace asr {

inline constexpr int64_t kWidestClip = 4096;  // numbers of a vector; released models have up to 1280

// A text before or after the map into the space of the pictures.
enum class ClipTextForm { pooled, projected };

class ClipEncoder {
 public:
  // A folder of model_type `clip` with both towers, its tokenizer and its preprocessor_config.json.
  explicit ClipEncoder(const std::string& folder);

  void to(at::Device device);
  // A row each, float32 on the device; a sample without a picture has zeros.
  torch::Tensor pictures(const std::vector<Image8>& pictures) const;                    // [N, picture_width]
  torch::Tensor texts(const std::vector<std::string>& texts, ClipTextForm form) const;  // [N, text_width]
  int64_t picture_width() const { return picture_map_.weight.size(0); }
  int64_t text_width(ClipTextForm form) const;
  // A hash of the first numbers of every weight and of how it cuts a text: another model has another.
  const std::string& description() const { return description_; }

  // <|startoftext|>, the text, <|endoftext|>: as many tokens as the tower takes, cut at the right.
  std::vector<int64_t> text_ids(const std::string& text) const;
  torch::Tensor pixels_of(const Image8& picture) const;                         // [1, 3, H, W] on the CPU
  torch::Tensor encode_pixels(const torch::Tensor& pixels) const;               // [B, picture_width]
  torch::Tensor encode_ids(const torch::Tensor& ids, ClipTextForm form) const;  // [B, text_width]

 private:
  void check_parts() const;
  void describe();
  template <class F>
  void each(F&& f) {
    vision_.each(f);
    text_.each(f);
    each_weight(f, vision_norm_, picture_map_, text_map_);
  }

  std::string folder_, description_;
  ClipVit vision_;
  LayerNorm vision_norm_;
  ClipText text_;
  Linear picture_map_, text_map_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ImageProcessor> processor_;
  int64_t begin_token_ = 0, end_token_ = 0;
};

// What it will hold, from config.json and the headers of its files; nothing is loaded.
struct ClipSizes {
  double weight_bytes = 0;  // in float32
  int64_t picture_width = 0, pooled_width = 0;
  int64_t text_width(ClipTextForm form) const { return form == ClipTextForm::pooled ? pooled_width : picture_width; }
};
ClipSizes clip_sizes(const std::string& folder);

}  // namespace asr
