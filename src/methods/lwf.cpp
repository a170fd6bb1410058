// Learning without Forgetting (Li and Hoiem 2016): on current data, T^2 KL(softmax(z_old / T) || softmax(z_new / T)),
// the mean over answer tokens under teacher forcing. The teacher is the previous stage's adapter on the shared base.
#include "base/error.h"
#include "methods/method.h"

namespace asr {
namespace {

constexpr size_t kTeacher = 1;  // slot of the teacher on every adapted linear

class Lwf final : public Method {
 public:
  Keeps keeps() const override { return Keeps::teacher; }
  void visit(OptionVisitor& visitor) override {
    visitor("weight", weight_, 0, 1e6, "weight of the distillation; 0: off");
    visitor("temperature", temperature_, 1e-3, 1e3, "of both distributions");
  }
  void prepare(Backbone& model, const Options&) override { sites_ = model.sites(); }
  Needs needs(int stage) const override {
    Needs out;
    out.logits = stage > 1 && weight_ > 0;
    return out;
  }

  void before_stage(StageContext&) override {
    if (!teacher_.empty()) install();
  }

  void add_losses(StepContext& step) override {
    if (teacher_.empty() || weight_ == 0) return;
    torch::Tensor old;
    {
      at::NoGradGuard no_grad;
      Pass pass;
      pass.slots = uint64_t(1) << kTeacher;
      old = step.logits(pass);
    }
    const auto p = (old / temperature_).softmax(-1);
    const auto log_p = (old / temperature_).log_softmax(-1);
    const auto log_q = (step.output.logits / temperature_).log_softmax(-1);
    step.add("lwf_loss", scaled((p * (log_p - log_q)).sum(-1).mean() * (weight_ * temperature_ * temperature_),
                                step.share.answers));
  }

  void after_stage(StageContext&) override {
    teacher_.clear();
    for (const auto& site : sites_) {
      const auto& trained = site.linear->slots.at(0).experts.at(0);
      teacher_.push_back(trained.a.detach().clone()), teacher_.push_back(trained.b.detach().clone());
    }
    install();
  }

  void state(StateVisitor& visitor) override {
    int64_t count = static_cast<int64_t>(teacher_.size());
    visitor.number("count", StateKind::statistics, count);
    check(count == 0 || count == static_cast<int64_t>(sites_.size()) * 2, "the stored teacher has ", count,
          " tensors for ", sites_.size(), " adapted layers");
    teacher_.resize(static_cast<size_t>(count));
    for (size_t i = 0; i < teacher_.size(); ++i)
      visitor.tensor(cat("teacher.", sites_[i / 2].name, i % 2 ? ".lora_B" : ".lora_A"), StateKind::teacher,
                     teacher_[i]);
    if (count > 0) install();
  }

  std::vector<StateShape> kept(const StateSizes&) const override {
    return {{"count", StateKind::statistics, {1}}, {"teacher.*", StateKind::teacher, {kAnySize, kAnySize}}};
  }

  MethodCosts costs(const CostContext& run) const override {
    MethodCosts out;
    out.device_bytes = out.checkpoint_bytes = 4 * run.parameters;
    out.forward_passes = 1;  // the teacher's
    return out;
  }

 private:
  void install() {
    for (size_t i = 0; i < sites_.size(); ++i) {
      auto& slots = sites_[i].linear->slots;
      slots.resize(kTeacher + 1);
      const auto& trained = slots[0].experts.at(0);
      const auto on = trained.a.device();
      slots[kTeacher].experts = {{teacher_[2 * i].to(on), teacher_[2 * i + 1].to(on), trained.scale}};
    }
  }

  double weight_ = 1, temperature_ = 2;
  std::vector<AdapterSite> sites_;
  std::vector<torch::Tensor> teacher_;  // A and B of every site
};

}  // namespace

std::unique_ptr<Method> make_lwf_method() {
  return std::make_unique<Lwf>();
}

}  // namespace asr
