// Experience replay: a bounded buffer of raw samples with an equal quota for every seen stage, mixed into batches at
// current : replay = 3 : 1. The loss is the plain mean over the mixed batch.
#include <algorithm>

#include "base/random.h"
#include "data/replay_buffer.h"
#include "methods/method.h"

namespace asr {
namespace {

class Er final : public Method {
 public:
  Keeps keeps() const override { return Keeps::samples; }
  void visit(OptionVisitor& visitor) override {
    visitor("buffer", buffer_size_, 1, 1000000000, "samples kept in all, in equal shares of the stages seen");
    visitor("share", share_, 0.01, 0.99, "part of the samples trained on that is replayed");
    visitor("keep", keep_.keep,
            "pictures as the bytes of their files (PNG where they are drawn), or the files' paths alone");
  }
  void prepare(Backbone&, const Options&) override { buffer_ = ReplayBuffer(keep_); }
  void before_stage(StageContext& stage) override { buffer_.open(stage.data); }
  double replay_share(int stage) const override { return stage == 1 ? 0 : share_; }

  void mix_batch(SampleBatch& batch, Share& share, const Backbone& model, uint64_t key) override {
    const auto rows = buffer_.draw(share.room, key);
    share.room -= static_cast<int64_t>(rows.size());
    const auto mine = part_of(static_cast<int64_t>(rows.size()), share.team);
    const int64_t first = share.whole + mine.begin;
    share.whole += static_cast<int64_t>(rows.size());
    if (mine.size() == 0) return;
    std::optional<uint64_t> augment;
    if (batch.augmentation) augment = Random({*batch.augmentation, 0xe4}).next();
    auto replay = buffer_.rows({rows.begin() + mine.begin, rows.begin() + mine.end}, augment);
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
    buffer_.share_out(stage.data, {buffer_size_, stage.stage, stage.seed}, stage.team);
  }
  void state(StateVisitor& visitor) override { buffer_.state(visitor); }

  std::vector<StateShape> kept(const StateSizes&) const override { return replay_shapes(); }

  MethodCosts costs(const CostContext& run) const override {
    MethodCosts out;
    if (keep_.keep == KeepPictures::files) return out;
    out.host_bytes = out.checkpoint_bytes = run.kept_picture_bytes(buffer_size_);
    return out;
  }

 private:
  int64_t buffer_size_ = 500;
  double share_ = 0.25;
  ReplayOptions keep_;
  ReplayBuffer buffer_;
};

}  // namespace

std::unique_ptr<Method> make_er_method() {
  return std::make_unique<Er>();
}

}  // namespace asr
