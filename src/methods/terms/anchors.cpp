#include "methods/terms/anchors.h"

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "data/drawn_rows.h"
#include "data/measure.h"
#include "data/walk.h"

namespace asr {

Needs SpectrumView::needs() const {
  Needs out;
  out.tap = true;
  return out;
}

const SpectralEncoder& SpectrumView::encoder(const Output& output) {
  if (!encoder_)
    encoder_ = std::make_unique<SpectralEncoder>(output.attention.size(4), output.attention.size(5), options_);
  return *encoder_;
}

torch::Tensor SpectrumView::see(const SampleBatch& batch, const Output& output) {
  return encoder(output).descriptor(output.attention, row_weights(batch.input, output));
}

namespace {

// What goes through the model together.
struct AnchorBlock {
  std::vector<int64_t> rows;
  std::optional<uint64_t> augment;
};

// Every sample of the schedule once under each of its keys: pass after pass, and by row where nothing is augmented, so
// that blocks do not depend on how passes are cut.
std::vector<AnchorBlock> blocks_of(const StageContext& stage, int64_t samples) {
  const auto schedule = stage.schedule();
  std::vector<std::pair<size_t, int64_t>> all;  // the first pass with that key, and the row
  bool augmented = false;
  for (size_t pass = 0; pass < schedule.size(); ++pass) {
    augmented = augmented || schedule[pass].augment.has_value();
    for (const int64_t row : schedule[pass].rows) all.emplace_back(augmented ? pass : 0, row);
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  const auto drawn =
      drawn_rows(static_cast<int64_t>(all.size()), samples, draw_key(DrawPurpose::anchors, stage.seed, stage.stage));
  const auto most = static_cast<size_t>(augmented ? stage.batch_size : stage.data.pass_samples());
  std::vector<AnchorBlock> out;
  for (const int64_t i : drawn) {
    const auto& [pass, row] = all[static_cast<size_t>(i)];
    const auto augment = schedule[pass].augment;
    if (out.empty() || out.back().augment != augment || out.back().rows.size() == most) out.push_back({{}, augment});
    out.back().rows.push_back(row);
  }
  return out;
}

}  // namespace

void Anchors::clear() {
  place_.clear();
  table_ = torch::Tensor();
}

void Anchors::measure(const StageContext& stage, AnchorView& view, int64_t samples) {
  at::NoGradGuard no_grad;
  clear();
  stage_ = stage.stage;
  const auto blocks = blocks_of(stage, samples);
  Want want;
  want.loss = false;
  const auto needs = view.needs();
  want.tap_layers = needs.tap ? stage.tap_layers : 0;
  want.pooled = needs.pooled;
  if (needs.logits) stage.objective.ask_for_logits(want);
  std::vector<torch::Tensor> mine;
  const Walk over{cat("anchors of ", stage.data.name, ", batches"), static_cast<int64_t>(blocks.size()), 1};
  each_block(over, stage.team, [&](Part here, Part next) {
    const auto& [rows, augment] = blocks[static_cast<size_t>(here.begin)];
    auto batch = stage.data.training_rows(rows, augment);
    if (next.size() > 0) {
      const auto& later = blocks[static_cast<size_t>(next.begin)];
      stage.data.prefetch(later.rows, later.augment);
    }
    for (auto& info : batch.info) info.stage = stage.stage;
    const auto routed = stage.training(batch);
    auto output = stage.model.forward(routed.seen(batch).input, routed.pass(), want);
    if (needs.logits) output.logits = stage.objective.logits(output);
    mine.push_back(view.see(batch, output).to(at::kCPU, at::kFloat));
  });
  table_ = stage.team.gather(mine.empty() ? at::empty({0}, at::kFloat) : at::cat(mine));
  for (const auto& block : blocks)
    for (const int64_t row : block.rows)
      place_.emplace(Key{block.augment.value_or(0), row}, static_cast<int64_t>(place_.size()));
}

void Anchors::shuffle(uint64_t key) {
  auto order = range(0, table_.size(0));
  Random({key}).shuffle(order);
  auto next = order;
  std::rotate(next.begin(), next.begin() + 1, next.end());
  const auto from = table_.index_select(0, torch::tensor(next, at::kLong));
  table_ = torch::empty_like(table_).index_copy_(0, torch::tensor(order, at::kLong), from);
}

Anchors::Found Anchors::of(const StepContext& step) const {
  const auto size = static_cast<size_t>(step.batch.size());
  std::vector<int64_t> place(size, 0);
  std::vector<float> has(size, 0);
  const auto own = step.share.positions.empty() ? 0 : std::min(size, step.rows.size());
  for (size_t i = 0; i < own; ++i) {
    if (step.batch.info[i].stage != stage_) continue;
    const auto found = place_.find({step.batch.augmentation.value_or(0), step.rows[i]});
    if (found == place_.end()) continue;
    place[i] = found->second;
    has[i] = 1;
  }
  const auto device = step.model.device();
  const auto known = torch::tensor(has, at::kFloat).unsqueeze(1).to(device);
  return {table_.index_select(0, torch::tensor(place, at::kLong)).to(device) * known, known};
}

}  // namespace asr
