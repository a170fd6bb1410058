// A pass of the built-in backbones: visual tokens, what a method inserts after them, and words, in one sequence or
// with the first two as the context of cross-attention.
#include "backbones/greedy.h"
#include "backbones/pass_parts.h"
#include "backbones/rows.h"
#include "backbones/tiny.h"
#include "base/error.h"
#include "ops/leading_positions.h"
#include "ops/mean_tokens.h"

namespace asr {

torch::Tensor TinyBackbone::see(const torch::Tensor& pixels, const Pass& pass) const {
  check(pixels.size(2) == config_.vision.image && pixels.size(3) == config_.vision.image, "images are ", pixels.size(2),
        "x", pixels.size(3), " but the backbone takes ", config_.vision.image);
  return vision_((pixels - 0.5) * 4, pass);  // [B, V, width]; pixels about 0, spread about 1
}

torch::Tensor TinyBackbone::encode_images(const torch::Tensor& pixels) const {
  return see(pixels, Pass{0, nullptr});
}

torch::Tensor TinyBackbone::tower_states(const Batch& batch, const Pass& pass) const {
  const bool adapted = pass.slots != 0 && vision_adapted();
  if (adapted && batch.pixels.defined()) return see(batch.pixels, pass);
  check(!adapted || !batch.features.defined(), "the vision tower is adapted, so that the batch needs its pixels");
  if (batch.features.defined()) return batch.features;
  return batch.pixels.defined() ? encode_images(batch.pixels) : torch::Tensor();
}

torch::Tensor TinyBackbone::logits(const torch::Tensor& hidden) const {
  return at::linear(hidden, embedding_);
}

TinyBackbone::Sequence TinyBackbone::sequence(const Batch& batch, const Pass& whole) const {
  const auto pass = vision_pass(whole);
  Sequence out;
  out.tower = tower_states(batch, pass);
  if (out.tower.defined()) {
    out.visual = projector_out_(at::gelu(projector_in_(out.tower, pass)), pass);  // [B, V, width]
    out.visual_tokens = out.visual.size(1);
  }
  out.seen = out.visual;
  if (batch.inserted.defined()) {
    check(batch.inserted.dim() == 3 && batch.inserted.size(0) == batch.size() && batch.inserted.size(2) == width(),
          "vectors to be inserted must be [", batch.size(), ", count, ", width(), "]; they are ",
          batch.inserted.sizes());
    out.seen = out.visual.defined() ? at::cat({out.visual, batch.inserted}, 1) : batch.inserted;
  }
  if (out.seen.defined() && !config_.text.cross) out.shift = out.seen.size(1);
  return out;
}

// x, and the context of cross-attention.
std::pair<torch::Tensor, torch::Tensor> TinyBackbone::decoder_inputs(const Sequence& s,
                                                                     const torch::Tensor& words) const {
  if (config_.text.cross) return {words, s.seen};
  return {s.seen.defined() ? at::cat({s.seen, words}, 1) : words, torch::Tensor()};
}

TapRequest TinyBackbone::tap_request(const Batch& batch, const Want& want, const Sequence& s, Output& out) const {
  const bool all = want.tap_columns == TapColumns::all;
  const int64_t depth = config_.text.layers, text = batch.ids.size(1);
  check(all || s.visual_tokens > 0, name(), ": there is no picture to attend to");
  TapRequest request;
  request.to_text = all && config_.text.cross;
  if (want.tap_rows == TapRows::question && batch.question_tokens >= 0) {
    // Slices do where questions begin the text: nothing has to be looked up.
    request.rows = leading_positions(batch.question, batch.question_tokens);
    out.rows = request.rows;
    request.first_row = s.shift;
    request.first_column = 0;
  } else {
    out.rows = positions_of(rows_to_tap(batch, want.tap_rows));
    request.rows = at::where(out.rows.ge(0), out.rows + s.shift, out.rows);
  }
  request.columns = leading_positions(batch.size(), all ? s.shift + text : s.visual_tokens, batch.ids.device());
  for (int64_t i = depth - want.tap_layers; i < depth; ++i) request.layers.push_back(i);
  return request;
}

void TinyBackbone::early_output(const Batch& batch, const Sequence& s, const torch::Tensor& words, Output& out) const {
  out.text_input = mean_tokens(words, batch.question);
  if (!s.visual.defined()) return;
  out.image_input = mean_tokens(s.visual);
  out.tower_first = s.tower.select(1, 0);
  out.tower_max = max_tokens(s.tower);
  out.tower_mean = mean_tokens(s.tower);
}

// Statistics of `state` [B, shift + T, width].
void TinyBackbone::pooled_output(const Batch& batch, const Want& want, const Sequence& s, const torch::Tensor& state,
                                 Output& out) const {
  const auto text = s.shift ? state.narrow(1, s.shift, batch.ids.size(1)) : state;
  out.text = mean_tokens(text, batch.question);
  if (want.states) out.text_max = max_tokens(text, batch.question);
  if (s.visual_tokens == 0) {
    out.image = torch::zeros_like(out.text);
    if (want.states) out.image_max = out.image;
    return;
  }
  const auto image = config_.text.cross ? s.visual : state.narrow(1, 0, s.visual_tokens);
  out.image = mean_tokens(image);
  if (want.states) out.image_max = max_tokens(image);
}

// What is read from the last states of the text, [B, T, width].
void TinyBackbone::text_output(const Batch& batch, const Want& want, const torch::Tensor& text, Output& out) const {
  if (want.all_logits) out.all_logits = logits(text);
  if (want.state) out.state = prompt_state(text, batch);
  if (!want.loss && !want.logits) return;
  // The state before a token predicts it. Answers never stand first: the marker <answer> is before them.
  const auto wanted = batch.labels.flatten().ge(0).nonzero().flatten();
  check(wanted.numel() > 0, "no sample of the batch has an answer");
  // The vocabulary projection is computed at answer positions alone.
  out.logits = logits(text.reshape({-1, text.size(2)}).index_select(0, wanted - 1));
  if (want.loss) out.loss = at::cross_entropy_loss(out.logits, batch.labels.flatten().index_select(0, wanted));
}

Output TinyBackbone::forward(const Batch& batch, const Pass& pass, const Want& want) const {
  const int64_t B = batch.ids.size(0), T = batch.ids.size(1), depth = config_.text.layers;
  check(want.tap_layers >= 0 && want.tap_layers <= depth, "cannot tap ", want.tap_layers, " of ", depth, " layers");
  check_early_layer(want, depth);
  const auto s = sequence(batch, pass);
  const auto words = at::embedding(embedding_, batch.ids);
  Output out;
  if (want.early) early_output(batch, s, words, out);
  if (!needs_decoder(want)) return out;

  TapRequest request;
  TapResult tapped;
  if (want.tap_layers) request = tap_request(batch, want, s, out);
  DecoderInside inside;
  inside.recompute = options_.recompute;
  if (want.pooled || want.states) inside.layer = options_.geometry_layer ? options_.geometry_layer : depth;
  inside.normed_layer = want.early_layer;
  inside.stop_there = !needs_last_layer(want);  // embeddings need nothing above
  const auto [x, context] = decoder_inputs(s, words);
  const auto positions = at::arange(s.shift + T, batch.ids.options()).expand({B, s.shift + T});
  const auto mask = s.shift ? at::cat({torch::ones({B, s.shift}, batch.mask.options()), batch.mask}, 1) : batch.mask;
  DecoderInput input{.positions = positions, .mask = mask, .context = context, .inside = &inside};
  if (want.tap_layers) input.tap = {&request, &tapped};
  const auto hidden = decoder_(x, input, pass);

  const int64_t grid = config_.vision.grid();
  if (want.tap_layers)
    out.attention = want.tap_columns == TapColumns::all ? tapped.stacked() : tapped.stacked(grid, grid);
  if (want.pooled || want.states) pooled_output(batch, want, s, inside.state, out);
  if (want.early_layer) {
    Output early;
    pooled_output(batch, Want(), s, inside.normed, early);
    out.early_image = early.image;
    out.early_text = early.text;
  }
  if (hidden.defined()) text_output(batch, want, s.shift ? hidden.narrow(1, s.shift, T) : hidden, out);
  return out;
}

Batch TinyBackbone::without_pictures(const Batch& batch) const {
  Batch out = batch;
  out.pixels = torch::Tensor();
  out.features = torch::Tensor();
  return out;
}

std::vector<std::vector<int64_t>> TinyBackbone::generate(const Batch& batch, const Pass& pass, int64_t limit) const {
  at::NoGradGuard no_grad;
  const int64_t B = batch.ids.size(0), T = batch.ids.size(1);
  // Questions are shifted to the right edge, so that every sample continues at the same column.
  const auto prompt = batch.mask.logical_and(batch.labels.lt(0));
  const auto length = prompt.sum(1, true);  // [B, 1]
  const int64_t longest = length.max().item<int64_t>();
  const auto column = at::arange(longest, batch.ids.options()).expand({B, longest}) - (longest - length);
  check(longest <= T, "a prompt is longer than its batch");
  const auto words = at::embedding(embedding_, batch.ids.gather(1, column.clamp_min(0)));
  const auto s = sequence(batch, pass);
  auto positions = column.clamp_min(0) + s.shift;
  auto real = column.ge(0);
  if (s.shift) {
    positions = at::cat({at::arange(s.shift, batch.ids.options()).expand({B, s.shift}), positions}, 1);
    real = at::cat({torch::ones({B, s.shift}, real.options()), real}, 1);
  }
  AnsweringPass answering(pass);
  auto [x, context] = decoder_inputs(s, words);
  KvCache cache;
  cache.room = x.size(1) + limit;
  DecoderInput input{.positions = positions, .mask = real, .context = context, .cache = &cache};
  const auto hidden = decoder_(x, input, answering.pass());
  input.mask = torch::Tensor();  // what continues the prompt is real

  GreedyLoop loop;
  loop.logits = [this](const torch::Tensor& state) { return logits(state); };
  loop.advance = [&](const torch::Tensor& ids, const torch::Tensor& position) {
    input.positions = position;
    return decoder_(at::embedding(embedding_, ids), input, answering.pass());
  };
  loop.keep_rows = [&](const torch::Tensor& rows) {
    cache.keep_rows(rows);
    answering.keep_rows(rows);
    if (input.context.defined()) input.context = input.context.index_select(0, rows);
  };
  loop.end_tokens = {WordTokenizer::kEnd};
  loop.filler = WordTokenizer::kEnd;
  loop.limit = limit;
  loop.leave_at = rows_leave_at(options_.ended_rows_leave, device());
  return decode_greedily(loop, hidden, length + s.shift);
}

}  // namespace asr
