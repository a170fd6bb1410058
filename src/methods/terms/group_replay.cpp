#include "methods/terms/group_replay.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/random.h"

namespace asr {
namespace {

constexpr uint64_t kReplayKey = 0x96e9;

using RowsByGroup = std::map<std::string, std::vector<int64_t>>;

}  // namespace

void GroupReplay::visit(OptionVisitor& visitor) {
  visitor("buffer", capacity_, 1, 1000000000, "samples kept in all, in equal shares of stages and their object groups");
  visitor("keep", keep_.keep,
          "pictures as the bytes of their files (PNG where they are drawn), or the files' paths alone");
}

void GroupReplay::open(const StageContext& stage) {
  buffer_.open(stage.data);
  batch_size_ = stage.batch_size;
}

void GroupReplay::note(const SampleBatch& batch) {
  features_ = batch.input.features.defined();
  references_ = batch.reference_image.defined();
  augmentation_ = batch.augmentation;
}

void GroupReplay::note(const Phase& phase) {
  replays_ = phase.of_method.empty();
  group_ = replays_ ? phase.name : "";
}

std::vector<int64_t> GroupReplay::draw(int64_t wanted, uint64_t key) const {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < buffer_.size(); ++i)
    if (!group_.empty() && buffer_.info(i).group == group_) rows.push_back(i);
  if (rows.empty()) return buffer_.draw(wanted, key);
  Random({key, kReplayKey}).shuffle(rows);
  rows.resize(std::min(rows.size(), static_cast<size_t>(wanted)));
  return rows;
}

bool GroupReplay::fill(OwnBatch& own, const Backbone& model, uint64_t key) const {
  if (buffer_.size() == 0 || !replays_) return false;
  const auto drawn = draw(batch_size_ * own.passes, key);
  const auto here = part_of(static_cast<int64_t>(drawn.size()), own.pass, own.passes);
  if (here.size() == 0) return false;
  own.part = static_cast<double>(here.size()) / static_cast<double>(drawn.size());
  const std::vector<int64_t> rows(drawn.begin() + here.begin, drawn.begin() + here.end);
  const auto mine = part_of(static_cast<int64_t>(rows.size()), own.share.team);
  own.share.whole = static_cast<int64_t>(rows.size());
  own.share.positions = range(mine.begin, mine.end);
  const auto held = mine.size() > 0 ? mine : Part{0, 1};  // a stand-in where there are fewer samples than processes
  std::optional<uint64_t> augment;
  if (augmentation_) augment = Random({*augmentation_, kReplayKey}).next();
  own.batch = buffer_.rows({rows.begin() + held.begin, rows.begin() + held.end}, augment);
  if (features_) {
    at::NoGradGuard no_grad;
    own.batch.input.features = model.encode_images(own.batch.input.pixels);
    own.batch.input.pixels = torch::Tensor();
  }
  if (references_) add_reference(own.batch, model);
  return true;
}

void GroupReplay::share_out(const StageContext& stage) {
  std::map<int, RowsByGroup> old;
  RowsByGroup fresh;
  std::set<std::string> groups;
  for (int64_t i = 0; i < buffer_.size(); ++i) {
    old[buffer_.info(i).stage][buffer_.info(i).group].push_back(i);
    groups.insert(buffer_.info(i).group);
  }
  for (int64_t i = 0; i < stage.data.size(); ++i) {
    fresh[stage.data.info(i).group].push_back(i);
    groups.insert(stage.data.info(i).group);
  }
  const auto shares = static_cast<int64_t>(groups.size()) * stage.stage;
  const auto quota = static_cast<size_t>(std::max<int64_t>(1, capacity_ / shares));
  Random random({stage.seed, kReplayKey, static_cast<uint64_t>(stage.stage)});
  const auto drawn = [&](RowsByGroup& of, std::vector<int64_t>& out) {
    for (auto& [group, rows] : of) {
      random.shuffle(rows);
      rows.resize(std::min(rows.size(), quota));
      std::sort(rows.begin(), rows.end());
      out.insert(out.end(), rows.begin(), rows.end());
    }
  };
  std::vector<int64_t> kept, chosen;
  for (auto& [number, of] : old) drawn(of, kept);
  drawn(fresh, chosen);
  buffer_.keep_only(kept);
  buffer_.add(stage.data, chosen, stage.stage, stage.team);
}

std::vector<Assignment> GroupReplay::recipe() {
  return {{"learning_rate", "1e-4", ""},
          {"per_device_train_batch_size", "80", ""},
          {"num_train_epochs", "3", ""},
          {"warmup_ratio", "0.1", ""},
          {"max_grad_norm", "5", ""}};
}

std::vector<StateShape> GroupReplay::kept() {
  constexpr int64_t any = kAnySize;
  return {{"pictures", StateKind::sample, {any}},
          {"picture_ends", StateKind::sample, {any}},
          {"posterior", StateKind::sample, {any, any}},
          {"texts", StateKind::question, {any}},
          {"stage", StateKind::sample, {any}}};
}

MethodCosts GroupReplay::costs(const CostContext& run) const {
  MethodCosts out;
  // A step on the buffer after every step from the second stage on.
  const double first = run.task_samples.empty() ? 0 : run.task_samples[0];
  out.backward_samples = run.epochs * (run.samples() - first);
  if (keep_.keep == KeepPictures::files) return out;
  constexpr double kEncoded = 1.0 / 7;  // of a decoded picture: 640 x 480 as a JPEG of about 130 KB
  out.host_bytes = std::min(static_cast<double>(capacity_), run.samples()) * run.picture_bytes * kEncoded;
  out.checkpoint_bytes = out.host_bytes;
  return out;
}

}  // namespace asr
