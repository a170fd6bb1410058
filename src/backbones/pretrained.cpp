#include "backbones/pretrained.h"

#include <algorithm>
#include <filesystem>

#include "backbones/pass_parts.h"
#include "base/error.h"
#include "nn/model_config.h"
#include "tensor/device.h"

namespace asr {

PretrainedBackbone::PretrainedBackbone(const ModelFolder& folder, Renames renames)
    : folder_(folder), renames_(std::move(renames)), end_tokens_(folder.end_tokens()) {}

void PretrainedBackbone::load_text(Weights weights, const std::string& head_prefix) {
  text_.load(folder_.text_config(), folder_.config_path, weights.below(text_prefix()), weights.below(head_prefix),
             folder_.tied_embeddings());
}

// A checkpoint without a tokenizer or processor can still be run on token numbers and pixels; asking for text or
// pictures is what fails.
void PretrainedBackbone::load_processors(bool pictures) {
  try {
    tokenizer_ = load_tokenizer(folder_.path);
  } catch (const Error& error) {
    no_tokenizer_ = error.what();
  }
  if (!pictures) return;
  try {
    processor_ = load_image_processor(folder_.path);
  } catch (const Error& error) {
    no_processor_ = error.what();
  }
}

void PretrainedBackbone::add_end_token(const std::string& piece) {
  const auto id = tokenizer_ ? tokenizer_->find(piece) : std::nullopt;
  if (id && std::find(end_tokens_.begin(), end_tokens_.end(), *id) == end_tokens_.end()) end_tokens_.push_back(*id);
}

std::string PretrainedBackbone::name() const {
  const auto path = std::filesystem::path(folder_.path);
  const auto last = path.filename().empty() ? path.parent_path().filename() : path.filename();
  return folder_.type + " " + last.string();
}

const Tokenizer& PretrainedBackbone::tokenizer() const {
  check(tokenizer_ != nullptr, no_tokenizer_);
  return *tokenizer_;
}

void PretrainedBackbone::to(at::Device device) {
  const auto move = [&](torch::Tensor& weight) { weight = weight.to(device); };
  text_.each_weight(move);
  each_vision_weight(move);
}

void PretrainedBackbone::configure(const BackboneOptions& options) {
  check(options.geometry_layer <= static_cast<int64_t>(text_.decoder.layers.size()),
        "geometry.layer=", options.geometry_layer, " but the language model of ", name(), " has ",
        text_.decoder.layers.size(), " layers");
  check(!options.text_weighted_queries || taps_vision_path(), "attention.qformer_rows=text, but ", name(),
        " has no Q-Former");
  options_ = options;
}

std::unique_ptr<PretrainedBackbone> load_pretrained(const std::string& path) {
  auto model = load_backbone(path);
  auto* pretrained = dynamic_cast<PretrainedBackbone*>(model.get());
  check(pretrained, path, ": is no Hugging Face model folder");
  model.release();
  return std::unique_ptr<PretrainedBackbone>(pretrained);
}

at::ScalarType PretrainedBackbone::compute_type() const {
  return compute_ ? *compute_ : asr::compute_type(text_.embedding);
}

int64_t PretrainedBackbone::context() const {
  return ModelConfig(folder_.text_config(), folder_.config_path).count("max_position_embeddings", 1 << 24);
}

int64_t PretrainedBackbone::weight_bytes() {
  int64_t sum = 0;
  const auto add = [&](torch::Tensor& weight) { sum += static_cast<int64_t>(weight.nbytes()); };
  text_.each_weight(add);
  each_vision_weight(add);
  return sum;
}

torch::Tensor PretrainedBackbone::encode_images(const torch::Tensor&) const {
  fail(name(), ": pictures are encoded inside its own pass");
}

torch::Tensor PretrainedBackbone::visual_tokens(const Batch&, const Pass&, VisualLook*) const {
  fail(folder_.path, ": is a model of text alone (model_type '", folder_.type, "'); it takes no pictures");
}

int64_t PretrainedBackbone::image_tokens(const ProcessedImages&, size_t) const {
  fail(folder_.path, ": is a model of text alone (model_type '", folder_.type, "'); it takes no pictures");
}

torch::Tensor PretrainedBackbone::positions(const Batch&, const torch::Tensor&, const torch::Tensor& mask) const {
  return (mask.to(at::kLong).cumsum(1) - 1).clamp_min(0);
}

std::vector<int64_t> PretrainedBackbone::picture_samples(const Batch& batch, const std::vector<int64_t>& tokens) const {
  const auto counts = batch.ids.eq(image_token_).logical_and(batch.mask).sum(1).cpu();
  const auto* left = counts.data_ptr<int64_t>();
  std::vector<int64_t> out;
  int64_t sample = 0, taken = 0;
  for (const int64_t count : tokens) {
    while (taken == left[sample] && sample + 1 < batch.size()) {
      ++sample;
      taken = 0;
    }
    taken += count;
    check(taken <= left[sample], "sample ", sample, " of the batch has fewer image tokens (", image_token_,
          ") than its pictures give visual tokens");
    out.push_back(sample);
  }
  return out;
}

Pass PretrainedBackbone::picture_pass(const Batch& batch, const Pass& pass, int64_t tokens) const {
  const int64_t pictures = batch.pixels.size(0);
  if (!pass.given || pictures == batch.size()) return vision_pass(pass);
  const std::vector<int64_t> each(static_cast<size_t>(pictures), tokens);
  return vision_pass(pass, torch::tensor(picture_samples(batch, each), at::kLong).to(batch.pixels.device()));
}

PretrainedBackbone::TowerStates PretrainedBackbone::tower_states(const torch::Tensor& states, bool class_token,
                                                                 const std::vector<int64_t>& samples,
                                                                 int64_t batch) const {
  std::vector<int64_t> last(static_cast<size_t>(batch), 0);
  auto none = torch::ones({batch, 1}, at::kBool);
  for (size_t picture = 0; picture < samples.size(); ++picture) {
    last[static_cast<size_t>(samples[picture])] = static_cast<int64_t>(picture);
    none[samples[picture]][0] = false;
  }
  none = none.to(states.device());
  const auto chosen = states.index_select(0, torch::tensor(last, at::kLong).to(states.device())).to(at::kFloat);
  const auto patches = class_token ? chosen.slice(1, 1) : chosen;
  return {chosen.select(1, 0).masked_fill(none, 0), patches.amax(1).masked_fill(none, 0),
          patches.mean(1).masked_fill(none, 0)};
}

PretrainedBackbone::PictureCells PretrainedBackbone::picture_cells(const Batch&, int64_t) const {
  fail(folder_.path, ": is a model of text alone; it has no attention to pictures");
}

std::vector<SampleCells> PretrainedBackbone::cells(const Batch& batch, const torch::Tensor& columns) const {
  const auto counts = columns.ge(0).sum(1).cpu().contiguous();
  std::vector<SampleCells> out;
  int64_t image = 0;
  for (int64_t b = 0; b < batch.size(); ++b) {
    const int64_t tokens = counts.data_ptr<int64_t>()[b];
    SampleCells sample;
    for (int64_t first = 0; first < tokens;) {
      auto picture = picture_cells(batch, image++);
      check(first + picture.tokens <= tokens, "a sample has fewer visual tokens than its pictures' grids");
      picture.cells.first += first;
      first += picture.tokens;
      sample.push_back(std::move(picture.cells));
    }
    out.push_back(std::move(sample));
  }
  return out;
}

std::vector<AdapterSite> PretrainedBackbone::all_sites() {
  auto out = text_.sites(text_prefix());
  for (auto& site : vision_sites()) out.push_back(site);
  return out;
}

std::string PretrainedBackbone::current_name(const std::string& module) const {
  return renamed(module, renames_);
}

}  // namespace asr
