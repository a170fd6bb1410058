#include "data/sample_batch.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "io/word_tokenizer.h"

namespace asr {
namespace {

torch::Tensor pad_text(const torch::Tensor& t, int64_t width, int64_t fill) {
  return t.size(1) == width ? t : at::constant_pad_nd(t, {0, width - t.size(1)}, fill);
}

// `first` rows are of `a`.
BatchPictures joined_pictures(const BatchPictures& a, const BatchPictures& b, int64_t first) {
  if (!a || !b) return {};
  BatchPictures out;
  out.key = [a, b, first](int64_t row) { return row < first ? a.key(row) : b.key(row - first); };
  out.read = [a, b, first](int64_t row) { return row < first ? a.read(row) : b.read(row - first); };
  return out;
}

}  // namespace

std::vector<std::pair<std::string, double>> answer_scores(const SampleInfo& info) {
  if (info.references.size() <= 1) return {{info.answer, 1}};
  std::vector<std::pair<std::string, double>> out;
  for (const auto& reference : info.references) {
    const auto same = [&](const auto& entry) { return entry.first == reference; };
    auto place = std::find_if(out.begin(), out.end(), same);
    if (place == out.end()) place = out.insert(out.end(), {reference, 0});
    place->second = std::min(1.0, place->second + 1.0 / 3);
  }
  return out;
}

torch::Tensor SampleBatch::of_stage(int stage) const {
  std::vector<float> own;
  for (const auto& sample : info) own.push_back(sample.stage == 0 || sample.stage == stage ? 1.0F : 0.0F);
  return torch::tensor(own);
}

std::vector<int64_t> same_pictures(const SampleBatch& batch) {
  std::vector<int64_t> out;
  if (!batch.pictures.key) return out;
  std::map<std::string, int64_t> first;
  for (int64_t row = 0; row < batch.size(); ++row)
    out.push_back(first.emplace(batch.pictures.key(row), row).first->second);
  return out;
}

Batch padded(Batch batch, int64_t width) {
  batch.ids = pad_text(batch.ids, width, WordTokenizer::kPadding);
  batch.mask = pad_text(batch.mask, width, 0);
  batch.labels = pad_text(batch.labels, width, -1);
  batch.question = pad_text(batch.question, width, 0);
  if (batch.functional.defined()) batch.functional = pad_text(batch.functional, width, 0);
  return batch;
}

Batch join(const Batch& a, const Batch& b) {
  const int64_t longest = std::max(a.ids.size(1), b.ids.size(1));
  const auto both = [&](const torch::Tensor& x, const torch::Tensor& y, int64_t fill) {
    return at::cat({pad_text(x, longest, fill), pad_text(y, longest, fill)});
  };
  Batch out;
  check(a.features.defined() == b.features.defined(), "batches of pixels and of features cannot be joined");
  if (a.features.defined())
    out.features = at::cat({a.features, b.features});
  else
    out.pixels = at::cat({a.pixels, b.pixels});
  const auto below = [](const torch::Tensor& x, const torch::Tensor& y) {
    return x.defined() && y.defined() ? at::cat({x, y}) : x.defined() ? x : y;
  };
  out.image_grid = below(a.image_grid, b.image_grid);
  out.tile_grid = below(a.tile_grid, b.tile_grid);
  if (a.instruction.defined() && b.instruction.defined()) {
    const int64_t words = std::max(a.instruction.size(1), b.instruction.size(1));
    out.instruction = at::cat({pad_text(a.instruction, words, 0), pad_text(b.instruction, words, 0)});
    out.instruction_mask = at::cat({pad_text(a.instruction_mask, words, 0), pad_text(b.instruction_mask, words, 0)});
  }
  out.ids = both(a.ids, b.ids, WordTokenizer::kPadding);
  out.mask = both(a.mask, b.mask, 0);
  out.labels = both(a.labels, b.labels, -1);
  out.question = both(a.question, b.question, 0);
  if (a.functional.defined() && b.functional.defined()) out.functional = both(a.functional, b.functional, 0);
  const bool stretch = a.question_tokens >= 0 && b.question_tokens >= 0;
  out.question_tokens = stretch ? std::max(a.question_tokens, b.question_tokens) : -1;
  return out;
}

SampleBatch join(const SampleBatch& a, const SampleBatch& b) {
  const auto below = [](const torch::Tensor& x, const torch::Tensor& y) {
    return x.defined() && y.defined() ? at::cat({x, y}) : torch::Tensor();
  };
  SampleBatch out;
  out.input = join(a.input, b.input);
  out.info = a.info;
  out.info.insert(out.info.end(), b.info.begin(), b.info.end());
  out.posterior = below(a.posterior, b.posterior);
  out.reference_image = below(a.reference_image, b.reference_image);
  out.reference_text = below(a.reference_text, b.reference_text);
  out.augmentation = a.augmentation;
  out.pictures = joined_pictures(a.pictures, b.pictures, a.size());
  return out;
}

}  // namespace asr
