// Adapt-infinity (Maharana et al., ICLR 2025): a pool of raw samples of all stages. Before a stage a balanced training
// set is chosen from pool and new data together: samples are clustered by the gradients of their own losses, every
// cluster gets a budget, and its samples are drawn so that they cover the score that tells them apart best. Afterwards
// the pool loses, for good, what is most like the rest. Choice and pruning are both made of what is measured before
// the stage's first step.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "data/drawn_rows.h"
#include "data/probe.h"
#include "data/replay_buffer.h"
#include "methods/method.h"
#include "methods/terms/recipes.h"
#include "methods/terms/selection.h"
#include "methods/terms/sites.h"

namespace asr {

enum class ClusterBudget { equal, deviation };
template <>
struct EnumNames<ClusterBudget> {
  static constexpr const char* names[] = {"equal", "deviation"};
};
namespace {

constexpr uint64_t kProjectionKey = 0xada97;

class AdaptInf final : public Method {
 public:
  Keeps keeps() const override { return Keeps::samples; }
  void visit(OptionVisitor& visitor) override {
    visitor("buffer", buffer_size_, 1, 1000000000, "samples of the pool that stay after a stage");
    visitor("selected", selected_, 0.001, 1, "samples that a stage trains on, as a part of its own number");
    visitor("samples", samples_, 0, int64_t(1) << 40,
            "of a stage, drawn at random, that are measured and may be chosen and kept; 0: all");
    visitor("clusters", clusters_, 1, 100000, "of gradients, among which selection and pool are balanced");
    visitor("layer", layer_, 0, 1000, "of the language model, whose adapters' gradients are clustered; 0: the last");
    visitor("dimension", dimension_, 1, 1 << 20, "numbers of a gradient; a longer one is projected by random signs");
    visitor("histogram", histogram_,
            "of standardised scores: over +-4, or as released over +-4 of their deviations before");
    visitor("perplexity", perplexity_, "exp of the mean loss, or as released the mean of exp of the tokens' losses");
    visitor("budget", budget_, "of clusters: equal shares, or by the deviation of EL2N in each");
    visitor("keep", keep_.keep,
            "pictures as the bytes of their files (PNG where they are drawn), or the files' paths alone");
  }
  std::vector<Assignment> native() const override { return llava_recipe(128, 256); }
  void prepare(Backbone&, const Options&) override { buffer_ = ReplayBuffer(keep_); }

  // One phase over the selection, whatever groups the stage's own data has.
  void plan(const PhasePlan& stage, std::vector<Phase>& phases) const override {
    check(stage.layers == 0 || layer_ <= stage.layers, "adapt-inf.layer: ", layer_,
          " is no layer of the language model, which has ", stage.layers);
    Phase whole;
    for (const auto& phase : phases) {
      if (!phase.of_method.empty()) continue;
      whole.samples += phase.samples;
      whole.steps += phase.steps;
    }
    const int64_t chosen = chosen_of(whole.samples);
    const double part = static_cast<double>(chosen) / static_cast<double>(whole.samples);
    whole.steps = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(part * static_cast<double>(whole.steps) - 1e-9)));
    whole.samples = chosen;
    const auto own = [](const Phase& phase) { return phase.of_method.empty(); };
    const auto first = std::find_if(phases.begin(), phases.end(), own);
    *first = whole;
    phases.erase(std::remove_if(first + 1, phases.end(), own), phases.end());
  }

  void begin_stage(StageContext& stage) override {
    const int64_t pool = buffer_.size(), wanted = chosen_of(stage.data.size());
    auto rows = range(0, pool);
    for (const int64_t row : drawn_rows(stage.data.size(), samples_, key_of(stage, 0))) rows.push_back(pool + row);
    const auto count = static_cast<int64_t>(rows.size());
    const auto as_tensor = [](const std::vector<int64_t>& list) { return torch::tensor(list, at::kLong); };
    chosen_ = wanted < pool + stage.data.size() ? as_tensor(rows) : torch::Tensor();
    survivors_ = as_tensor(rows);
    if (wanted == count && count <= buffer_size_) return;
    const auto seen = measured(stage, *pool_and_new(stage), rows);
    const auto groups = rows_by_cluster(clusters_of(seen.vectors, {clusters_, 1024, 100, key_of(stage, 1)}));
    const auto all = as_tensor(rows);
    if (wanted < count) chosen_ = all.index_select(0, as_tensor(chosen_rows(seen, groups, wanted, key_of(stage, 2))));
    if (count > buffer_size_)
      survivors_ = all.index_select(0, as_tensor(least_alike(seen.vectors, groups, buffer_size_)));
  }

  std::shared_ptr<SampleSet> training_set(StageContext& stage) override {
    if (!chosen_.defined()) return nullptr;
    return pool_and_new(stage)->subset(numbers(chosen_));
  }

  void after_stage(StageContext& stage) override {
    const int64_t pool = buffer_.size();
    std::vector<int64_t> old, fresh;
    for (const int64_t row : numbers(survivors_)) (row < pool ? old : fresh).push_back(row < pool ? row : row - pool);
    buffer_.keep_only(old);
    buffer_.add(stage.data, fresh, stage.stage, stage.team);
    chosen_ = survivors_ = torch::Tensor();
  }

  void state(StateVisitor& visitor) override {
    buffer_.state(visitor);
    visitor.tensor("chosen", StateKind::statistics, chosen_);
    visitor.tensor("survivors", StateKind::statistics, survivors_);
  }
  std::vector<StateShape> kept(const StateSizes&) const override {
    auto out = replay_shapes();
    for (const char* rows : {"chosen", "survivors"})
      out.push_back({rows, StateKind::statistics, {kAnySize}, Lasts::stage});
    return out;
  }

  MethodCosts costs(const CostContext& run) const override {
    MethodCosts out;
    double pool = 0, measured_samples = 0, most = 0;
    for (const double count : run.task_samples) {
      const double fresh = samples_ > 0 ? std::min(count, static_cast<double>(samples_)) : count;
      const bool all = pool == 0 && selected_ == 1 && fresh == count && fresh <= static_cast<double>(buffer_size_);
      if (!all) measured_samples += pool + fresh;
      if (!all) most = std::max(most, pool + fresh);
      pool = std::min(static_cast<double>(buffer_size_), pool + fresh);
    }
    out.backward_samples = measured_samples;
    out.forward_samples = measured_samples;  // with a blank picture
    out.checkpoint_bytes = keep_.keep == KeepPictures::files ? 0 : run.kept_picture_bytes(buffer_size_);
    out.host_bytes = out.checkpoint_bytes + 4 * most * static_cast<double>(dimension_);
    return out;
  }

 private:
  struct Seen {
    torch::Tensor vectors;                    // [N, numbers], of length 1
    std::vector<std::vector<double>> scores;  // log PPL, EL2N, entropy, gradient norm, image grounding; of each row
  };
  static constexpr size_t kEl2n = 1;

  static std::vector<int64_t> numbers(const torch::Tensor& list) {
    const auto host = list.cpu().contiguous();
    return {host.data_ptr<int64_t>(), host.data_ptr<int64_t>() + host.numel()};
  }
  static uint64_t key_of(const StageContext& stage, uint64_t purpose) {
    return Random({stage.seed, 0xada9, static_cast<uint64_t>(stage.stage), purpose}).next();
  }
  int64_t chosen_of(int64_t count) const {
    const auto wanted = std::max<int64_t>(1, std::llround(selected_ * static_cast<double>(count)));
    return samples_ > 0 ? std::min(wanted, samples_) : wanted;
  }

  std::shared_ptr<SampleSet> pool_and_new(const StageContext& stage) {
    if (buffer_.size() == 0) return concatenate({&stage.data});
    buffer_.open(stage.data);
    buffer_.samples().keep_features(stage.team);
    auto out = concatenate({&buffer_.samples(), &stage.data});
    out->name = cat(stage.data.name, " and the pool");
    return out;
  }

  // Those of one layer of the language model that are trained.
  std::vector<torch::Tensor> adapters_of_layer(const AdapterBank& bank) const {
    std::map<int64_t, std::vector<torch::Tensor>> by_layer;
    const auto trained = bank.trained();
    for (const auto& site : sequence_sites(bank.sites())) {
      for (const auto& [name, tensor] : trained) {
        const auto place = name.find(':') == std::string::npos ? 0 : name.find(':') + 1;
        if (name.compare(place, site.name.size() + 6, site.name + ".lora_") == 0)
          by_layer[site.layer].push_back(tensor);
      }
    }
    check(!by_layer.empty(), "adapt-inf looks at gradients of the language model's adapters, and none is trained");
    const int64_t last = by_layer.rbegin()->first, layer = layer_ > 0 ? layer_ - 1 : last;
    check(by_layer.count(layer) > 0, "adapt-inf.layer: no adapter is trained in layer ", layer_, "; the last is ",
          last + 1);
    return by_layer[layer];
  }

  // Log PPL, and EL2N and entropy beside it, of logits of a batch's samples: [samples, 3] in double.
  torch::Tensor scores_of(const Objective& objective, const torch::Tensor& logits, const SampleBatch& batch) const {
    const auto targets = objective.targets(batch);
    const RowOwners owners{objective.owners(batch), batch.size()};
    const auto losses = at::cross_entropy_loss(logits.to(at::kFloat), targets, {}, at::Reduction::None);
    return at::cat({log_perplexities(losses, owners, perplexity_).unsqueeze(1), uncertainty(logits, targets, owners)},
                   1);
  }

  // Log PPL, EL2N, entropy and the norm of its gradient, and then the gradient, of every row: [rows, 4 + numbers].
  torch::Tensor with_pictures(const StageContext& stage, Probe& probe) const {
    const auto parameters = adapters_of_layer(stage.bank);
    int64_t length = 0;
    for (const auto& tensor : parameters) length += tensor.numel();
    SignProjection project(length, dimension_, kProjectionKey);
    torch::Tensor scores;  // of the samples whose gradients come next
    probe.loss = [&](const SampleBatch& batch, const Pass& pass) {
      auto routed = stage.training(batch);
      if (pass.given) routed.given.insert(pass.given->begin(), pass.given->end());
      Want want;
      want.loss = false;
      stage.objective.ask_for_loss(want);
      stage.objective.ask_for_logits(want);
      const auto seen = routed.seen(batch);
      const auto out = stage.model.forward(seen.input, routed.pass(), want);
      scores = scores_of(stage.objective, stage.objective.logits(out).detach(), seen);
      const auto each = at::full({batch.size()}, static_cast<double>(batch.size()), scores.options().dtype(at::kFloat));
      return stage.objective.loss(out, seen, each);
    };
    return sample_gradients_together(probe, stage.bank.sites(), parameters, [&](const torch::Tensor& gradients) {
      return at::cat({scores.to(at::kFloat), gradients.norm(2, 1, true), project(gradients)}, 1);
    });
  }

  Seen measured(const StageContext& stage, const SampleSet& set, const std::vector<int64_t>& rows) const {
    Probe probe{stage.model, set, rows, stage.team};
    probe.batch = stage.batch_size;
    const auto found = with_pictures(stage, probe);
    check(at::isfinite(found).all().item<bool>(), "stage ", stage.stage,
          ": the gradient of a sample holds what is no number; lower learning_rate");
    probe.batch = set.pass_samples();
    const auto blank = blank_losses(probe, [&](const SampleBatch& batch) {
      const auto routed = stage.training(batch);
      const auto seen = routed.seen(batch);
      const auto logits = stage.objective.logits_of(stage.model, seen, routed.pass());
      return scores_of(stage.objective, logits, seen).select(1, 0);
    });
    constexpr int64_t kScores = 4;
    const auto vectors = found.narrow(1, kScores, found.size(1) - kScores);
    Seen out{(vectors / vectors.norm(2, 1, true).clamp_min(1e-12)).to(stage.model.device()), {}};
    const auto add = [&](const torch::Tensor& score) {
      const auto values = score.to(at::kDouble).contiguous();
      out.scores.emplace_back(values.data_ptr<double>(), values.data_ptr<double>() + values.numel());
    };
    for (int64_t column = 0; column < kScores; ++column) add(found.select(1, column));
    add((blank - found.select(1, 0)).exp());
    return out;
  }

  std::vector<int64_t> chosen_rows(const Seen& seen, const std::vector<std::vector<int64_t>>& groups, int64_t wanted,
                                   uint64_t key) const {
    const auto values = [&](size_t score, const std::vector<int64_t>& group) {
      std::vector<double> out;
      for (const int64_t row : group) out.push_back(seen.scores[score][static_cast<size_t>(row)]);
      return out;
    };
    std::vector<int64_t> sizes, out;
    std::vector<double> weights;
    for (const auto& group : groups) {
      sizes.push_back(static_cast<int64_t>(group.size()));
      weights.push_back(budget_ == ClusterBudget::equal ? 1 : deviation_of(values(kEl2n, group)));
    }
    const auto budgets = shared_out(wanted, sizes, weights);
    for (size_t c = 0; c < groups.size(); ++c) {
      size_t best = 0;
      for (size_t score = 1; score < seen.scores.size(); ++score)
        if (score_entropy(values(score, groups[c]), histogram_) > score_entropy(values(best, groups[c]), histogram_))
          best = score;
      for (const int64_t i : covering_draw(values(best, groups[c]), budgets[c], Random({key, c}).next()))
        out.push_back(groups[c][static_cast<size_t>(i)]);
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  int64_t buffer_size_ = 500, samples_ = 0, clusters_ = 10, layer_ = 0, dimension_ = 8192;
  double selected_ = 1;
  ScoreHistogram histogram_ = ScoreHistogram::sound;
  PerplexityForm perplexity_ = PerplexityForm::sound;
  ClusterBudget budget_ = ClusterBudget::equal;
  ReplayOptions keep_;
  ReplayBuffer buffer_;
  torch::Tensor chosen_, survivors_;  // rows of pool and new data, for as long as the stage lasts
};

}  // namespace

std::unique_ptr<Method> make_adapt_inf_method() {
  return std::make_unique<AdaptInf>();
}

}  // namespace asr
