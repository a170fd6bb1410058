#include "data/sample_set.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/json.h"
#include "data/long_pass.h"
#include "io/resample.h"
#include "io/word_tokenizer.h"

namespace asr {
namespace {

torch::Tensor index_tensor(const std::vector<int64_t>& index, at::Device device) {
  return torch::tensor(index, at::kLong).to(device);
}

// Bytes [H][W][3] into [3, H, W].
void copy_planes(const StreamSample& sample, uint8_t* out) {
  const int64_t area = sample.height * sample.width;
  for (int64_t i = 0; i < area; ++i)
    for (int64_t c = 0; c < 3; ++c) out[c * area + i] = sample.pixels[static_cast<size_t>(i * 3 + c)];
}

// The whole picture at the size that the backbone takes.
void fit_picture(StreamSample& sample, int64_t side) {
  if (sample.height == side && sample.width == side) return;
  Image8 image{sample.height, sample.width, std::move(sample.pixels)};
  image = resize(image, side, side, ResampleFilter::Bilinear);
  sample.height = sample.width = side, sample.pixels = std::move(image.rgb);
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

}  // namespace

std::vector<int64_t> range(int64_t begin, int64_t end) {
  std::vector<int64_t> out(static_cast<size_t>(std::max<int64_t>(0, end - begin)));
  std::iota(out.begin(), out.end(), begin);
  return out;
}

torch::Tensor question_posteriors(const std::vector<SampleInfo>& texts, const QuestionAnalyser& analyser,
                                  const Team* team) {
  const auto count = static_cast<int64_t>(texts.size());
  std::vector<torch::Tensor> parts;
  const auto ask = [&](Part rows, Part) {
    std::vector<std::string> questions, skills;
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      questions.push_back(texts[static_cast<size_t>(i)].question);
      skills.push_back(texts[static_cast<size_t>(i)].skill);
    }
    parts.push_back(analyser.posterior(questions, skills));
  };
  constexpr int64_t kBlock = 4096;  // whole batches of the parser, so that blocks change no bit
  if (team)
    each_block({"skills of questions", count, kBlock, false}, *team, ask);
  else
    ask({0, count}, {});
  return parts.size() == 1 ? parts[0] : at::cat(parts);
}

SampleSet encode_samples(int64_t count, const std::function<StreamSample(int64_t)>& sample, const Backbone& model,
                         const QuestionAnalyser* analyser, const Team* team) {
  check(count > 0, "a task without samples cannot be encoded");
  const auto& tokenizer = model.tokenizer();
  const int64_t side = model.image_size();
  SampleSet set;
  set.texts.resize(static_cast<size_t>(count));
  std::vector<EncodedText> encoded(static_cast<size_t>(count));
  set.pixels = at::empty({count, 3, side, side}, at::kByte);
  const auto encode = [&](int64_t i) {
    auto s = sample(i);
    fit_picture(s, side);
    copy_planes(s, set.pixels.data_ptr<uint8_t>() + i * 3 * side * side);
    auto& text = encoded[static_cast<size_t>(i)];
    text.question = tokenizer.encode(s.question), text.answer = tokenizer.encode(s.answer);
    check(!text.question.empty(), s.id, ": the question is empty");
    check(!text.answer.empty(), s.id, ": the answer is empty");
    text.functional =
        analyser ? analyser->functional(s.question, text.question) : std::vector<bool>(text.question.size(), true);
    set.texts[static_cast<size_t>(i)] = {std::move(s.id),    std::move(s.question),   std::move(s.answer),
                                         std::move(s.skill), std::move(s.references), std::move(s.type),
                                         std::move(s.part)};
  };
  const auto encode_rows = [&](Part rows, Part) {
    FirstError error;
    at::parallel_for(rows.begin, rows.end, 16, [&](int64_t begin, int64_t end) {
      error.guard([&] {
        for (int64_t i = begin; i < end; ++i) encode(i);
      });
    });
    error.rethrow();
  };
  constexpr int64_t kBlock = 1024;
  if (team)
    each_block({"read samples", count, kBlock, false}, *team, encode_rows);
  else
    encode_rows({0, count}, {});

  int64_t longest = 0;
  for (const auto& text : encoded) {
    set.length.push_back(static_cast<int64_t>(text.question.size() + text.answer.size()) + 2);  // <answer>, <end>
    set.asked.push_back(static_cast<int64_t>(text.question.size()));
    longest = std::max(longest, set.length.back());
  }
  set.ids = at::full({count, longest}, WordTokenizer::kPadding, at::kLong);
  set.labels = at::full({count, longest}, -1, at::kLong);
  set.mask = at::zeros({count, longest}, at::kBool);
  set.question = at::zeros_like(set.mask), set.functional = at::zeros_like(set.mask);
  for (int64_t i = 0; i < count; ++i) {
    const auto& text = encoded[static_cast<size_t>(i)];
    int64_t* ids = set.ids.data_ptr<int64_t>() + i * longest;
    int64_t* labels = set.labels.data_ptr<int64_t>() + i * longest;
    bool* asked = set.question.data_ptr<bool>() + i * longest;
    bool* functional = set.functional.data_ptr<bool>() + i * longest;
    std::fill_n(set.mask.data_ptr<bool>() + i * longest, set.length[static_cast<size_t>(i)], true);
    int64_t at_token = 0;
    for (size_t j = 0; j < text.question.size(); ++j, ++at_token)
      ids[at_token] = text.question[j].id, asked[at_token] = true, functional[at_token] = text.functional[j];
    ids[at_token++] = WordTokenizer::kAnswer;
    for (const auto& token : text.answer) labels[at_token] = token.id, ids[at_token++] = token.id;
    ids[at_token] = labels[at_token] = WordTokenizer::kEnd;
  }
  if (analyser) set.posterior = question_posteriors(set.texts, *analyser, team);
  const auto device = model.device();
  for (auto* t : {&set.pixels, &set.ids, &set.labels, &set.mask, &set.question, &set.functional, &set.posterior})
    if (t->defined()) *t = t->to(device);
  return set;
}

void cache_features(SampleSet& set, const Backbone& model, const Team& team) {
  at::NoGradGuard no_grad;
  constexpr int64_t kBlock = 128;
  std::vector<torch::Tensor> blocks;
  each_block({cat("see pictures of ", set.name), set.size(), kBlock, false}, team, [&](Part rows, Part) {
    const auto bytes = set.pixels.narrow(0, rows.begin, rows.size());
    blocks.push_back(model.encode_images(bytes.to(at::kFloat).div_(255)));
  });
  set.features = at::cat(blocks);
}

void cache_reference(SampleSet& set, const Backbone& model, const Team& team) {
  at::NoGradGuard no_grad;
  const int64_t kBlock = set.packer ? 16 : 128;
  Want want;
  want.loss = false, want.pooled = true;
  std::vector<torch::Tensor> image, text;
  each_block({cat("reference embeddings of ", set.name), set.size(), kBlock}, team, [&](Part rows, Part) {
    const auto out = model.forward(set.rows(range(rows.begin, rows.end)).input, Pass{0, nullptr}, want);
    image.push_back(out.image), text.push_back(out.text);
  });
  // Those of a large model's whole stream would take gigabytes of its device.
  const auto all = [&](const std::vector<torch::Tensor>& blocks) {
    const auto rows =
        team.gather(blocks.empty() ? at::empty({0}, at::device(model.device()).dtype(at::kFloat)) : at::cat(blocks));
    return set.packer ? rows.cpu() : rows;
  };
  set.reference_image = all(image), set.reference_text = all(text);
}

void add_reference(SampleBatch& batch, const Backbone& model) {
  at::NoGradGuard no_grad;
  Want want;
  want.loss = false, want.pooled = true;
  const auto base = model.forward(batch.input, Pass{0, nullptr}, want);
  batch.reference_image = base.image, batch.reference_text = base.text;
}

Batch SampleSet::encoded_rows(const std::vector<int64_t>& index) const {
  const auto rows = index_tensor(index, ids.device());
  int64_t longest = 0;
  for (const int64_t i : index) longest = std::max(longest, length[static_cast<size_t>(i)]);
  const auto cut = [&](const torch::Tensor& t) { return t.narrow(1, 0, longest).index_select(0, rows); };
  Batch batch;
  if (features.defined())
    batch.features = features.index_select(0, rows);
  else
    batch.pixels = pixels.index_select(0, rows).to(at::kFloat).div_(255);
  batch.ids = cut(ids);
  batch.mask = cut(mask);
  batch.labels = cut(labels);
  batch.question = cut(question);
  batch.functional = functional.defined() ? cut(functional) : functional;
  batch.question_tokens = 0;
  for (const int64_t i : index) batch.question_tokens = std::max(batch.question_tokens, asked[static_cast<size_t>(i)]);
  return batch;
}

SampleBatch SampleSet::training_rows(const std::vector<int64_t>& index, std::optional<uint64_t> augment) const {
  SampleBatch batch;
  batch.input = packer ? packed_rows(*this, index, augment) : encoded_rows(index);
  const auto rows = index_tensor(index, at::kCPU);
  const auto whole = [&](const torch::Tensor& t) {
    return t.defined() ? t.index_select(0, rows.to(t.device())).to(batch.input.ids.device()) : t;
  };
  batch.posterior = whole(posterior);
  batch.reference_image = whole(reference_image);
  batch.reference_text = whole(reference_text);
  for (const int64_t i : index) batch.info.push_back(texts[static_cast<size_t>(i)]);
  batch.augmentation = augment;
  return batch;
}

namespace {

torch::Tensor pad_to(const torch::Tensor& t, int64_t width, int64_t fill) {
  return t.size(1) == width ? t : at::constant_pad_nd(t, {0, width - t.size(1)}, fill);
}

// Rows of several tensors below each other; undefined where any is.
torch::Tensor stack_rows(const std::vector<torch::Tensor>& parts) {
  for (const auto& part : parts)
    if (!part.defined()) return {};
  return at::cat(parts);
}

}  // namespace

SampleSet subset(const SampleSet& set, const std::vector<int64_t>& index) {
  if (set.packer) return packed_subset(set, index);
  const auto rows = index_tensor(index, set.ids.device());
  const auto pick = [&](const torch::Tensor& t) { return t.defined() ? t.index_select(0, rows) : t; };
  SampleSet out;
  out.pixels = pick(set.pixels), out.ids = pick(set.ids), out.labels = pick(set.labels), out.mask = pick(set.mask);
  out.question = pick(set.question), out.functional = pick(set.functional), out.posterior = pick(set.posterior);
  for (const int64_t i : index) {
    out.length.push_back(set.length[static_cast<size_t>(i)]);
    out.asked.push_back(set.asked[static_cast<size_t>(i)]);
    out.texts.push_back(set.texts[static_cast<size_t>(i)]);
  }
  out.answer_tokens = set.answer_tokens;
  return out;
}

SampleSet concatenate(const std::vector<SampleSet>& sets) {
  if (sets[0].packer) return packed_union(sets);
  int64_t longest = 0;
  for (const auto& set : sets) longest = std::max(longest, set.ids.size(1));
  SampleSet out;
  const auto padded = [&](torch::Tensor SampleSet::*field, int64_t fill) {
    std::vector<torch::Tensor> parts;
    for (const auto& set : sets) parts.push_back(pad_to(set.*field, longest, fill));
    return at::cat(parts);
  };
  const auto rows = [&](torch::Tensor SampleSet::*field) {
    std::vector<torch::Tensor> parts;
    for (const auto& set : sets) parts.push_back(set.*field);
    return stack_rows(parts);
  };
  out.pixels = rows(&SampleSet::pixels), out.features = rows(&SampleSet::features);
  out.ids = padded(&SampleSet::ids, WordTokenizer::kPadding), out.labels = padded(&SampleSet::labels, -1);
  out.mask = padded(&SampleSet::mask, 0), out.question = padded(&SampleSet::question, 0);
  out.functional = padded(&SampleSet::functional, 0), out.posterior = rows(&SampleSet::posterior);
  for (const auto& set : sets) {
    out.length.insert(out.length.end(), set.length.begin(), set.length.end());
    out.asked.insert(out.asked.end(), set.asked.begin(), set.asked.end());
    out.texts.insert(out.texts.end(), set.texts.begin(), set.texts.end());
    out.answer_tokens = std::max(out.answer_tokens, set.answer_tokens);
  }
  return out;
}

std::string texts_to_json(const std::vector<SampleInfo>& texts) {
  auto list = nlohmann::json::array();
  for (const auto& t : texts) list.push_back({t.id, t.question, t.answer, t.skill, t.references, t.type, t.part});
  return list.dump();
}

std::vector<SampleInfo> texts_from_json(const std::string& json) {
  const auto list = parse_json(json, "stored sample texts");
  check(list.is_array(), "stored sample texts are no list");
  std::vector<SampleInfo> out;
  for (const auto& t : list) {
    bool good = t.is_array() && t.size() == 7;
    for (size_t i = 0; i < 7 && good; ++i) good = i == 4 ? t[i].is_array() : t[i].is_string();
    check(good, "stored sample texts are damaged");
    for (const auto& reference : t[4]) check(reference.is_string(), "stored sample texts are damaged");
    out.push_back({t[0], t[1], t[2], t[3], t[4].get<std::vector<std::string>>(), t[5], t[6]});
  }
  return out;
}

std::vector<int64_t> lengths_of(const torch::Tensor& mask) {
  if (!mask.defined()) return {};
  const auto sums = mask.sum(1).to(at::kCPU).contiguous();
  return {sums.data_ptr<int64_t>(), sums.data_ptr<int64_t>() + sums.numel()};
}

}  // namespace asr
