// BCP-MFA (ICCV 2025): answers are chosen from a list by a balanced classifier, whose prototypes keep equal angles and
// turn together (terms/balanced_objective.h); the features of a batch, normalised, are drawn to the set of prototypes
// by optimal transport; and the replay buffer of VQACL. The objective is the method's own, whatever `head` says.
#include <algorithm>

#include "base/log.h"
#include "methods/method.h"
#include "methods/terms/balanced_objective.h"
#include "methods/terms/group_replay.h"

namespace asr {
namespace {

class BcpMfa final : public Method {
 public:
  Keeps keeps() const override { return Keeps::samples; }
  std::vector<Assignment> native() const override { return GroupReplay::recipe(); }
  // Two memories in a run would each be the other's past.
  bool combines_with(const Method& other) const override { return other.keeps() != Keeps::samples; }

  void visit(OptionVisitor& visitor) override {
    replay_.visit(visitor);
    visitor("weight", weight_, 0, 1e6, "weight of the transport between features and prototypes; 0: off");
    visitor("cost", cost_, "of the transport: 1 - cosine, or the mean squared difference");
    visitor("epsilon", sinkhorn_.epsilon, 1e-3, 1e3, "weight of the entropy in the transport");
    visitor("iterations", sinkhorn_.iterations, 1, 10000, "of Sinkhorn, at most");
    visitor("answers", most_answers_, 2, 1000000, "in the list: the most frequent ones of training");
  }
  void prepare(Backbone&, const Options&) override { replay_.prepare(); }

  bool chooses_answers() const override { return true; }
  std::unique_ptr<Objective> objective(const ObjectiveContext& run) override {
    std::vector<std::pair<int64_t, std::string>> counted;
    for (const auto& [answer, count] : run.answers()) counted.emplace_back(-count, answer);
    std::sort(counted.begin(), counted.end());
    if (static_cast<int64_t>(counted.size()) > most_answers_) counted.resize(static_cast<size_t>(most_answers_));
    std::vector<std::string> list;
    for (auto& [count, answer] : counted) list.push_back(std::move(answer));
    std::sort(list.begin(), list.end());
    auto out = std::make_unique<BalancedObjective>(run.model, std::move(list));
    head_ = out.get();
    return out;
  }

  void begin_stage(StageContext& stage) override {
    if (stage.stage == 1 && stage.team.leads())
      log_info("bcp-mfa: answers are chosen from its own list of ", head_->size(), ", whatever head says");
  }
  void before_stage(StageContext& stage) override { replay_.open(stage); }
  void mix_batch(SampleBatch& batch, Share&, const Backbone&, uint64_t) override { replay_.note(batch); }
  bool extra_batch(OwnBatch& own, const Backbone& model, uint64_t key) override {
    return replay_.fill(own, model, key);
  }

  void add_losses(StepContext& step) override {
    if (weight_ == 0 || !step.output.state.defined()) return;
    // All processes compute the whole batch's transport, and each reaches its own rows alone: theirs counts for as many
    // as there are processes, so that the mean over processes is the whole gradient for rows and prototypes alike.
    const auto own = step.output.state.to(at::kFloat);
    const auto processes = static_cast<double>(step.share.team.size());
    const auto fixed = own.detach();
    const auto rows = step.share.whole_rows(fixed + (own - fixed) * processes);
    if (rows.size(0) < 2) return;  // one sample has no spread to normalise by
    step.add("mfa_loss", head_->alignment(rows, cost_, sinkhorn_) * (weight_ * step.share.process()));
  }

  void after_backward(GradientContext& context) override { replay_.note(context.phase); }
  void after_step(GradientContext&) override { head_->retract(); }
  void after_stage(StageContext& stage) override { replay_.share_out(stage); }

  void state(StateVisitor& visitor) override { replay_.state(visitor); }
  std::vector<StateShape> kept(const StateSizes&) const override { return GroupReplay::kept(); }
  MethodCosts costs(const CostContext& run) const override {
    auto out = replay_.costs(run);
    const double answers = std::min(static_cast<double>(most_answers_), run.samples());
    out.trained = run.width * (answers + 2);  // rotation, scale and shift of its head
    return out;
  }

 private:
  double weight_ = 5;
  AlignmentCost cost_ = AlignmentCost::cosine;
  SinkhornOptions sinkhorn_;
  int64_t most_answers_ = 3129;
  GroupReplay replay_;
  BalancedObjective* head_ = nullptr;  // the run's objective
};

}  // namespace

std::unique_ptr<Method> make_bcp_mfa_method() {
  return std::make_unique<BcpMfa>();
}

}  // namespace asr
