#include "backbones/insertion.h"

#include "backbones/rows.h"
#include "base/error.h"

namespace asr {

Room make_room(const Batch& batch, int64_t image_token, int64_t filler) {
  Room out;
  out.batch = batch;
  if (!batch.inserted.defined()) return out;
  const int64_t B = batch.ids.size(0), T = batch.ids.size(1);
  check(batch.inserted.dim() == 3 && batch.inserted.size(0) == B, "vectors to be inserted must be [", B,
        ", count, width]; they are ", batch.inserted.sizes());
  out.count = batch.inserted.size(1);
  const auto place = at::arange(T, batch.ids.options()).expand({B, T});
  const auto images = batch.ids.eq(image_token).logical_and(batch.mask);
  const auto after_images = at::where(images, place + 1, at::zeros_like(place)).amax(1, true);
  const auto first = at::where(batch.mask, place, at::full_like(place, T)).amin(1, true);
  out.begin = at::where(after_images.gt(0), after_images, first);
  const auto columns = out.own_columns();
  const auto spread = [&](const torch::Tensor& text, const at::Scalar& between) {
    if (!text.defined()) return text;
    return at::full({B, T + out.count}, between, text.options()).scatter(1, columns, text);
  };
  out.inserted = spread(at::zeros_like(batch.mask), true);
  // Any token but that of pictures: what stands there is replaced.
  const int64_t between = filler != image_token ? filler : image_token == 0 ? 1 : 0;
  out.batch.ids = spread(batch.ids, between);
  out.batch.mask = spread(batch.mask, true);
  out.batch.labels = spread(batch.labels, -1);
  out.batch.question = spread(batch.question, false);
  out.batch.functional = spread(batch.functional, false);
  out.batch.question_tokens = -1;
  return out;
}

torch::Tensor Room::own_columns() const {
  const int64_t B = begin.size(0), T = batch.ids.size(1) - (inserted.defined() ? count : 0);
  const auto place = at::arange(T, begin.options()).expand({B, T});
  return at::where(place.ge(begin), place + count, place);
}

torch::Tensor Room::in_the_text(const torch::Tensor& columns) const {
  return count == 0 ? columns : at::where(columns.ge(begin), columns - count, columns);
}

Batch without_image_tokens(const Batch& batch, int64_t image_token, int64_t filler) {
  const auto kept = positions_of(batch.mask.logical_and(batch.ids.ne(image_token)));  // [B, longest]
  const auto real = kept.ge(0);
  const auto closed = [&](const torch::Tensor& text, const at::Scalar& padding) {
    return text.defined() ? text.gather(1, kept.clamp_min(0)).masked_fill(real.logical_not(), padding) : text;
  };
  Batch out = batch;
  out.ids = closed(batch.ids, filler);
  out.labels = closed(batch.labels, -1);
  out.question = closed(batch.question, false);
  out.functional = closed(batch.functional, false);
  out.mask = real;
  out.question_tokens = -1;
  for (auto* gone :
       {&out.pixels, &out.features, &out.image_grid, &out.tile_grid, &out.instruction, &out.instruction_mask})
    *gone = torch::Tensor();
  return out;
}

}  // namespace asr
