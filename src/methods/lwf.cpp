// Learning without Forgetting (Li and Hoiem 2016): on current data, T^2 KL(softmax(z_old / T) || softmax(z_new / T)),
// the mean over what is learnt: answer tokens under teacher forcing, or samples of a closed head. The teacher is the
// previous stage's adapter on the shared base, a slot of its own.
#include "methods/method.h"
#include "methods/terms/teacher.h"

namespace asr {
namespace {

class Lwf final : public Method {
 public:
  bool needs_lasting_adapters() const override { return true; }
  Keeps keeps() const override { return Keeps::teacher; }
  void visit(OptionVisitor& visitor) override {
    visitor("weight", weight_, 0, 1e6, "weight of the distillation; 0: off");
    visitor("temperature", temperature_, 1e-3, 1e3, "of both distributions");
  }
  Needs needs(int stage) const override {
    Needs out;
    out.logits = stage > 1 && weight_ > 0;
    return out;
  }

  void add_losses(StepContext& step) override {
    if (!teacher_.there(step.bank) || weight_ == 0) return;
    torch::Tensor old;
    {
      at::NoGradGuard no_grad;
      old = step.logits(teacher_.pass(step.bank), teacher_.head());
    }
    const auto p = (old / temperature_).softmax(-1);
    const auto log_p = (old / temperature_).log_softmax(-1);
    const auto log_q = (step.output.logits / temperature_).log_softmax(-1);
    step.add("lwf_loss", scaled((p * (log_p - log_q)).sum(-1).mean() * (weight_ * temperature_ * temperature_),
                                step.share.answers));
  }

  void plan(const PhasePlan& stage, std::vector<Phase>&) const override { teacher_.check_possible(stage); }
  void after_stage(StageContext& stage) override { teacher_.take(stage); }
  void state(StateVisitor& visitor) override { teacher_.state(visitor); }
  std::vector<StateShape> kept(const StateSizes&) const override { return PreviousAdapter::kept(); }

  MethodCosts costs(const CostContext& run) const override {
    MethodCosts out;
    out.device_bytes = out.checkpoint_bytes = 4 * run.parameters;
    out.forward_passes = 1;  // the teacher's
    return out;
  }

 private:
  double weight_ = 1, temperature_ = 2;
  PreviousAdapter teacher_{"lwf"};
};

}  // namespace

std::unique_ptr<Method> make_lwf_method() {
  return std::make_unique<Lwf>();
}

}  // namespace asr
