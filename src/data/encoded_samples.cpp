#include "data/encoded_samples.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/error.h"
#include "data/walk.h"
#include "io/png.h"
#include "io/resample.h"
#include "io/word_tokenizer.h"

namespace asr {
namespace {

// Without waiting for a GPU: it takes the numbers before the call returns, and uses them in the order of its stream.
torch::Tensor index_on(const std::vector<int64_t>& index, at::Device device) {
  return torch::tensor(index, at::kLong).to(device, /*non_blocking=*/true);
}

// Bytes [H][W][3] into [3, H, W]: the whole picture at the size that the backbone takes.
void copy_planes(Image8 image, int64_t side, uint8_t* out) {
  if (image.height != side || image.width != side) image = resize(image, side, side, ResampleFilter::Bilinear);
  const int64_t area = side * side;
  for (int64_t i = 0; i < area; ++i)
    for (int64_t c = 0; c < 3; ++c) out[c * area + i] = image.rgb[static_cast<size_t>(i * 3 + c)];
}

// Exceptions must not leave a parallel region; the first is kept.
class FirstError {
 public:
  template <class F>
  void guard(F&& f) {
    try {
      f();
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
};

struct EncodedText {
  std::vector<Token> question, answer;
  std::vector<bool> functional;
};

EncodedText encoded_text(const SampleInfo& info, const Tokenizer& tokenizer, const QuestionAnalyser* analyser) {
  EncodedText out;
  out.question = tokenizer.encode(info.question);
  out.answer = tokenizer.encode(info.answer);
  check(!out.question.empty(), info.id, ": the question is empty");
  check(!out.answer.empty(), info.id, ": the answer is empty");
  out.functional =
      analyser ? analyser->functional(info.question, out.question) : std::vector<bool>(out.question.size(), true);
  return out;
}

TextTensors text_tensors(const std::vector<EncodedText>& texts) {
  TextTensors out;
  int64_t longest = 0;
  for (const auto& text : texts) {
    out.length.push_back(static_cast<int64_t>(text.question.size() + text.answer.size()) + 2);  // <answer>, <end>
    out.asked.push_back(static_cast<int64_t>(text.question.size()));
    longest = std::max(longest, out.length.back());
  }
  const auto count = static_cast<int64_t>(texts.size());
  out.ids = at::full({count, longest}, WordTokenizer::kPadding, at::kLong);
  out.labels = at::full({count, longest}, -1, at::kLong);
  out.mask = at::zeros({count, longest}, at::kBool);
  out.question = at::zeros_like(out.mask);
  out.functional = at::zeros_like(out.mask);
  for (int64_t i = 0; i < count; ++i) {
    const auto& text = texts[static_cast<size_t>(i)];
    int64_t* ids = out.ids.data_ptr<int64_t>() + i * longest;
    int64_t* labels = out.labels.data_ptr<int64_t>() + i * longest;
    bool* asked = out.question.data_ptr<bool>() + i * longest;
    bool* functional = out.functional.data_ptr<bool>() + i * longest;
    std::fill_n(out.mask.data_ptr<bool>() + i * longest, out.length[static_cast<size_t>(i)], true);
    int64_t place = 0;
    for (size_t j = 0; j < text.question.size(); ++j) {
      ids[place] = text.question[j].id;
      asked[place] = true;
      functional[place++] = text.functional[j];
    }
    ids[place++] = WordTokenizer::kAnswer;
    for (const auto& token : text.answer) {
      labels[place] = token.id;
      ids[place++] = token.id;
    }
    labels[place] = ids[place] = WordTokenizer::kEnd;
  }
  return out;
}

torch::Tensor widened(const torch::Tensor& t, int64_t width, int64_t fill) {
  return t.size(1) == width ? t : at::constant_pad_nd(t, {0, width - t.size(1)}, fill);
}

TextTensors text_rows(const TextTensors& all, const std::vector<int64_t>& index) {
  const auto rows = index_on(index, all.ids.device());
  TextTensors out;
  for (auto field :
       {&TextTensors::ids, &TextTensors::labels, &TextTensors::mask, &TextTensors::question, &TextTensors::functional})
    out.*field = (all.*field).index_select(0, rows);
  for (const int64_t i : index) {
    out.length.push_back(all.length[static_cast<size_t>(i)]);
    out.asked.push_back(all.asked[static_cast<size_t>(i)]);
  }
  return out;
}

// Rows of it, cut to the longest among them; `rows` is the index where the texts are.
void put_text(const TextTensors& texts, const std::vector<int64_t>& index, const torch::Tensor& rows, Batch& batch) {
  int64_t longest = 0;
  batch.question_tokens = 0;
  for (const int64_t i : index) {
    longest = std::max(longest, texts.length[static_cast<size_t>(i)]);
    batch.question_tokens = std::max(batch.question_tokens, texts.asked[static_cast<size_t>(i)]);
  }
  const auto cut = [&](const torch::Tensor& t) { return t.narrow(1, 0, longest).index_select(0, rows); };
  batch.ids = cut(texts.ids);
  batch.mask = cut(texts.mask);
  batch.labels = cut(texts.labels);
  batch.question = cut(texts.question);
  batch.functional = cut(texts.functional);
}

torch::Tensor as_input(const torch::Tensor& bytes) {
  return bytes.to(at::kFloat).div_(255);
}

}  // namespace

void TextTensors::to(at::Device device) {
  for (auto* t : {&ids, &labels, &mask, &question, &functional}) *t = t->to(device);
}

EncodedSamples encode_samples(const SampleSource& source, const Backbone& model, const QuestionAnalyser* analyser,
                              const Team* team) {
  EncodedSamples set(model, analyser);
  set.encode(source, team);
  if (analyser) set.posterior = question_posteriors(set.info_, *analyser, team).to(model.device());
  return set;
}

void EncodedSamples::encode(const SampleSource& source, const Team* team) {
  const int64_t count = source.count;
  check(count > 0, "a task without samples cannot be encoded");
  const int64_t side = model_->image_size();
  const bool seen = source.pixels.defined();
  info_.resize(static_cast<size_t>(count));
  pixels_ = seen ? source.pixels : at::empty({count, 3, side, side}, at::kByte);
  check(pixels_.sizes() == at::IntArrayRef({count, 3, side, side}) && pixels_.scalar_type() == at::kByte,
        "pictures of ", count, " samples must be bytes [", count, ", 3, ", side, ", ", side, "]; they are ",
        pixels_.sizes());
  std::vector<EncodedText> texts(static_cast<size_t>(count));
  const auto encode_one = [&](int64_t i) {
    auto s = source.sample(i);
    if (!seen)
      copy_planes({s.height, s.width, std::move(s.pixels)}, side, pixels_.data_ptr<uint8_t>() + i * 3 * side * side);
    auto& text = info_[static_cast<size_t>(i)];
    text = info_of(std::move(s));
    texts[static_cast<size_t>(i)] = encoded_text(text, model_->tokenizer(), analyser_);
  };
  const auto encode_rows = [&](Part rows, Part) {
    FirstError error;
    at::parallel_for(rows.begin, rows.end, 16, [&](int64_t begin, int64_t end) {
      error.guard([&] {
        for (int64_t i = begin; i < end; ++i) encode_one(i);
      });
    });
    error.rethrow();
  };
  constexpr int64_t kBlock = 1024;
  if (team)
    each_block({"read samples", count, kBlock, false}, *team, encode_rows);
  else
    encode_rows({0, count}, {});
  texts_ = text_tensors(texts);
  pixels_ = pixels_.to(model_->device());
  texts_.to(model_->device());
}

Image8 EncodedSamples::picture(int64_t i) const {
  const auto pixels = pixels_[i].permute({1, 2, 0}).cpu().contiguous();  // [H, W, 3]
  const auto* bytes = pixels.data_ptr<uint8_t>();
  return {pixels.size(0), pixels.size(1), {bytes, bytes + pixels.numel()}};
}

std::string EncodedSamples::picture_bytes(int64_t i) const {
  const auto image = picture(i);
  return encode_png(image.rgb.data(), static_cast<int>(image.width), static_cast<int>(image.height));
}

Batch EncodedSamples::input_rows(const std::vector<int64_t>& index, std::optional<uint64_t>) const {
  Batch batch;
  const auto rows = index_on(index, pixels_.device());
  if (uses_features())
    batch.features = features_.index_select(0, rows);
  else
    batch.pixels = as_input(pixels_.index_select(0, rows));
  put_text(texts_, index, rows, batch);
  return batch;
}

Batch EncodedSamples::composed_input(const std::vector<ComposedRow>& rows, const std::vector<SampleInfo>& info) const {
  const auto blank = torch::zeros_like(pixels_.narrow(0, 0, 1));
  torch::Tensor seen_blank;
  std::vector<torch::Tensor> pictures;
  for (const auto& row : rows) {
    const auto& all = uses_features() ? features_ : pixels_;
    if (row.picture != kBlankPicture) {
      pictures.push_back(all.narrow(0, row.picture, 1));
      continue;
    }
    if (uses_features() && !seen_blank.defined()) {
      at::NoGradGuard no_grad;
      seen_blank = model_->encode_images(as_input(blank));
    }
    pictures.push_back(uses_features() ? seen_blank : blank);
  }
  std::vector<EncodedText> texts;
  for (const auto& text : info) texts.push_back(encoded_text(text, model_->tokenizer(), analyser_));
  auto encoded = text_tensors(texts);
  encoded.to(pixels_.device());
  Batch batch;
  if (uses_features())
    batch.features = at::cat(pictures);
  else
    batch.pixels = as_input(at::cat(pictures));
  const auto all = range(0, static_cast<int64_t>(rows.size()));
  put_text(encoded, all, index_on(all, encoded.ids.device()), batch);
  return batch;
}

std::function<torch::Tensor()> EncodedSamples::pixels_of(const std::vector<int64_t>& index) const {
  return [all = pixels_, index] { return as_input(all.index_select(0, index_on(index, all.device()))); };
}

void EncodedSamples::keep_features(const Team& team) {
  if (features_.defined() || model_->vision_adapted()) return;
  at::NoGradGuard no_grad;
  std::vector<torch::Tensor> blocks;
  each_block({cat("see pictures of ", name), size(), pass_samples(), false}, team, [&](Part rows, Part) {
    blocks.push_back(model_->encode_images(as_input(pixels_.narrow(0, rows.begin, rows.size()))));
  });
  features_ = at::cat(blocks);
}

void EncodedSamples::take_features(const torch::Tensor& features) {
  check(features.size(0) == size(), name, ": ", features.size(0), " features for ", size(), " samples");
  features_ = features.to(model_->device());
}

std::shared_ptr<SampleSet> EncodedSamples::subset(const std::vector<int64_t>& index) const {
  auto out = std::make_shared<EncodedSamples>(*model_, analyser_);
  out->take_rows(*this, index);
  out->pixels_ = pixels_.index_select(0, index_on(index, pixels_.device()));
  if (features_.defined()) out->features_ = features_.index_select(0, index_on(index, features_.device()));
  out->texts_ = text_rows(texts_, index);
  if (file) out->file = [from = file, index](int64_t i) { return from(index[static_cast<size_t>(i)]); };
  return out;
}

std::shared_ptr<SampleSet> EncodedSamples::made_of(std::vector<SampleInfo> info,
                                                   std::function<Image8(int64_t)> picture) const {
  const auto sample = [&](int64_t i) {
    StreamSample out;
    auto image = picture(i);
    out.height = image.height;
    out.width = image.width;
    out.pixels = std::move(image.rgb);
    const auto& text = info[static_cast<size_t>(i)];
    out.id = text.id;
    out.question = text.question;
    out.answer = text.answer;
    return out;
  };
  auto out = std::make_shared<EncodedSamples>(*model_, analyser_);
  out->encode({static_cast<int64_t>(info.size()), sample}, nullptr);
  out->take_settings(*this);
  out->info_ = std::move(info);
  return out;
}

std::shared_ptr<SampleSet> EncodedSamples::joined(const std::vector<const SampleSet*>& sets) const {
  auto out = std::make_shared<EncodedSamples>(*model_, analyser_);
  out->take_union(sets);
  std::vector<torch::Tensor> pixels, features, ids, labels, mask, question, functional;
  std::vector<const EncodedSamples*> parts;
  int64_t longest = 0;
  for (const auto* set : sets) {
    const auto* part = dynamic_cast<const EncodedSamples*>(set);
    check(part, "samples of different kinds cannot be joined");
    parts.push_back(part);
    longest = std::max(longest, part->texts_.ids.size(1));
  }
  auto& texts = out->texts_;
  for (const auto* part : parts) {
    const auto& from = part->texts_;
    pixels.push_back(part->pixels_);
    if (part->features_.defined()) features.push_back(part->features_);
    ids.push_back(widened(from.ids, longest, WordTokenizer::kPadding));
    labels.push_back(widened(from.labels, longest, -1));
    mask.push_back(widened(from.mask, longest, 0));
    question.push_back(widened(from.question, longest, 0));
    functional.push_back(widened(from.functional, longest, 0));
    texts.length.insert(texts.length.end(), from.length.begin(), from.length.end());
    texts.asked.insert(texts.asked.end(), from.asked.begin(), from.asked.end());
  }
  out->pixels_ = at::cat(pixels);
  if (features.size() == parts.size()) out->features_ = at::cat(features);
  texts.ids = at::cat(ids);
  texts.labels = at::cat(labels);
  texts.mask = at::cat(mask);
  texts.question = at::cat(question);
  texts.functional = at::cat(functional);
  return out;
}

}  // namespace asr
