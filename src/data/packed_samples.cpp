#include "data/packed_samples.h"

#include <algorithm>
#include <deque>
#include <map>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/random.h"
#include "data/augmentation.h"
#include "data/prefetched.h"
#include "io/png.h"
#include "io/resample.h"

namespace asr {
namespace {

// What a picture's reader says becomes the error that a trainer saves for.
template <class Make>
auto readable(const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    throw UnreadableSample(error);
  }
}

// Which part of a union a row is in, and where.
template <class Part>
std::pair<const Part*, int64_t> place_in(const std::vector<std::pair<Part, int64_t>>& parts, int64_t row) {
  size_t i = 0;
  while (row >= parts[i].second) row -= parts[i++].second;
  return {&parts[i].first, row};
}

}  // namespace

PackedSamples::PackedSamples(std::vector<SampleInfo> info, PictureSource source, const Backbone& model,
                             const QuestionAnalyser* analyser)
    : SampleSet(model, analyser), source_(std::move(source)), prefetched_(std::make_shared<Prefetched>()) {
  info_ = std::move(info);
}

std::shared_ptr<PackedSamples> packed_samples(int64_t count, const std::function<StreamSample(int64_t)>& text,
                                              PictureSource source, const Backbone& model,
                                              const QuestionAnalyser* analyser) {
  check(count > 0, "a task without samples cannot be packed");
  std::vector<SampleInfo> info;
  for (int64_t i = 0; i < count; ++i) info.push_back(info_of(text(i)));
  return std::make_shared<PackedSamples>(std::move(info), std::move(source), model, analyser);
}

Batch PackedSamples::pack(const std::vector<const Image8*>& pictures, const std::vector<SampleInfo>& info) const {
  std::vector<PackItem> items;
  for (size_t i = 0; i < info.size(); ++i) {
    const auto& text = info[i];
    PackItem item;
    item.id = text.id;
    item.question = text.question;
    item.answer = text.answer;
    item.instruction = prompt == PromptStyle::instruction;
    if (!pictures[i]->rgb.empty()) item.images.push_back(pictures[i]);
    if (analyser_)
      item.functional = [this, &text](const std::vector<Token>& tokens) {
        return analyser_->functional(text.question, tokens);
      };
    items.push_back(std::move(item));
  }
  return model_->pack(items);
}

Batch PackedSamples::pack_rows(const std::vector<int64_t>& index, std::optional<uint64_t> augment) const {
  std::map<std::string, const Image8*> known;
  std::deque<Image8> read;  // whose places stay
  std::vector<const Image8*> pictures;
  std::vector<SampleInfo> texts;
  for (const int64_t i : index) {
    texts.push_back(info(i));
    auto& place = known[augment ? std::to_string(i) : picture_key(i)];
    if (!place) {
      auto image = picture(i);
      if (augment && !image.rgb.empty())
        image = augmented(std::move(image), allowed_augmentation(info(i).question, info(i).answer),
                          Random({*augment, static_cast<uint64_t>(i)}).next());
      place = &read.emplace_back(std::move(image));
    }
    pictures.push_back(place);
  }
  return pack(pictures, texts);
}

std::vector<int64_t> PackedSamples::answering_order() const {
  struct Asked {
    size_t longest = 0;
    int64_t first = 0;
    std::vector<int64_t> rows;
  };
  std::map<std::string, size_t> number;
  std::vector<Asked> pictures;
  const auto length = [&](int64_t row) { return info(row).question.size(); };
  for (int64_t row = 0; row < size(); ++row) {
    const auto place = number.emplace(picture_key(row), pictures.size()).first->second;
    if (place == pictures.size()) pictures.push_back({0, row, {}});
    auto& asked = pictures[place];
    asked.longest = std::max(asked.longest, length(row));
    asked.rows.push_back(row);
  }
  std::sort(pictures.begin(), pictures.end(), [](const Asked& a, const Asked& b) {
    return std::make_pair(a.longest, a.first) < std::make_pair(b.longest, b.first);
  });
  std::vector<int64_t> out;
  for (auto& asked : pictures) {
    std::stable_sort(asked.rows.begin(), asked.rows.end(), [&](int64_t a, int64_t b) { return length(a) < length(b); });
    out.insert(out.end(), asked.rows.begin(), asked.rows.end());
  }
  return out;
}

void PackedSamples::prefetch(const std::vector<int64_t>& index, std::optional<uint64_t> augment) const {
  prefetched_->start({index, augment}, [this, index, augment] { return pack_rows(index, augment); });
}

Batch PackedSamples::input_rows(const std::vector<int64_t>& index, std::optional<uint64_t> augment) const {
  const auto batch = readable([&] {
    auto ready = prefetched_->take({index, augment});
    return ready ? std::move(*ready) : pack_rows(index, augment);
  });
  return to_device(batch, model_->device());
}

Batch PackedSamples::composed_input(const std::vector<ComposedRow>& rows, const std::vector<SampleInfo>& info) const {
  const auto batch = readable([&] {
    std::deque<Image8> made;
    std::vector<const Image8*> pictures;
    for (const auto& row : rows) pictures.push_back(&made.emplace_back(composed_picture(row)));
    return pack(pictures, info);
  });
  return to_device(batch, model_->device());
}

// The file as it is, where it is an image: a JPEG decoded and written again would be many times as large.
std::string PackedSamples::picture_bytes(int64_t i) const {
  return readable([&]() -> std::string {
    const auto file = picture_file(i);
    if (!file.path.empty() && image_header_problem(file.path).empty()) return read_file(file.path);
    const auto image = picture(i);
    if (image.rgb.empty()) return "";
    return encode_png(image.rgb.data(), static_cast<int>(image.width), static_cast<int>(image.height));
  });
}

Image8 PackedSamples::shown_picture(int64_t i) const {
  constexpr int64_t kSide = 224;
  return resize(picture(i), kSide, kSide, ResampleFilter::Bilinear);
}

std::shared_ptr<SampleSet> PackedSamples::subset(const std::vector<int64_t>& index) const {
  PictureSource source;
  source.picture = [from = source_.picture, index](int64_t i) { return from(index[static_cast<size_t>(i)]); };
  if (source_.file)
    source.file = [from = source_.file, index](int64_t i) { return from(index[static_cast<size_t>(i)]); };
  auto out = std::make_shared<PackedSamples>(std::vector<SampleInfo>(), std::move(source), *model_, analyser_);
  out->take_rows(*this, index);
  return out;
}

std::shared_ptr<SampleSet> PackedSamples::made_of(std::vector<SampleInfo> info,
                                                  std::function<Image8(int64_t)> picture) const {
  auto out = std::make_shared<PackedSamples>(std::move(info), PictureSource{std::move(picture)}, *model_, analyser_);
  out->take_settings(*this);
  return out;
}

std::shared_ptr<SampleSet> PackedSamples::joined(const std::vector<const SampleSet*>& sets) const {
  std::vector<std::pair<PictureSource, int64_t>> parts;
  for (const auto* set : sets) {
    const auto* part = dynamic_cast<const PackedSamples*>(set);
    check(part, "samples of different kinds cannot be joined");
    parts.emplace_back(part->source_, part->size());
  }
  PictureSource source;
  source.picture = [parts](int64_t i) {
    const auto [part, row] = place_in(parts, i);
    return part->picture(row);
  };
  source.file = [parts](int64_t i) {
    const auto [part, row] = place_in(parts, i);
    return part->file ? part->file(row) : PictureFile{};
  };
  auto out = std::make_shared<PackedSamples>(std::vector<SampleInfo>(), std::move(source), *model_, analyser_);
  out->take_union(sets);
  return out;
}

}  // namespace asr
