#include "backbones/clip_encoder.h"

#include <algorithm>

#include "backbones/model_folder.h"
#include "base/assets.h"
#include "base/error.h"
#include "base/sha256.h"
#include "io/safetensors.h"
#include "nn/model_config.h"

namespace asr {
namespace {

constexpr const char* kBeginToken = "<|startoftext|>";
constexpr const char* kEndToken = "<|endoftext|>";

// transformers has nested the towers once more in some versions.
const std::vector<std::pair<std::string, std::string>> kClipRenames = {
    {"vision_model.vision_model.", "vision_model."},
    {"text_model.text_model.", "text_model."},
};

ModelFolder clip_folder(const std::string& path) {
  check_model_path(path);
  auto out = read_model_folder(path);
  check(out.type == "clip", out.config_path, ": model_type is '", out.type,
        "'; an encoder is a whole CLIP model (model_type 'clip') with its vision and its text tower");
  // Only the oldest files have these under another name alone.
  for (const std::string part : {"text_config", "vision_config"})
    if (!out.config.contains(part) && out.config.contains(part + "_dict"))
      out.config[part] = out.config[part + "_dict"];
  for (const char* part : {"text_config", "vision_config"})
    check(out.config.contains(part) && out.config[part].is_object(), out.config_path, ": '", part,
          "' is missing; an encoder is a whole CLIP model with its vision and its text tower");
  return out;
}

// Every layer, with the class token: what the pooled state is made of.
nlohmann::json whole_tower(nlohmann::json config) {
  config["vision_feature_layer"] = -1;
  config["vision_feature_select_strategy"] = "full";
  return config;
}

int64_t projection_of(const ModelFolder& folder) {
  return ModelConfig(folder.config, folder.config_path).count("projection_dim", 512);
}

}  // namespace

ClipEncoder::ClipEncoder(const std::string& path) : folder_(path) {
  const auto folder = clip_folder(path);
  Weights weights(path, kClipRenames);
  check(weights.has("text_model.final_layer_norm.weight"), path,
        ": its weights hold no text tower (text_model.*); an encoder is a whole CLIP model");
  auto vision = weights.below("vision_model.");
  vision_ = ClipVit(whole_tower(folder.config), vision);
  vision_norm_ = vision.layer_norm("post_layernorm", vision_.shape.width, vision_.shape.eps);
  text_ = ClipText(folder.config, weights.below("text_model."));
  const int64_t width = projection_of(folder);
  check(std::max(width, text_.width) <= kWidestClip, folder.config_path, ": vectors of ", std::max(width, text_.width),
        " numbers are too wide; at most ", kWidestClip, " are kept");
  picture_map_ = weights.linear("visual_projection", width, vision_.shape.width, false);
  text_map_ = weights.linear("text_projection", width, text_.width, false);
  weights.ignore("logit_scale");
  weights.finish();
  tokenizer_ = load_tokenizer(path);
  processor_ = load_image_processor(path);
  check_parts();
  begin_token_ = tokenizer_->id_of(kBeginToken);
  end_token_ = tokenizer_->id_of(kEndToken);
  describe();
}

void ClipEncoder::describe() {
  constexpr int64_t kNumbers = 64;
  Sha256 hash;
  each([&](torch::Tensor& weight) {
    const auto flat = weight.flatten();
    const auto first = flat.narrow(0, 0, std::min(kNumbers, flat.numel())).to(at::kFloat).contiguous();
    for (const int64_t side : weight.sizes()) hash.update_int(static_cast<uint64_t>(side));
    hash.update(first.data_ptr(), first.nbytes());
  });
  for (const int64_t id : text_ids("What is in the picture, and what's 12 of it?"))
    hash.update_int(static_cast<uint64_t>(id));
  description_ = hash.hex();
}

// Now, and not when the first sample comes hours later.
void ClipEncoder::check_parts() const {
  for (const char* piece : {kBeginToken, kEndToken})
    check(tokenizer_->find(piece).has_value(), folder_, ": its tokenizer has no '", piece,
          "'; copy the tokenizer of the same CLIP model");
  check(tokenizer_->size() <= text_.vocabulary, folder_, ": its tokenizer has ", tokenizer_->size(),
        " tokens and its text tower ", text_.vocabulary, "; do the files belong to one model?");
  const int64_t end = *tokenizer_->find(kEndToken);
  check(text_.reads_largest() || text_.end_token == end, folder_, "/config.json: 'text_config.eos_token_id' is ",
        text_.end_token, ", but ", kEndToken, " is ", end, " in its tokenizer; do the files belong to one model?");
  check(!text_.reads_largest() || tokenizer_->size() == end + 1, folder_, ": its tokenizer has tokens after ",
        kEndToken, ", and its config.json (eos_token_id 2, of old files) reads a text at its largest token; set ",
        "text_config.eos_token_id to ", end);
  const auto pixels = pixels_of({1, 1, {0, 0, 0}});
  const auto& side = vision_.shape.image;
  check(pixels.dim() == 4 && pixels.size(2) == side[0] && pixels.size(3) == side[1], folder_,
        ": its preprocessor_config.json makes pictures of ", pixels.sizes(), ", its vision tower takes ", side[0], "x",
        side[1], "; do the files belong to one model?");
}

void ClipEncoder::to(at::Device device) {
  each([&](torch::Tensor& weight) { weight = weight.to(device, at::kFloat); });
}

int64_t ClipEncoder::text_width(ClipTextForm form) const {
  return form == ClipTextForm::pooled ? text_.width : text_map_.weight.size(0);
}

std::vector<int64_t> ClipEncoder::text_ids(const std::string& text) const {
  std::vector<int64_t> out = {begin_token_};
  for (const auto& token : tokenizer_->encode(text)) out.push_back(token.id);
  if (static_cast<int64_t>(out.size()) >= text_.longest) out.resize(static_cast<size_t>(text_.longest) - 1);
  out.push_back(end_token_);
  return out;
}

torch::Tensor ClipEncoder::pixels_of(const Image8& picture) const {
  ProcessedImages out;
  processor_->append(picture, "a picture", out);
  return torch::tensor(out.pixel_values, at::kFloat).view(out.shape);
}

torch::Tensor ClipEncoder::encode_pixels(const torch::Tensor& pixels) const {
  at::NoGradGuard no_grad;
  const Pass base{0, nullptr};
  const auto states = vision_(pixels.to(picture_map_.weight.device(), at::kFloat), base);
  return picture_map_(vision_norm_(states.select(1, 0)), base);
}

torch::Tensor ClipEncoder::encode_ids(const torch::Tensor& ids, ClipTextForm form) const {
  at::NoGradGuard no_grad;
  const auto pooled = text_(ids.to(text_map_.weight.device()));
  return form == ClipTextForm::pooled ? pooled : text_map_(pooled, Pass{0, nullptr});
}

torch::Tensor ClipEncoder::pictures(const std::vector<Image8>& pictures) const {
  std::vector<torch::Tensor> out;
  for (const auto& picture : pictures)
    out.push_back(picture.rgb.empty() ? at::zeros({1, picture_width()}, picture_map_.weight.options())
                                      : encode_pixels(pixels_of(picture)));
  return at::cat(out);
}

torch::Tensor ClipEncoder::texts(const std::vector<std::string>& texts, ClipTextForm form) const {
  std::vector<torch::Tensor> out;
  for (const auto& text : texts)
    out.push_back(encode_ids(torch::tensor(text_ids(text), at::kLong).view({1, -1}), form));
  return at::cat(out);
}

ClipSizes clip_sizes(const std::string& path) {
  const auto folder = clip_folder(path);
  ClipSizes out;
  for (const auto& [name, view] : read_safetensors_set(path).tensors) {
    double numbers = 1;
    for (const int64_t side : view->shape) numbers *= static_cast<double>(side);
    out.weight_bytes += 4 * numbers;
  }
  out.picture_width = projection_of(folder);
  out.pooled_width = ModelConfig(folder.config, folder.config_path).part("text_config").count("hidden_size", 512);
  return out;
}

}  // namespace asr
