// O-LoRA (Wang et al. 2023): an adapter a stage, earlier ones frozen and summed, and the new one pushed into directions
// orthogonal to theirs: L = L_task + l1 sum_linears sum_{i<t} sum_ab |(A_i A_t^T)_ab| + l2 sum ||new factor||_2. Both
// are sums, not means: their weights must be chosen anew where rank, depth or the number of linears changes.
#include "base/error.h"
#include "methods/method.h"
#include "methods/terms/recipes.h"
#include "methods/terms/sites.h"

namespace asr {

enum class TrainsWith { all, current };
template <>
struct EnumNames<TrainsWith> {
  static constexpr const char* names[] = {"all", "current"};
};

namespace {

class OLora final : public Method {
 public:
  bool renews_adapters() const override { return true; }
  void visit(OptionVisitor& visitor) override {
    visitor("orthogonality", orthogonality_, 0, 1e6, "weight of the overlap with earlier adapters (l1); 0: off");
    visitor("norm", norm_, 0, 1e6, "weight of the new adapter's norms (l2); 0: off");
    visitor("trains_with", trains_with_,
            "adapters in the pass that trains: all, as published, or the current one alone, as in LLaVA ports");
    visitor("sites", sites_, kAdaptedSitesHelp);
  }
  // The LLaVA port's.
  std::vector<Assignment> native() const override {
    auto out = llava_recipe(16, 32);
    out.push_back({"o-lora.orthogonality", "0.05", ""});
    return out;
  }

  std::optional<AdapterLayout> layout(const std::vector<AdapterSite>& sites, const SlotLayout& plain,
                                      int stage) const override {
    return AdapterLayout{alike(stage_slot(stage), adapted_sites(sites, plain, sites_), plain.sites.at(0))};
  }

  void begin_stage(StageContext& stage) override {
    for (int old = 1; old < stage.stage; ++old) {
      stage.bank.freeze(stage_slot(old));
      stage.bank.take_part(stage_slot(old), trains_with_ == TrainsWith::all, true);
    }
  }

  void before_stage(StageContext& stage) override { stage_ = stage.stage; }

  void add_losses(StepContext& step) override {
    const auto current = stage_slot(stage_);
    const auto& sites = step.bank.layout(current).sites;
    torch::Tensor overlap, norms;
    const auto add = [](torch::Tensor& sum, const torch::Tensor& term) { sum = sum.defined() ? sum + term : term; };
    for (const auto& site : sites) {
      const auto& fresh = step.bank.at(current, site.site).experts[0];
      for (int old = 1; old < stage_ && orthogonality_ > 0; ++old)
        add(overlap, step.bank.at(stage_slot(old), site.site).experts[0].a.matmul(fresh.a.t()).abs().sum());
      if (norm_ > 0) add(norms, fresh.a.norm() + fresh.b.norm());
    }
    const double share = step.share.process();
    if (overlap.defined()) step.add("orthogonality_loss", scaled(overlap, share), orthogonality_);
    if (norms.defined()) step.add("norm_loss", scaled(norms, share), norm_);
  }

  MethodCosts costs(const CostContext& run) const override {
    MethodCosts out;
    const double earlier = static_cast<double>(run.task_samples.size()) - 1;
    out.device_bytes = out.checkpoint_bytes = 4 * run.parameters * std::max(0.0, earlier);
    return out;
  }

 private:
  double orthogonality_ = 0.5, norm_ = 0;
  TrainsWith trains_with_ = TrainsWith::all;
  AdaptedSites sites_ = AdaptedSites::run;
  int stage_ = 1;
};

}  // namespace

std::unique_ptr<Method> make_o_lora_method() {
  return std::make_unique<OLora>();
}

}  // namespace asr
