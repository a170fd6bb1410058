#include "methods/terms/external_encoder.h"

#include "base/error.h"
#include "base/folders.h"

namespace asr {
namespace {

// Where the folder is not there yet (asr doctor --assume): CLIP ViT-L/14 at 336 pixels, which the papers take.
constexpr double kUsualEncoderBytes = 4 * 427.9e6;
constexpr double kUsualWidth = 768;

}  // namespace

void ExternalEncoder::visit(OptionVisitor& visitor) {
  visitor("encoder", folder_, "folder of the CLIP model whose pictures and texts are compared; empty: the backbone's");
}

void ExternalEncoder::prepare(const Backbone& model) {
  if (folder_.empty()) return;
  encoder_ = std::make_unique<ClipEncoder>(folder_);
  encoder_->to(model.device());
}

std::vector<std::string> ExternalEncoder::folders() const {
  return folder_.empty() ? std::vector<std::string>() : std::vector{folder_};
}

FrozenEmbeddings ExternalEncoder::of(const Backbone& model, const SampleBatch& batch) {
  return folder_.empty() ? frozen_embeddings(model, batch) : encoded(model, batch);
}

FrozenEmbeddings ExternalEncoder::encoded(const Backbone& model, const SampleBatch& batch) {
  check(encoder_ != nullptr && batch.pictures, "the encoder ", folder_,
        " is asked for samples whose pictures cannot be read again; leave the option `encoder` empty here");
  std::vector<std::string> pictures, questions;
  for (int64_t i = 0; i < batch.size(); ++i) {
    pictures.push_back(batch.pictures.key(i));
    questions.push_back(batch.info[static_cast<size_t>(i)].question);
  }
  const auto image = pictures_.get(pictures, [&](const std::vector<int64_t>& missing) {
    std::vector<Image8> read;
    for (const int64_t i : missing) read.push_back(batch.pictures.read(i));
    return encoder_->pictures(read);
  });
  const auto text = texts_.get(questions, [&](const std::vector<int64_t>& missing) {
    std::vector<std::string> asked;
    for (const int64_t i : missing) asked.push_back(questions[static_cast<size_t>(i)]);
    return encoder_->texts(asked, form_);
  });
  return {image.to(model.device()), text.to(model.device())};
}

void ExternalEncoder::state(StateVisitor& visitor) {
  if (folder_.empty()) return;
  const auto now = encoder_ ? encoder_->description() : std::string();
  auto stored = now;
  visitor.text("encoder", StateKind::statistics, stored);
  check(now.empty() || stored.empty() || stored == now, folder_,
        ": is not the encoder that this was trained with; what is kept says nothing of its vectors. Give that folder");
}

void ExternalEncoder::add_kept(std::vector<StateShape>& shapes) const {
  constexpr int64_t kHashLength = 64;
  if (!folder_.empty()) shapes.push_back({"encoder", StateKind::statistics, {kHashLength}});
}

int64_t ExternalEncoder::widest(const StateSizes& sizes) const {
  return folder_.empty() ? sizes.widest_site : kWidestClip;
}

void ExternalEncoder::add_costs(const CostContext& run, MethodCosts& costs) const {
  if (folder_.empty()) return;
  double weights = kUsualEncoderBytes, numbers = 2 * kUsualWidth;
  if (path_exists(folder_)) {
    const auto sizes = clip_sizes(folder_);
    weights = sizes.weight_bytes;
    numbers = static_cast<double>(sizes.picture_width + sizes.text_width(form_));
  }
  costs.device_bytes += weights;
  costs.host_bytes += 4 * numbers * run.samples();
}

}  // namespace asr
