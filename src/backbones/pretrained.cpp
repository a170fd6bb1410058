#include "backbones/pretrained.h"

#include <algorithm>
#include <filesystem>

#include "backbones/rows.h"
#include "base/error.h"
#include "io/resample.h"
#include "nn/model_config.h"
#include "ops/mean_tokens.h"
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
  text_.each_weight(add), each_vision_weight(add);
  return sum;
}

torch::Tensor PretrainedBackbone::encode_images(const torch::Tensor&) const {
  fail(name(), ": pictures are encoded inside its own pass");
}

torch::Tensor PretrainedBackbone::visual_tokens(const Batch&, const Pass&, VisualTap*) const {
  fail(folder_.path, ": is a model of text alone (model_type '", folder_.type, "'); it takes no pictures");
}

int64_t PretrainedBackbone::image_tokens(const ProcessedImages&, size_t) const {
  fail(folder_.path, ": is a model of text alone (model_type '", folder_.type, "'); it takes no pictures");
}

torch::Tensor PretrainedBackbone::positions(const Batch&, const torch::Tensor&, const torch::Tensor& mask) const {
  return (mask.to(at::kLong).cumsum(1) - 1).clamp_min(0);
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
      picture.cells.first += first, first += picture.tokens;
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

PretrainedBackbone::Inputs PretrainedBackbone::inputs(const Batch& batch, const torch::Tensor& ids,
                                                      const torch::Tensor& mask, const Pass& pass,
                                                      VisualTap* tap) const {
  const auto range = ids.aminmax();
  check(std::get<0>(range).item<int64_t>() >= 0 && std::get<1>(range).item<int64_t>() < text_.vocabulary(),
        "a token number lies outside the vocabulary of ", text_.vocabulary(), " of ", name());
  check(ids.size(1) <= context(), "texts of ", ids.size(1), " tokens do not fit into the context of ", context(),
        " tokens of ", name());
  Inputs out;
  out.x = at::embedding(text_.embedding, ids).to(compute_type());  // [B, T, width]
  const auto places = ids.eq(image_token_).logical_and(mask).flatten().nonzero().flatten();
  if (batch.pixels.defined()) {
    out.features = visual_tokens(batch, pass, tap);
    check(places.numel() == out.features.size(0), "the text has ", places.numel(), " image tokens (", image_token_,
          ") but the pictures give ", out.features.size(0), " visual tokens; they must match");
    const auto shape = out.x.sizes();
    out.x = out.x.reshape({-1, shape[2]}).index_copy(0, places, out.features.to(out.x.scalar_type())).view(shape);
  } else {
    check(image_token_ < 0 || places.numel() == 0, "the text has ", places.numel(), " image tokens (", image_token_,
          ") but there is no picture");
  }
  out.positions = positions(batch, ids, mask);
  return out;
}

PretrainedBackbone::Inspection PretrainedBackbone::inspect(const Batch& batch, const Pass& pass,
                                                           const std::vector<int64_t>& tapped,
                                                           const torch::Tensor& text_rows) const {
  Inspection out;
  VisualTap visual{tapped, {}, {}, {}, {}};
  const bool vision = taps_vision_path();
  const auto in = inputs(batch, batch.ids, batch.mask, pass, vision && !tapped.empty() ? &visual : nullptr);
  TapRequest request;
  const bool in_text = !vision && !tapped.empty();
  if (in_text) {
    request.layers = tapped;
    request.rows = out.rows = positions_of(text_rows);
    request.columns = out.columns = positions_of(batch.ids.eq(image_token_).logical_and(batch.mask));
  }
  out.hidden = text_.decoder(in.x, in.positions, batch.mask, pass, nullptr, in_text ? &request : nullptr, &out.taps);
  out.features = in.features;
  if (vision) out.taps = visual.result, out.rows = visual.rows, out.columns = visual.columns;
  return out;
}

void PretrainedBackbone::attention_output(const Batch& batch, const torch::Tensor& rows, const TapResult& taps,
                                          const torch::Tensor& columns, Output& out) const {
  const auto [height, width] = grid();
  out.rows = rows;
  out.attention = grid_maps(taps.stacked().to(at::kFloat), cells(batch, columns), height, width);
}

Output PretrainedBackbone::forward(const Batch& batch, const Pass& pass, const Want& want) const {
  check(want.tap_layers >= 0 && want.tap_layers <= layers(), "cannot tap ", want.tap_layers, " of ", layers(),
        " layers");
  std::vector<int64_t> tapped;
  for (int64_t i = layers() - want.tap_layers; i < layers(); ++i) tapped.push_back(i);
  const bool vision = taps_vision_path();
  VisualTap visual{tapped, {}, {}, {}, {}};
  const auto in = inputs(batch, batch.ids, batch.mask, pass, vision && want.tap_layers ? &visual : nullptr);
  const auto images = batch.ids.eq(image_token_).logical_and(batch.mask);
  TapRequest request;
  TapResult taps;
  if (want.tap_layers && !vision) {
    check(batch.pixels.defined(), name(), ": there is no picture to attend to");
    request.layers = tapped, request.rows = positions_of(batch.question), request.columns = positions_of(images);
  }
  DecoderInside inside;
  inside.recompute = options_.recompute;
  const auto depth = static_cast<int64_t>(text_.decoder.layers.size());
  if (want.pooled) inside.layer = options_.geometry_layer ? options_.geometry_layer : depth;
  // Embeddings alone need nothing above their layer.
  inside.stop_there = !(want.loss || want.logits || want.state || want.tap_layers);
  const auto hidden = text_.decoder(in.x, in.positions, batch.mask, pass, nullptr,
                                    request.layers.empty() ? nullptr : &request, &taps, {}, &inside);

  Output out;
  if (want.tap_layers) {
    attention_output(batch, vision ? visual.rows : request.rows, vision ? visual.result : taps,
                     vision ? visual.columns : request.columns, out);
    out.row_weights = visual.weights;
  }
  if (want.pooled) {
    const auto state = inside.state.to(at::kFloat);
    out.image = mean_tokens(state, images), out.text = mean_tokens(state, batch.question);
  }
  if (want.loss || want.logits) {
    const auto wanted = batch.labels.flatten().ge(0).nonzero().flatten();
    check(wanted.numel() > 0, "no sample of the batch has an answer");
    check(batch.labels.select(1, 0).lt(0).all().item<bool>(), "an answer stands before any question");
    // The vocabulary projection is computed at answer positions alone; the state before a token predicts it.
    out.logits = text_.logits(hidden.reshape({-1, hidden.size(2)}).index_select(0, wanted - 1)).to(at::kFloat);
    if (want.loss) out.loss = at::cross_entropy_loss(out.logits, batch.labels.flatten().index_select(0, wanted));
  }
  if (want.state) {
    const auto last = batch.mask.logical_and(batch.labels.lt(0)).sum(1, true) - 1;  // [B, 1]
    out.state = hidden.gather(1, last.unsqueeze(-1).expand({-1, 1, hidden.size(2)})).squeeze(1).to(at::kFloat);
  }
  return out;
}

std::vector<std::vector<int64_t>> PretrainedBackbone::generate(const Batch& batch, const Pass& pass,
                                                               int64_t limit) const {
  return continue_greedily(batch, batch.mask.logical_and(batch.labels.lt(0)), pass, limit, /*fill=*/false);
}

std::vector<std::vector<int64_t>> PretrainedBackbone::continue_greedily(const Batch& batch, const torch::Tensor& prompt,
                                                                        const Pass& pass, int64_t limit,
                                                                        bool fill) const {
  at::NoGradGuard no_grad;
  const auto aligned = right_aligned(prompt);
  const int64_t B = batch.ids.size(0), longest = aligned.column.size(1);
  const auto padding = folder_.padding_token();
  const int64_t filler = padding < text_.vocabulary() ? padding : 0;
  const auto ids = at::where(aligned.real, batch.ids.gather(1, aligned.column), at::full_like(aligned.column, filler));
  const auto in = inputs(batch, ids, aligned.real, pass, nullptr);
  check(longest + limit <= context(), "a prompt of ", longest, " tokens and ", limit,
        " new ones do not fit into the context of ", context(), " tokens of ", name());
  KvCache cache;
  auto hidden = text_.decoder(in.x, in.positions, aligned.real, pass, &cache);
  const bool parts = in.positions.dim() == 3;
  const auto seen = in.positions.masked_fill(aligned.real.logical_not(), 0);
  auto position = (parts ? seen.amax({0, 2}) : seen.amax(1)).unsqueeze(1) + 1;  // [B, 1]: of the next token
  std::vector<std::vector<int64_t>> out(static_cast<size_t>(B));
  std::vector<bool> done(static_cast<size_t>(B), false);
  for (int64_t step = 0; step < limit; ++step) {
    auto next = text_.logits(hidden.narrow(1, hidden.size(1) - 1, 1).squeeze(1)).argmax(-1).cpu();
    int64_t* token = next.data_ptr<int64_t>();
    bool all_done = true;
    for (int64_t b = 0; b < B; ++b) {
      const auto row = static_cast<size_t>(b);
      if (done[row]) token[b] = filler;
      if (!done[row] || fill) out[row].push_back(token[b]);
      if (std::find(end_tokens_.begin(), end_tokens_.end(), token[b]) != end_tokens_.end()) {
        if (!done[row] && !fill) out[row].pop_back();
        done[row] = true;
      }
      all_done = all_done && done[row];
    }
    if ((all_done && !fill) || step + 1 == limit) break;
    hidden = text_.decoder(at::embedding(text_.embedding, next.to(ids.device()).unsqueeze(1)).to(compute_type()),
                           parts ? position.unsqueeze(0).expand({3, B, 1}) : position,
                           torch::ones({B, 1}, aligned.real.options()), pass, &cache);
    position = position + 1;
  }
  return out;
}

namespace {

void add_pixels(const ProcessedImages& images, Batch& batch) {
  batch.pixels = torch::tensor(images.pixel_values, at::kFloat).view(images.shape);
  if (images.layout_name == "image_grid_thw")
    batch.image_grid = torch::tensor(images.layout, at::kLong).view(images.layout_shape);
  if (!images.tiles.empty()) batch.tile_grid = torch::tensor(images.tiles, at::kLong).view({-1, 2});
}

}  // namespace

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
  prompt.before = "USER: ", prompt.after = " ASSISTANT:", prompt.answer_before = " ";
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
  std::vector<PackedText> texts;
  int64_t longest = 0;
  for (const auto& item : items) {
    std::vector<int64_t> counts;
    if (!prompt_.image.empty())
      for (const auto* image : item.images) counts.push_back(process(*image, item.id, images));
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
  batch.question = at::zeros_like(batch.mask), batch.functional = at::zeros_like(batch.mask);
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
  batch.mask = at::ones_like(batch.ids, at::kBool), batch.labels = at::full_like(batch.ids, -1);
  batch.question = batch.functional = batch.ids.ne(image_token_);
  if (!pictures.empty()) add_pixels(images, batch), pack_instructions({instruction}, batch);
  return batch;
}

Batch PretrainedBackbone::pack_prompt(const std::string& prompt, const std::vector<Image8>& pictures,
                                      const std::vector<std::string>& names, bool raw) const {
  if (!raw) {
    PackItem item;
    item.id = "the prompt", item.question = prompt;
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
