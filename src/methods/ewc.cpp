// Elastic Weight Consolidation (Kirkpatrick et al. 2017): L = L_task + lambda sum_i F_i (theta_i - theta_i^old)^2, no
// factor 1/2, over the trained parameters. F is the mean squared gradient of the task loss over the finished stage, of
// blocks of a fixed number of samples: how a training step is split into passes or over processes does not change it.
#include <algorithm>

#include "base/error.h"
#include "data/drawn_rows.h"
#include "data/walk.h"
#include "methods/method.h"
#include "tensor/torch_compat.h"

namespace asr {

enum class Accumulate { latest, sum, online };
template <>
struct EnumNames<Accumulate> {
  static constexpr const char* names[] = {"latest", "sum", "online"};
};

namespace {

torch::Tensor flat(const NamedParameters& parameters) {
  std::vector<torch::Tensor> parts;
  for (const auto& [name, p] : parameters) parts.push_back(p.flatten());
  return at::cat(parts);
}

class Ewc final : public Method {
 public:
  bool needs_lasting_adapters() const override { return true; }
  void visit(OptionVisitor& visitor) override {
    visitor("lambda", lambda_, 0, 1e12, "weight of the penalty; 0: off");
    visitor("accumulate", accumulate_, "Fisher of the last stage alone, the sum over stages, or an online average");
    visitor("online_gamma", online_gamma_, 0, 1, "decay of the online average");
    visitor("fisher_batch", fisher_batch_, 1, 1000000,
            "samples whose mean gradient is squared, whatever the training batch; 1: the Fisher proper (slow)");
    visitor("samples", samples_, 0, 1000000000, "samples of the stage that F is measured on, drawn at random; 0: all");
  }

  void add_losses(StepContext& step) override {
    if (!fisher_.defined() || lambda_ == 0) return;
    step.add("ewc_loss",
             scaled((fisher_ * (flat(step.parameters) - anchor_).square()).sum() * lambda_, step.share.process()));
  }

  void after_stage(StageContext& stage) override {
    const auto drawn = drawn_rows(stage.data.size(), samples_, draw_key(DrawPurpose::fisher, stage.seed, stage.stage));
    const auto count = static_cast<int64_t>(drawn.size());
    const int64_t block = fisher_batch_;
    auto sum = torch::zeros_like(flat(stage.parameters)).detach();
    const int64_t blocks = (count + block - 1) / block;
    each_block({cat("Fisher information of ", stage.data.name), count, block}, stage.team, [&](Part rows, Part) {
      sum += block_gradient(stage, {drawn.begin() + rows.begin, drawn.begin() + rows.end}).square();
    });
    stage.team.sum(sum);
    const auto fisher = sum / static_cast<double>(blocks);
    at::NoGradGuard no_grad;
    if (!fisher_.defined() || accumulate_ == Accumulate::latest)
      fisher_ = fisher;
    else
      fisher_ = accumulate_ == Accumulate::sum ? fisher_ + fisher : fisher_ * online_gamma_ + fisher;
    anchor_ = flat(stage.parameters).detach().clone();
  }

  void state(StateVisitor& visitor) override {
    visitor.tensor("fisher", StateKind::statistics, fisher_);
    visitor.tensor("anchor", StateKind::statistics, anchor_);
  }

  std::vector<StateShape> kept(const StateSizes& sizes) const override {
    return {{"fisher", StateKind::statistics, {sizes.parameters}},
            {"anchor", StateKind::statistics, {sizes.parameters}}};
  }

  MethodCosts costs(const CostContext& run) const override {
    MethodCosts out;
    out.device_bytes = 5 * 4 * run.parameters;  // Fisher, anchor, and the penalty's own graph
    out.checkpoint_bytes = 2 * 4 * run.parameters;
    out.backward_samples = run.samples_up_to(samples_);
    return out;
  }

 private:
  // Gradient of the mean loss over the answer tokens of some samples. They go through the model in passes of at most
  // the training batch, which memory was chosen for, each weighted by its answer tokens.
  static torch::Tensor block_gradient(const StageContext& stage, const std::vector<int64_t>& rows) {
    std::vector<torch::Tensor> inputs;
    for (const auto& [name, p] : stage.parameters) inputs.push_back(p);
    torch::Tensor sum;
    double tokens = 0;
    const auto count = static_cast<int64_t>(rows.size());
    for (int64_t first = 0; first < count; first += stage.batch_size) {
      const auto batch =
          stage.data.rows({rows.begin() + first, rows.begin() + std::min(count, first + stage.batch_size)});
      const auto routed = stage.answering(batch);
      const auto loss = stage.objective.loss_of(stage.model, routed.seen(batch), routed.pass());
      const auto gradient = gradients(loss, inputs);
      std::vector<torch::Tensor> parts;
      for (size_t i = 0; i < gradient.size(); ++i)
        parts.push_back((gradient[i].defined() ? gradient[i] : torch::zeros_like(inputs[i])).flatten());
      const auto pass = at::cat(parts);
      if (count <= stage.batch_size) return pass;
      const auto answers = static_cast<double>(stage.objective.learnt(batch));
      sum = sum.defined() ? sum + pass * answers : pass * answers;
      tokens += answers;
    }
    return sum / tokens;
  }

  double lambda_ = 1e4, online_gamma_ = 0.9;
  Accumulate accumulate_ = Accumulate::latest;
  int64_t fisher_batch_ = 16, samples_ = 0;
  torch::Tensor fisher_, anchor_;  // [P]
};

}  // namespace

std::unique_ptr<Method> make_ewc_method() {
  return std::make_unique<Ewc>();
}

}  // namespace asr
