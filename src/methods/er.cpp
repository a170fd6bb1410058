// Experience replay: a bounded buffer of raw samples with an equal quota for every seen stage, mixed into each batch at
// current : replay = 3 : 1. The loss is the plain mean over the mixed batch.
#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "methods/method.h"

namespace asr {
namespace {

class Er final : public Method {
 public:
  Keeps keeps() const override { return Keeps::samples; }
  void visit(OptionVisitor& visitor) override {
    visitor("buffer", buffer_size_, 1, 1000000000, "samples kept in all, in equal shares of the stages seen");
    visitor("share", share_, 0.01, 0.99, "part of a batch that is replayed");
  }
  void before_stage(StageContext& stage) override {  // a buffer read from a checkpoint knows no model
    buffer_.packer = stage.data.packer, buffer_.analyser = stage.data.analyser, buffer_.prompt = stage.data.prompt;
  }
  int64_t current_rows(int64_t batch, int stage) const override {
    if (stage == 1) return batch;  // asked before the run begins, too: whatever the buffer holds then
    return std::clamp<int64_t>(batch - std::lround(share_ * static_cast<double>(batch)), 1, batch);
  }

  void mix_batch(SampleBatch& batch, Share& share, const Backbone& model, uint64_t key) override {
    if (buffer_.size() == 0) return;
    const double ratio = share_ / (1 - share_);
    const auto wanted = std::max<int64_t>(1, std::lround(ratio * static_cast<double>(share.whole)));
    Random random({key, 0xe4});
    auto rows = range(0, buffer_.size());
    random.shuffle(rows);
    rows.resize(static_cast<size_t>(std::min(wanted, buffer_.size())));
    const auto mine = part_of(static_cast<int64_t>(rows.size()), share.team);
    const int64_t first = share.whole + mine.begin;
    share.whole += static_cast<int64_t>(rows.size());
    if (mine.size() == 0) return;
    auto replay = buffer_.rows({rows.begin() + mine.begin, rows.begin() + mine.end});
    if (batch.input.features.defined()) {
      at::NoGradGuard no_grad;
      replay.input.features = model.encode_images(replay.input.pixels);
      replay.input.pixels = torch::Tensor();
    }
    if (batch.reference_image.defined()) add_reference(replay, model);
    batch = share.positions.empty() ? replay : join(batch, replay);
    for (const int64_t position : range(first, first + mine.size())) share.positions.push_back(position);
  }

  void after_stage(StageContext& stage) override {
    const int64_t quota = std::max<int64_t>(1, buffer_size_ / stage.stage);
    Random random({stage.seed, 0xb0ff, static_cast<uint64_t>(stage.stage)});
    std::vector<int64_t> kept;
    for (int old = 1; old < stage.stage; ++old) {
      std::vector<int64_t> rows;
      for (int64_t i = 0; i < buffer_.size(); ++i)
        if (stage_of_[static_cast<size_t>(i)] == old) rows.push_back(i);
      random.shuffle(rows);
      rows.resize(static_cast<size_t>(std::min<int64_t>(quota, static_cast<int64_t>(rows.size()))));
      std::sort(rows.begin(), rows.end());
      kept.insert(kept.end(), rows.begin(), rows.end());
    }
    auto fresh = range(0, stage.data.size());
    random.shuffle(fresh);
    fresh.resize(static_cast<size_t>(std::min(quota, stage.data.size())));
    std::sort(fresh.begin(), fresh.end());
    std::vector<int64_t> stages;
    for (const int64_t i : kept) stages.push_back(stage_of_[static_cast<size_t>(i)]);
    stages.insert(stages.end(), fresh.size(), stage.stage);
    auto added = subset(stage.data, fresh);
    buffer_ = kept.empty() ? std::move(added) : concatenate({subset(buffer_, kept), std::move(added)});
    stage_of_ = std::move(stages);
  }

  void state(StateVisitor& visitor) override {
    visit_samples(buffer_, visitor);
    auto stages = torch::tensor(stage_of_, at::kLong);
    visitor.tensor("stage", StateKind::statistics, stages);
    stages = stages.to(at::kCPU).contiguous();
    stage_of_.assign(stages.data_ptr<int64_t>(), stages.data_ptr<int64_t>() + stages.numel());
    check(static_cast<int64_t>(stage_of_.size()) == buffer_.size(), "the stored replay buffer is inconsistent");
  }

  std::vector<StateShape> kept(const StateSizes&) const override {
    constexpr int64_t any = kAnySize;
    return {{"pixels", StateKind::sample, {any, any, any, any}},
            {"image_bytes", StateKind::sample, {any}},
            {"image_sizes", StateKind::sample, {any, any}},
            {"ids", StateKind::question, {any, any}},
            {"labels", StateKind::answer, {any, any}},
            {"mask", StateKind::sample, {any, any}},
            {"question", StateKind::sample, {any, any}},
            {"functional", StateKind::sample, {any, any}},
            {"posterior", StateKind::sample, {any, any}},
            {"texts", StateKind::question, {any}},
            {"stage", StateKind::statistics, {any}}};
  }

  MethodCosts costs(const CostContext& run) const override {
    MethodCosts out;
    out.host_bytes = std::min(static_cast<double>(buffer_size_), run.samples()) * run.picture_bytes;
    out.checkpoint_bytes = out.host_bytes;
    return out;
  }

 private:
  static void visit_samples(SampleSet& set, StateVisitor& visitor) {
    visitor.tensor("pixels", StateKind::sample, set.pixels);
    visitor.tensor("image_bytes", StateKind::sample, set.image_bytes);
    visitor.tensor("image_sizes", StateKind::sample, set.image_sizes);
    visitor.tensor("ids", StateKind::question, set.ids), visitor.tensor("labels", StateKind::answer, set.labels);
    visitor.tensor("mask", StateKind::sample, set.mask), visitor.tensor("question", StateKind::sample, set.question);
    visitor.tensor("functional", StateKind::sample, set.functional);
    visitor.tensor("posterior", StateKind::sample, set.posterior);
    auto texts = texts_to_json(set.texts);
    visitor.text("texts", StateKind::question, texts);
    set.texts = texts_from_json(texts);
    set.length = lengths_of(set.mask), set.asked = lengths_of(set.question);
    set.features = torch::Tensor();
  }

  int64_t buffer_size_ = 500;
  double share_ = 0.25;
  SampleSet buffer_;
  std::vector<int64_t> stage_of_;
};

}  // namespace

std::unique_ptr<Method> make_er_method() {
  return std::make_unique<Er>();
}

}  // namespace asr
