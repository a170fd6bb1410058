// Samples whose batches the model packs itself: pictures are read when they are needed, ahead of time on threads of
// their own, so that memory stays bounded by a few batches.
#include <future>
#include <map>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/random.h"
#include "data/augmentation.h"
#include "data/sample_set.h"

namespace asr {

// Batches under way, by their rows.
class Prefetched {
 public:
  using Key = std::pair<std::vector<int64_t>, std::optional<uint64_t>>;
  template <class Make>
  void start(const Key& rows, Make make) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!batches_.count(rows)) batches_.emplace(rows, std::async(std::launch::async, std::move(make)));
  }
  // The batch, or nothing where it was never started. What went wrong while packing is thrown here.
  std::optional<Batch> take(const Key& rows) {
    std::future<Batch> found;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const auto place = batches_.find(rows);
      if (place == batches_.end()) return std::nullopt;
      found = std::move(place->second);
      batches_.erase(place);
    }
    return found.get();
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::future<Batch>> batches_;
};

namespace {

Batch pack_rows(const SampleSet& set, const std::vector<int64_t>& index, std::optional<uint64_t> augment) {
  std::vector<Image8> pictures;
  std::vector<PackItem> items;
  pictures.reserve(index.size());
  for (const int64_t i : index) {
    const auto& text = set.texts[static_cast<size_t>(i)];
    pictures.push_back(set.picture(i));
    if (augment && !pictures.back().rgb.empty())
      pictures.back() = augmented(std::move(pictures.back()), allowed_augmentation(text.question, text.answer),
                                  Random({*augment, static_cast<uint64_t>(i)}).next());
    PackItem item;
    item.id = text.id, item.question = text.question, item.answer = text.answer;
    item.instruction = set.prompt == PromptStyle::instruction;
    if (!pictures.back().rgb.empty()) item.images.push_back(&pictures.back());
    if (set.analyser)
      item.functional = [&](const std::vector<Token>& tokens) {
        return set.analyser->functional(text.question, tokens);
      };
    items.push_back(std::move(item));
  }
  return set.packer->pack(items);
}

Batch read_rows(const SampleSet& set, const std::vector<int64_t>& index, std::optional<uint64_t> augment) {
  try {
    auto ready = set.prefetched ? set.prefetched->take({index, augment}) : std::nullopt;
    return ready ? std::move(*ready) : pack_rows(set, index, augment);
  } catch (const Error& error) {
    throw UnreadableSample(error);
  }
}

}  // namespace

Image8 SampleSet::picture(int64_t i) const {
  if (!image_bytes.defined()) return read_picture(i);
  const auto* sizes = image_sizes.data_ptr<int64_t>();
  int64_t begin = 0;
  for (int64_t k = 0; k < i; ++k) begin += sizes[2 * k] * sizes[2 * k + 1] * 3;
  Image8 out{sizes[2 * i], sizes[2 * i + 1], {}};
  const auto* bytes = image_bytes.data_ptr<uint8_t>() + begin;
  out.rgb.assign(bytes, bytes + out.height * out.width * 3);
  return out;
}

void SampleSet::prefetch(const std::vector<int64_t>& index, std::optional<uint64_t> augment) const {
  if (packer && prefetched)
    prefetched->start({index, augment}, [this, index, augment] { return pack_rows(*this, index, augment); });
}

SampleSet packed_samples(int64_t count, const std::function<StreamSample(int64_t)>& text,
                         std::function<Image8(int64_t)> picture, const Backbone& model,
                         const QuestionAnalyser* analyser) {
  check(count > 0, "a task without samples cannot be packed");
  SampleSet set;
  set.packer = &model, set.analyser = analyser, set.read_picture = std::move(picture);
  set.prefetched = std::make_shared<Prefetched>();
  for (int64_t i = 0; i < count; ++i) {
    auto s = text(i);
    check(!s.question.empty(), s.id, ": the question is empty");
    check(!s.answer.empty(), s.id, ": the answer is empty");
    SampleInfo kept;
    kept.id = std::move(s.id), kept.question = std::move(s.question), kept.answer = std::move(s.answer);
    kept.skill = std::move(s.skill), kept.references = std::move(s.references);
    kept.type = std::move(s.type), kept.part = std::move(s.part);
    set.texts.push_back(std::move(kept));
  }
  return set;
}

Batch packed_rows(const SampleSet& set, const std::vector<int64_t>& index, std::optional<uint64_t> augment) {
  return to_device(read_rows(set, index, augment), set.packer->device());
}

SampleSet packed_subset(const SampleSet& set, const std::vector<int64_t>& index) {
  SampleSet out;
  out.packer = set.packer, out.analyser = set.analyser, out.answer_tokens = set.answer_tokens;
  out.prompt = set.prompt;
  std::vector<torch::Tensor> bytes;
  out.image_sizes = at::empty({static_cast<int64_t>(index.size()), 2}, at::kLong);
  for (size_t k = 0; k < index.size(); ++k) {
    const auto image = set.picture(index[k]);
    out.image_sizes.data_ptr<int64_t>()[2 * k] = image.height;
    out.image_sizes.data_ptr<int64_t>()[2 * k + 1] = image.width;
    auto copy = at::empty({static_cast<int64_t>(image.rgb.size())}, at::kByte);
    std::copy(image.rgb.begin(), image.rgb.end(), copy.data_ptr<uint8_t>());
    bytes.push_back(std::move(copy));
    out.texts.push_back(set.texts[static_cast<size_t>(index[k])]);
  }
  out.image_bytes = bytes.empty() ? at::empty({0}, at::kByte) : at::cat(bytes);
  if (set.posterior.defined())
    out.posterior = set.posterior.index_select(0, torch::tensor(index, at::kLong).to(set.posterior.device()));
  return out;
}

SampleSet packed_union(const std::vector<SampleSet>& sets) {
  SampleSet out;
  out.packer = sets[0].packer, out.analyser = sets[0].analyser, out.prompt = sets[0].prompt;
  auto parts = std::make_shared<std::vector<SampleSet>>(sets);
  const bool in_memory = sets[0].image_bytes.defined();
  std::vector<torch::Tensor> posterior, bytes, sizes;
  for (const auto& set : sets) {
    out.texts.insert(out.texts.end(), set.texts.begin(), set.texts.end());
    out.answer_tokens = std::max(out.answer_tokens, set.answer_tokens);
    if (set.posterior.defined()) posterior.push_back(set.posterior);
    if (in_memory) bytes.push_back(set.image_bytes), sizes.push_back(set.image_sizes);
  }
  if (posterior.size() == sets.size()) out.posterior = at::cat(posterior);
  if (in_memory) {
    out.image_bytes = at::cat(bytes), out.image_sizes = at::cat(sizes);
    return out;
  }
  out.prefetched = std::make_shared<Prefetched>();
  out.read_picture = [parts](int64_t i) {
    size_t part = 0;
    while (i >= (*parts)[part].size()) i -= (*parts)[part++].size();
    return (*parts)[part].picture(i);
  };
  return out;
}

}  // namespace asr
