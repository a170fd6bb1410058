// Text and pictures as a batch of a Hugging Face model.
#include <algorithm>
#include <map>

#include "backbones/pretrained.h"
#include "base/error.h"
#include "io/resample.h"

namespace asr {
namespace {

// Where a picture that was processed lies.
struct ProcessedPlace {
  size_t values = 0, layout = 0, tiles = 0;  // its first number in each list
  int64_t rows = 0, tokens = 0;
};

ProcessedPlace end_of(const ProcessedImages& images) {
  return {images.pixel_values.size(), images.layout.size(), images.tiles.size(),
          images.shape.empty() ? 0 : images.shape[0], 0};
}

template <class Number>
void repeat(std::vector<Number>& list, size_t begin, size_t end) {
  const size_t size = list.size();
  list.resize(size + end - begin);
  std::copy(list.begin() + static_cast<std::ptrdiff_t>(begin), list.begin() + static_cast<std::ptrdiff_t>(end),
            list.begin() + static_cast<std::ptrdiff_t>(size));
}

// Adds once more the picture that lies between these places.
void repeat(ProcessedImages& images, const ProcessedPlace& from, const ProcessedPlace& to) {
  repeat(images.pixel_values, from.values, to.values);
  repeat(images.layout, from.layout, to.layout);
  repeat(images.tiles, from.tiles, to.tiles);
  images.shape[0] += to.rows - from.rows;
  if (!images.layout_shape.empty()) ++images.layout_shape[0];
}

}  // namespace

void add_pixels(const ProcessedImages& images, Batch& batch) {
  batch.pixels = torch::tensor(images.pixel_values, at::kFloat).view(images.shape);
  if (images.layout_name == "image_grid_thw")
    batch.image_grid = torch::tensor(images.layout, at::kLong).view(images.layout_shape);
  if (!images.tiles.empty()) batch.tile_grid = torch::tensor(images.tiles, at::kLong).view({-1, 2});
}

int64_t PretrainedBackbone::process(const Image8& image, const std::string& id, ProcessedImages& out) const {
  check(processor_ != nullptr, no_processor_.empty() ? name() + ": takes no pictures" : no_processor_);
  processor_->append(options_.recipe == "asr-paper" ? at_most(image, 512) : image, id, out);
  const size_t index =
      out.layout_shape.empty() ? static_cast<size_t>(out.shape[0]) : static_cast<size_t>(out.layout_shape[0]);
  return image_tokens(out, index - 1);
}

PromptTemplate PretrainedBackbone::prompt_for(const PackItem& item) const {
  if (item.instruction) return instruction_prompt();
  auto prompt = prompt_;
  if (options_.recipe != "asr-paper") return prompt;
  prompt.before = "USER: ";
  prompt.after = " ASSISTANT:";
  prompt.answer_before = " ";
  // Where pictures stand first in any case, only the words around the question change.
  if (prompt.image_first || prompt.image.empty())
    prompt.before += "QUESTION: ";
  else
    prompt.picture = prompt.image + " QUESTION: ";
  return prompt;
}

Batch PretrainedBackbone::pack(const std::vector<PackItem>& items) const {
  check(!items.empty(), "a batch of nothing cannot be packed");
  const int64_t budget = options_.recipe == "asr-paper" ? 256 : 0;
  ProcessedImages images;
  std::map<const Image8*, std::pair<ProcessedPlace, ProcessedPlace>> known;  // one picture may be asked about often
  const auto visual_tokens_of = [&](const Image8* image, const std::string& id) {
    const auto place = known.find(image);
    if (place != known.end()) {
      repeat(images, place->second.first, place->second.second);
      return place->second.second.tokens;
    }
    const auto begin = end_of(images);
    const int64_t tokens = process(*image, id, images);
    auto end = end_of(images);
    end.tokens = tokens;
    known[image] = {begin, end};
    return tokens;
  };
  std::vector<PackedText> texts;
  int64_t longest = 0;
  for (const auto& item : items) {
    std::vector<int64_t> counts;
    if (!prompt_.image.empty())
      for (const auto* image : item.images) counts.push_back(visual_tokens_of(image, item.id));
    texts.push_back(pack_text(tokenizer(), prompt_for(item), item, counts, budget));
    const auto length = static_cast<int64_t>(texts.back().ids.size());
    check(length <= context(), item.id, ": its ", length, " tokens, pictures included, do not fit into the context of ",
          context(), " tokens of ", name(), "; shorten the question, or let recipe=asr-paper cut it");
    longest = std::max(longest, length);
  }
  const auto B = static_cast<int64_t>(items.size());
  Batch batch;
  batch.ids = at::full({B, longest}, std::min(folder_.padding_token(), text_.vocabulary() - 1), at::kLong);
  batch.labels = at::full({B, longest}, -1, at::kLong);
  batch.mask = at::zeros({B, longest}, at::kBool);
  batch.question = at::zeros_like(batch.mask);
  batch.functional = at::zeros_like(batch.mask);
  for (int64_t b = 0; b < B; ++b) {
    const auto& text = texts[static_cast<size_t>(b)];
    for (size_t i = 0; i < text.ids.size(); ++i) {
      const int64_t at_token = b * longest + static_cast<int64_t>(i);
      batch.ids.data_ptr<int64_t>()[at_token] = text.ids[i];
      batch.labels.data_ptr<int64_t>()[at_token] = text.labels[i];
      batch.mask.data_ptr<bool>()[at_token] = true;
      batch.question.data_ptr<bool>()[at_token] = text.question[i];
      batch.functional.data_ptr<bool>()[at_token] = text.functional[i];
    }
  }
  if (!images.shape.empty()) add_pixels(images, batch);
  std::vector<std::string> instructions;
  for (const auto& item : items) {
    const auto around = item.instruction ? instruction_prompt() : prompt_;
    instructions.push_back(around.before + item.question + around.after);
  }
  if (batch.pixels.defined()) pack_instructions(instructions, batch);
  return batch;
}

Batch PretrainedBackbone::pack_ids(const std::vector<int64_t>& ids, const std::vector<Image8>& pictures,
                                   const std::vector<std::string>& names, const std::string& instruction) const {
  ProcessedImages images;
  std::vector<int64_t> counts;
  for (size_t i = 0; i < pictures.size(); ++i) counts.push_back(process(pictures[i], names[i], images));
  const auto expanded = expand_images(ids, image_token_, counts);
  Batch batch;
  batch.ids = torch::tensor(expanded, at::kLong).view({1, -1});
  batch.mask = at::ones_like(batch.ids, at::kBool);
  batch.labels = at::full_like(batch.ids, -1);
  batch.question = batch.functional = batch.ids.ne(image_token_);
  if (!pictures.empty()) {
    add_pixels(images, batch);
    pack_instructions({instruction}, batch);
  }
  return batch;
}

Batch PretrainedBackbone::pack_prompt(const std::string& prompt, const std::vector<Image8>& pictures,
                                      const std::vector<std::string>& names, bool raw,
                                      std::function<std::vector<bool>(const std::vector<Token>&)> functional) const {
  if (!raw) {
    PackItem item;
    item.id = "the prompt";
    item.question = prompt;
    item.functional = std::move(functional);
    for (const auto& picture : pictures) item.images.push_back(&picture);
    check(pictures.empty() || !prompt_.image.empty(), name(), ": takes no pictures");
    return pack({item});
  }
  std::vector<int64_t> ids;
  for (const auto& token : tokenizer().encode(prompt)) ids.push_back(token.id);
  check(!ids.empty(), "the prompt is empty");
  return pack_ids(ids, pictures, names, prompt);
}

}  // namespace asr
