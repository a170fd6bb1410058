// Learning without Forgetting (Li and Hoiem 2016): on current data, T^2 KL(softmax(z_old / T) || softmax(z_new / T)),
// the mean over what is learnt: answer tokens under teacher forcing, or samples of a closed head. The teacher is the
// previous stage's adapter on the shared base, a slot of its own.
#include "base/error.h"
#include "methods/method.h"

namespace asr {
namespace {

constexpr const char* kTeacher = "lwf.teacher";

class Lwf final : public Method {
 public:
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
    if (!step.bank.has(kTeacher) || weight_ == 0) return;
    torch::Tensor old;
    {
      at::NoGradGuard no_grad;
      Pass pass;
      pass.slots = step.bank.bit(kTeacher);
      old = step.logits(pass, head_);
    }
    const auto p = (old / temperature_).softmax(-1);
    const auto log_p = (old / temperature_).log_softmax(-1);
    const auto log_q = (step.output.logits / temperature_).log_softmax(-1);
    step.add("lwf_loss", scaled((p * (log_p - log_q)).sum(-1).mean() * (weight_ * temperature_ * temperature_),
                                step.share.answers));
  }

  // Asked before anything is trained: a slot a stage leaves no single adapter to be the teacher.
  void begin_stage(StageContext& stage) override {
    check(
        stage.bank.has(kTrainedSlot),
        "lwf copies the one adapter that is trained, and another method of this run has an adapter a stage; leave one "
        "of the two out");
    check(
        !stage.bank.has(kProjectorSlot),
        "lwf's teacher is an adapter alone, and this run trains the projector whole; set projector=adapter or frozen");
  }

  void after_stage(StageContext& stage) override {
    stage.bank.copy(kTrainedSlot, kTeacher);
    head_.clear();
    for (const auto& [name, tensor] : stage.task.parameters()) head_.push_back(tensor.detach().clone());
  }

  void state(StateVisitor& visitor) override {
    int64_t count = static_cast<int64_t>(head_.size());
    visitor.number("count", StateKind::statistics, count);
    head_.resize(static_cast<size_t>(count));
    for (size_t i = 0; i < head_.size(); ++i) visitor.tensor(cat("head.", i), StateKind::teacher, head_[i]);
  }

  std::vector<StateShape> kept(const StateSizes&) const override {
    return {{"count", StateKind::statistics, {1}}, {"head.*", StateKind::teacher, {kAnySize, kAnySize}}};
  }

  MethodCosts costs(const CostContext& run) const override {
    MethodCosts out;
    out.device_bytes = out.checkpoint_bytes = 4 * run.parameters;
    out.forward_passes = 1;  // the teacher's
    return out;
  }

 private:
  double weight_ = 1, temperature_ = 2;
  std::vector<torch::Tensor> head_;  // the task's parameters beside the teacher, where it has any
};

}  // namespace

std::unique_ptr<Method> make_lwf_method() {
  return std::make_unique<Lwf>();
}

}  // namespace asr
