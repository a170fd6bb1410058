// Answers of a Hugging Face model: prompts are read, those about the same pictures from the prefix that they share, and
// continued greedily.
#include "backbones/greedy.h"
#include "backbones/insertion.h"
#include "backbones/pretrained.h"
#include "backbones/rows.h"
#include "backbones/shared_rows.h"
#include "base/error.h"
#include "nn/gates.h"

namespace asr {

PretrainedBackbone::PictureSizes PretrainedBackbone::picture_sizes(const Batch& batch) const {
  const int64_t pictures = batch.pixels.size(0);
  const auto tokens = batch.ids.eq(image_token_).logical_and(batch.mask).sum().item<int64_t>();
  check(tokens % pictures == 0, "the text has ", tokens, " image tokens (", image_token_, ") for ", pictures,
        " pictures of one size; they must match");
  const auto count = static_cast<size_t>(pictures);
  return {std::vector<int64_t>(count, 1), std::vector<int64_t>(count, tokens / pictures)};
}

Batch PretrainedBackbone::looking_rows(const Batch& batch, const std::vector<int64_t>& rows) const {
  const auto sizes = picture_sizes(batch);
  const auto samples = picture_samples(batch, sizes.tokens);
  std::vector<int64_t> pictures, pixels;
  for (const int64_t row : rows) {
    int64_t begin = 0;
    for (size_t p = 0; p < samples.size(); begin += sizes.rows[p++]) {
      if (samples[p] != row) continue;
      pictures.push_back(static_cast<int64_t>(p));
      for (int64_t i = 0; i < sizes.rows[p]; ++i) pixels.push_back(begin + i);
    }
  }
  const auto picked = [](const torch::Tensor& t, const std::vector<int64_t>& index) {
    return t.index_select(0, torch::tensor(index, at::kLong).to(t.device()));
  };
  Batch out;
  out.ids = picked(batch.ids, rows);
  out.mask = picked(batch.mask, rows);
  out.pixels = picked(batch.pixels, pixels);
  if (batch.image_grid.defined()) out.image_grid = picked(batch.image_grid, pictures);
  return out;
}

torch::Tensor PretrainedBackbone::seen_once(const Batch& batch, const Pass& pass, VisualLook* look) const {
  const auto groups = groups_of(batch, pass);
  if (!groups.shared()) return visual_tokens(batch, pass, look);
  AnsweringPass own(pass);
  own.keep_rows(torch::tensor(groups.leads, at::kLong).to(device()));
  const auto seen = visual_tokens(looking_rows(batch, groups.leads), own.pass(), look);
  if (look && look->states) {
    const auto group = torch::tensor(groups.group, at::kLong).to(device());
    for (auto* states : {&look->tower.first, &look->tower.max, &look->tower.mean})
      *states = states->index_select(0, group);
  }
  const auto counts = batch.ids.eq(image_token_).logical_and(batch.mask).sum(1).cpu();
  const auto tokens = [&](int64_t row) { return counts.data_ptr<int64_t>()[row]; };
  std::vector<int64_t> begin = {0}, index;
  for (const int64_t lead : groups.leads) begin.push_back(begin.back() + tokens(lead));
  for (int64_t row = 0; row < batch.size(); ++row) {
    const auto g = static_cast<size_t>(groups.group[static_cast<size_t>(row)]);
    check(tokens(row) == begin[g + 1] - begin[g], "rows of a batch are said to show the same pictures, but have ",
          tokens(row), " and ", begin[g + 1] - begin[g], " image tokens");
    for (int64_t i = begin[g]; i < begin[g + 1]; ++i) index.push_back(i);
  }
  return seen.index_select(0, torch::tensor(index, at::kLong).to(seen.device()));
}

// What a gate makes of a whole sequence, it cannot make of a prefix; and inserted vectors are each row's own.
bool PretrainedBackbone::shares_prefixes(const TextColumns& text, const Pass& pass) const {
  if (!options_.prefixes_shared || text.inserted.defined()) return false;
  for (const auto& l : text_.decoder.layers)
    for (const auto* linear : {&l.q, &l.k, &l.v, &l.o, &l.gate, &l.up, &l.down})
      if (reads_sequence(*linear, pass)) return false;
  return true;
}

KvCache PretrainedBackbone::read_prefix(const SharedPrefix& prefix, const RowGroups& groups, const Batch& batch,
                                        const Pass& pass) const {
  AnsweringPass own(pass);
  own.keep_rows(torch::tensor(groups.leads, at::kLong).to(device()));
  const auto in = inputs(looking_rows(batch, groups.leads), {prefix.ids, prefix.mask, {}}, own.pass(), nullptr);
  KvCache out;  // without room: nothing is added to it
  text_.decoder(in.x, {.positions = in.positions, .mask = prefix.mask, .cache = &out}, own.pass());
  return out;
}

PretrainedBackbone::ReadPrompt PretrainedBackbone::read_prompt(const Batch& batch, const TextColumns& text,
                                                               const Pass& pass, int64_t limit) const {
  const int64_t longest = text.ids.size(1);
  ReadPrompt out;
  SharedPrefix prefix;
  RowGroups groups;
  if (shares_prefixes(text, pass)) {
    groups = groups_of(batch, pass);
    prefix = shared_prefix(text.ids, text.mask, groups, image_token_);
  }
  if (!prefix.ids.defined()) {
    const auto in = inputs(batch, text, pass, nullptr);
    out.positions = in.positions;
    out.cache.room = longest + limit;
    out.hidden = text_.decoder(in.x, {.positions = in.positions, .mask = text.mask, .cache = &out.cache}, pass);
    return out;
  }
  check_tokens(text.ids);
  const int64_t suffix = prefix.suffix();
  out.positions = positions(batch, text.ids, text.mask);
  out.cache = read_prefix(prefix, groups, batch, pass)
                  .spread(torch::tensor(groups.group, at::kLong).to(device()), prefix.ids.size(1) + suffix + limit);
  const auto words = at::embedding(text_.embedding, text.ids.narrow(1, longest - suffix, suffix)).to(compute_type());
  const auto behind = out.positions.narrow(-1, longest - suffix, suffix);
  out.hidden = text_.decoder(words, {.positions = behind, .mask = prefix.suffix_mask, .cache = &out.cache}, pass);
  return out;
}

std::vector<std::vector<int64_t>> PretrainedBackbone::generate(const Batch& batch, const Pass& pass,
                                                               int64_t limit) const {
  return continue_greedily(batch, batch.mask.logical_and(batch.labels.lt(0)), pass, limit, /*fill=*/false);
}

std::vector<std::vector<int64_t>> PretrainedBackbone::continue_greedily(const Batch& given, const torch::Tensor& chosen,
                                                                        const Pass& pass, int64_t limit,
                                                                        bool fill) const {
  at::NoGradGuard no_grad;
  const auto room = make_room(given, image_token_, filler());
  const auto& batch = room.batch;
  const auto prompt = room.count == 0 ? chosen : room.inserted.scatter(1, room.own_columns(), chosen);
  const auto aligned = right_aligned(prompt);
  const int64_t longest = aligned.column.size(1);
  TextColumns text;
  text.mask = aligned.real;
  text.ids = at::where(aligned.real, batch.ids.gather(1, aligned.column), at::full_like(aligned.column, filler()));
  if (room.count) text.inserted = room.inserted.gather(1, aligned.column).logical_and(aligned.real);
  check(longest + limit <= context(), "a prompt of ", longest, " tokens and ", limit,
        " new ones do not fit into the context of ", context(), " tokens of ", name());
  AnsweringPass answering(pass);
  auto read = read_prompt(batch, text, answering.pass(), limit);
  const bool parts = read.positions.dim() == 3;
  const auto seen = read.positions.masked_fill(aligned.real.logical_not(), 0);

  GreedyLoop loop;
  loop.logits = [this](const torch::Tensor& state) { return text_.logits(state); };
  loop.advance = [&](const torch::Tensor& ids, const torch::Tensor& position) {
    const auto positions = parts ? position.unsqueeze(0).expand({3, -1, -1}) : position;
    return text_.decoder(at::embedding(text_.embedding, ids).to(compute_type()),
                         {.positions = positions, .cache = &read.cache}, answering.pass());
  };
  loop.keep_rows = [&](const torch::Tensor& rows) {
    read.cache.keep_rows(rows);
    answering.keep_rows(rows);
  };
  loop.end_tokens = end_tokens_;
  loop.filler = filler();
  loop.limit = limit;
  loop.fill = fill;
  loop.leave_at = rows_leave_at(options_.ended_rows_leave, device());
  return decode_greedily(loop, read.hidden, (parts ? seen.amax({0, 2}) : seen.amax(1)).unsqueeze(1) + 1);
}

}  // namespace asr
