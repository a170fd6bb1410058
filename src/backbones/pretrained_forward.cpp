// A pass of a Hugging Face model: image tokens of the text replaced by what the vision path makes of the pictures, room
// for what a method inserts after them, and what is asked for of the states.
#include "backbones/insertion.h"
#include "backbones/pass_parts.h"
#include "backbones/pretrained.h"
#include "backbones/rows.h"
#include "base/error.h"
#include "ops/leading_positions.h"
#include "ops/mean_tokens.h"

namespace asr {
namespace {

// x [B, T, width] with `rows` [count, width] at the places of `mask` [B, T], in their order.
torch::Tensor replaced(const torch::Tensor& x, const torch::Tensor& places, const torch::Tensor& rows) {
  return x.reshape({-1, x.size(2)}).index_copy(0, places, rows.to(x.scalar_type())).view(x.sizes());
}

torch::Tensor places_of(const torch::Tensor& mask) {
  return mask.flatten().nonzero().flatten();
}

// Places of the labels, [n] of the flattened text; the state before each predicts it.
torch::Tensor label_places(const Batch& batch) {
  const auto places = batch.labels.flatten().ge(0).nonzero().flatten();
  check(places.numel() > 0, "no sample of the batch has an answer");
  check(batch.labels.select(1, 0).lt(0).all().item<bool>(), "an answer stands before any question");
  return places;
}

}  // namespace

void PretrainedBackbone::check_tokens(const torch::Tensor& ids) const {
  const auto range = ids.aminmax();
  check(std::get<0>(range).item<int64_t>() >= 0 && std::get<1>(range).item<int64_t>() < text_.vocabulary(),
        "a token number lies outside the vocabulary of ", text_.vocabulary(), " of ", name());
}

PretrainedBackbone::Inputs PretrainedBackbone::inputs(const Batch& batch, const TextColumns& text, const Pass& pass,
                                                      VisualLook* look) const {
  check_tokens(text.ids);
  check(text.ids.size(1) <= context(), "texts of ", text.ids.size(1), " tokens do not fit into the context of ",
        context(), " tokens of ", name());
  Inputs out;
  out.x = at::embedding(text_.embedding, text.ids).to(compute_type());  // [B, T, width]
  const auto places = places_of(text.ids.eq(image_token_).logical_and(text.mask));
  if (batch.pixels.defined()) {
    out.features = seen_once(batch, pass, look);
    check(places.numel() == out.features.size(0), "the text has ", places.numel(), " image tokens (", image_token_,
          ") but the pictures give ", out.features.size(0), " visual tokens; they must match");
    out.x = replaced(out.x, places, out.features);
  } else {
    check(image_token_ < 0 || places.numel() == 0, "the text has ", places.numel(), " image tokens (", image_token_,
          ") but there is no picture");
  }
  if (text.inserted.defined()) {
    check(batch.inserted.size(2) == width(), "vectors to be inserted have width ", batch.inserted.size(2), ", but ",
          name(), " has ", width());
    out.x = replaced(out.x, places_of(text.inserted), batch.inserted.flatten(0, 1));
  }
  out.positions = positions(batch, text.ids, text.mask);
  return out;
}

PretrainedBackbone::Inspection PretrainedBackbone::inspect(const Batch& batch, const Pass& pass,
                                                           const std::vector<int64_t>& tapped,
                                                           const torch::Tensor& text_rows) const {
  check(!batch.inserted.defined(), "nothing can be inserted where a whole pass is looked at");
  Inspection out;
  VisualLook look;
  const bool vision = taps_vision_path();
  if (vision) look.tap.layers = tapped;
  const auto in = inputs(batch, {batch.ids, batch.mask, {}}, pass, &look);
  TapRequest request;
  const bool in_text = !vision && !tapped.empty();
  if (in_text) {
    request.layers = tapped;
    request.rows = out.rows = positions_of(text_rows);
    request.columns = out.columns = positions_of(batch.ids.eq(image_token_).logical_and(batch.mask));
  }
  DecoderInput input{.positions = in.positions, .mask = batch.mask};
  if (in_text) input.tap = {&request, &out.taps};
  out.hidden = text_.decoder(in.x, input, pass);
  out.features = in.features;
  if (vision) {
    out.taps = look.tap.result;
    out.rows = look.tap.rows;
    out.columns = look.tap.columns;
  }
  return out;
}

bool PretrainedBackbone::taps_vision_path(const Want& want) const {
  return want.tap_layers > 0 && want.tap_columns == TapColumns::visual && taps_vision_path();
}

void PretrainedBackbone::check_tap(const Batch& batch, const Want& want) const {
  const bool all = want.tap_columns == TapColumns::all;
  const int64_t depth = all ? static_cast<int64_t>(text_.decoder.layers.size()) : layers();
  check(want.tap_layers >= 0 && want.tap_layers <= depth, "cannot tap ", want.tap_layers, " of ", depth, " layers");
  if (want.tap_layers == 0) return;
  check(all || batch.pixels.defined(), name(), ": there is no picture to attend to");
  check(!taps_vision_path(want) || want.tap_rows == TapRows::question, name(),
        ": its queries look at the picture, and no answer does");
}

// Which rows and columns of the language model's attention are wanted; no layers where none are.
TapRequest PretrainedBackbone::text_tap(const Batch& batch, const Want& want, const torch::Tensor& images) const {
  TapRequest out;
  if (want.tap_layers == 0 || taps_vision_path(want)) return out;
  const auto depth = static_cast<int64_t>(text_.decoder.layers.size());
  for (int64_t i = depth - want.tap_layers; i < depth; ++i) out.layers.push_back(i);
  out.rows = positions_of(rows_to_tap(batch, want.tap_rows));
  const bool all = want.tap_columns == TapColumns::all;
  out.columns = all ? leading_positions(batch.size(), batch.ids.size(1), batch.ids.device()) : positions_of(images);
  return out;
}

void PretrainedBackbone::attention_output(const Batch& batch, const torch::Tensor& rows, const TapResult& taps,
                                          const torch::Tensor& columns, Output& out) const {
  const auto [height, width] = grid();
  out.rows = rows;
  out.attention = grid_maps(taps.stacked().to(at::kFloat), cells(batch, columns), height, width);
}

void PretrainedBackbone::early_output(const Batch& batch, const torch::Tensor& images, const Inputs& in,
                                      const VisualLook& look, Output& out) const {
  const auto x = in.x.to(at::kFloat);
  out.text_input = mean_tokens(x, batch.question);
  if (!batch.pixels.defined()) {  // a batch of texts alone
    out.image_input = at::zeros_like(out.text_input);
    out.tower_first = out.tower_max = out.tower_mean = at::zeros({batch.size(), tower_width()}, x.options());
    return;
  }
  out.image_input = mean_tokens(x, images);
  out.tower_first = look.tower.first;
  out.tower_max = look.tower.max;
  out.tower_mean = look.tower.mean;
}

void PretrainedBackbone::pooled_output(const Batch& batch, const Want& want, const torch::Tensor& images,
                                       const torch::Tensor& state, Output& out) const {
  const auto wide = state.to(at::kFloat);
  out.image = mean_tokens(wide, images);
  out.text = mean_tokens(wide, batch.question);
  if (!want.states) return;
  out.image_max = max_tokens(wide, images);
  out.text_max = max_tokens(wide, batch.question);
}

// What is read from the last states: [B, T + n, width], or of the places before `labels` alone.
void PretrainedBackbone::text_output(const Room& room, const Want& want, const torch::Tensor& hidden,
                                     const torch::Tensor& labels, Output& out) const {
  const auto& batch = room.batch;
  if (want.state) out.state = prompt_state(hidden, batch).to(at::kFloat);
  if (want.all_logits) {
    const auto own =
        room.count == 0 ? hidden : hidden.gather(1, room.own_columns().unsqueeze(-1).expand({-1, -1, hidden.size(2)}));
    out.all_logits = text_.logits(own).to(at::kFloat);
  }
  if (!labels.defined()) return;
  // The vocabulary projection is computed at answer positions alone.
  const auto before = hidden.dim() == 2 ? hidden : hidden.reshape({-1, hidden.size(2)}).index_select(0, labels - 1);
  out.logits = text_.logits(before).to(at::kFloat);
  if (want.loss) out.loss = at::cross_entropy_loss(out.logits, batch.labels.flatten().index_select(0, labels));
}

Output PretrainedBackbone::forward(const Batch& given, const Pass& pass, const Want& want) const {
  check_tap(given, want);
  const auto room = make_room(given, image_token_, filler());
  const auto& batch = room.batch;
  VisualLook look;
  look.states = want.early;
  if (taps_vision_path(want))
    for (int64_t i = layers() - want.tap_layers; i < layers(); ++i) look.tap.layers.push_back(i);
  const auto in = inputs(batch, {batch.ids, batch.mask, room.inserted}, pass, &look);
  const auto images = batch.ids.eq(image_token_).logical_and(batch.mask);
  Output out;
  if (want.early) early_output(batch, images, in, look, out);
  if (!needs_decoder(want)) return out;

  const auto request = text_tap(batch, want, images);
  TapResult taps;
  DecoderInside inside;
  inside.recompute = options_.recompute;
  const auto depth = static_cast<int64_t>(text_.decoder.layers.size());
  if (want.pooled || want.states) inside.layer = options_.geometry_layer ? options_.geometry_layer : depth;
  check_early_layer(want, depth);
  inside.normed_layer = want.early_layer;
  inside.stop_there = !needs_last_layer(want);  // embeddings alone need nothing above their layer
  DecoderInput input{.positions = in.positions, .mask = batch.mask, .inside = &inside};
  if (!request.layers.empty()) input.tap = {&request, &taps};
  const auto labels = want.loss || want.logits ? label_places(batch) : torch::Tensor();
  if (options_.ends_at_answers && labels.defined() && !want.state && !want.all_logits) input.read = labels - 1;
  const auto hidden = text_.decoder(in.x, input, pass);

  if (taps_vision_path(want)) {
    attention_output(batch, look.tap.rows, look.tap.result, look.tap.columns, out);
    out.row_weights = look.tap.weights;
  } else if (want.tap_layers && want.tap_columns == TapColumns::visual) {
    attention_output(batch, room.in_the_text(request.rows), taps, request.columns, out);
  } else if (want.tap_layers) {
    out.rows = room.in_the_text(request.rows);
    out.attention = taps.stacked().to(at::kFloat);
  }
  if (want.pooled || want.states) pooled_output(batch, want, images, inside.state, out);
  if (want.early_layer) {
    out.early_image = mean_tokens(inside.normed.to(at::kFloat), images);
    out.early_text = mean_tokens(inside.normed.to(at::kFloat), batch.question);
  }
  if (hidden.defined()) text_output(room, want, hidden, labels, out);
  return out;
}

Batch PretrainedBackbone::without_pictures(const Batch& batch) const {
  return without_image_tokens(batch, image_token_, filler());
}

int64_t PretrainedBackbone::filler() const {
  const auto padding = folder_.padding_token();
  return padding < text_.vocabulary() ? padding : 0;
}

}  // namespace asr
