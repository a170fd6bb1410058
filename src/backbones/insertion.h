// Vectors of a method inside the sequence (Batch::inserted): the text gets columns for them after its last image token,
// or before its first token where it has none. Everything that counts columns then counts them too.
#pragma once

#include "backbones/backbone.h"

namespace asr {

struct Room {
  Batch batch;             // ids, mask, labels, question and functional with n more columns: real, but no words
  torch::Tensor inserted;  // [B, T + n] bool: those columns; undefined where nothing is inserted
  torch::Tensor begin;     // [B, 1]: the first of them
  int64_t count = 0;       // n

  // Where the text's own columns have gone, [B, T]; and back: columns [B, R] of its own tokens, -1 staying -1.
  torch::Tensor own_columns() const;
  torch::Tensor in_the_text(const torch::Tensor& columns) const;
};

// Without Batch::inserted the batch as it is. `filler` stands in the new columns.
Room make_room(const Batch& batch, int64_t image_token, int64_t filler);

// The text without its image tokens, closed up; pictures and what belongs to them are gone.
Batch without_image_tokens(const Batch& batch, int64_t image_token, int64_t filler);

}  // namespace asr
