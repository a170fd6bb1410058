// What the passes of all backbones share: which rows a tap reads, and statistics of states.
#pragma once

#include "backbones/backbone.h"

namespace asr {

torch::Tensor rows_to_tap(const Batch& batch, TapRows rows);  // [B, T] bool

// Largest entries of x [B, T, width] over the tokens of mask [B, T], or over all; zeros where a row has none.
torch::Tensor max_tokens(const torch::Tensor& x, const torch::Tensor& mask = {});

// The state before the first answer token, [B, width], of hidden [B, T, width] at the text's own columns.
torch::Tensor prompt_state(const torch::Tensor& hidden, const Batch& batch);

// How the vision path runs. It is read once, so that gates which read a sequence need keep nothing there; where its
// rows are no samples, `row_samples` [rows] says whose they are.
Pass vision_pass(const Pass& pass, const torch::Tensor& row_samples = {});

// Whether anything is asked for that only the language model gives, and only its last layer.
bool needs_decoder(const Want& want);
bool needs_last_layer(const Want& want);
void check_early_layer(const Want& want, int64_t depth);  // one that is not there is an error

}  // namespace asr
