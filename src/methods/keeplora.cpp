// KeepLoRA (ICLR 2026): updates live where neither the pretrained weight nor earlier stages read. Of every linear it
// keeps an orthonormal basis M of protected input directions: first the leading ones of the weight. Before a stage the
// gradient G of the whole weight on part of the stage's data is freed of M, and its r leading input directions become
// A, frozen; B learns from zero. After the stage B A goes into the weight, and M grows by what the gradient there
// reads.
#include <cmath>

#include "base/error.h"
#include "data/drawn_rows.h"
#include "data/probe.h"
#include "methods/method.h"
#include "methods/terms/by_site.h"
#include "methods/terms/recipes.h"
#include "methods/terms/sites.h"
#include "methods/terms/subspace.h"

namespace asr {
namespace {

constexpr int64_t kGradientMemory = int64_t(2) << 30;  // bytes of full gradients at a time

class KeepLora final : public Method {
 public:
  bool renews_adapters() const override { return true; }
  void visit(OptionVisitor& visitor) override {
    visitor("weight_energy", weight_energy_, 0, 1,
            "part of a pretrained weight's energy that is protected; 0: nothing");
    visitor("gradient_energy", gradient_energy_, 0, 1, "part of a finished stage's gradient energy that is protected");
    visitor("samples", samples_, 0.001, 1, "part of a stage's data that gradients are taken on, evenly spaced");
    visitor("scale", scale_, 1e-3, 1e3, "of the adapters' product, instead of lora_alpha / lora_rank");
    visitor("sites", sites_, kAdaptedSitesHelp);
  }
  std::vector<Assignment> native() const override { return llava_recipe(32, 8, 16, 4); }

  std::optional<AdapterLayout> layout(const std::vector<AdapterSite>& sites, const SlotLayout& plain,
                                      int stage) const override {
    SiteLayout each = plain.sites.at(0);
    each.scale = scale_;
    return AdapterLayout{alike(stage_slot(stage), adapted_sites(sites, plain, sites_), each)};
  }

  void begin_stage(StageContext& stage) override {
    const auto slot = stage_slot(stage.stage);
    const auto sites = sites_of_slot(stage.bank, slot);
    if (stage.stage == 1)
      for (const auto& site : sites) basis_[site.name] = leading_inputs(base_weight(*site.linear), weight_energy_);
    const auto gradients = stage_gradients(stage, sites);
    at::NoGradGuard no_grad;
    for (size_t i = 0; i < sites.size(); ++i) {
      auto& expert = stage.bank.at(slot, sites[i].name).experts[0];
      const auto rest = without(gradients[i], basis_.at(sites[i].name));
      // Where everything is protected, nothing is left to learn in.
      const double least = 1e-6 * gradients[i].to(at::kDouble).square().sum().item<double>();
      expert.a.copy_(principal_inputs(rest, expert.a.size(0), least));
      stage.bank.freeze_tensor(slot, expert.a);
    }
  }

  void after_stage(StageContext& stage) override {
    const auto slot = stage_slot(stage.stage);
    stage.bank.merge(slot);
    const auto sites = sites_of_slot(stage.bank, slot);
    const auto gradients = stage_gradients(stage, sites);
    for (size_t i = 0; i < sites.size(); ++i) {
      auto& basis = basis_.at(sites[i].name);
      basis = extended(basis, gradients[i], gradient_energy_);
    }
  }

  void state(StateVisitor& visitor) override { visit_by_site(visitor, "basis", basis_); }

  std::vector<StateShape> kept(const StateSizes& sizes) const override {
    return {{"sites", StateKind::statistics, {sizes.site_names}},
            {"basis.*", StateKind::statistics, {sizes.widest_site, sizes.widest_site}}};
  }

  MethodCosts costs(const CostContext& run) const override {
    MethodCosts out;
    const double linears = run.layers * (sites_ == AdaptedSites::all ? 7 : 2);
    const double earlier = std::max(0.0, static_cast<double>(run.task_samples.size()) - 1);
    out.device_bytes = 4 * run.parameters * earlier;       // merged slots keep their factors
    out.host_bytes = 4 * run.width * run.width * linears;  // bases, at most all directions of an input
    out.checkpoint_bytes = out.device_bytes + out.host_bytes;
    out.backward_samples = 2 * samples_ * run.samples();
    return out;
  }

 private:
  std::vector<torch::Tensor> stage_gradients(const StageContext& stage, const std::vector<AdapterSite>& sites) const {
    const int64_t count = stage.data.size();
    const auto wanted = static_cast<int64_t>(std::llround(samples_ * static_cast<double>(count)));
    Probe probe{stage.model, stage.data, spaced_rows(count, wanted), stage.team};
    probe.loss = [&](const SampleBatch& batch, const Pass& pass) {
      return stage.objective.loss_of(stage.model, batch, pass);
    };
    probe.pass.slots = stage.bank.training();
    probe.batch = stage.batch_size;
    return weight_gradients(probe, sites, kGradientMemory);
  }

  double weight_energy_ = 0.6, gradient_energy_ = 0.99, samples_ = 0.2, scale_ = 0.25;
  AdaptedSites sites_ = AdaptedSites::run;
  TensorsBySite basis_;  // [k, in] rows, orthonormal, float32 on the CPU
};

}  // namespace

std::unique_ptr<Method> make_keeplora_method() {
  return std::make_unique<KeepLora>();
}

}  // namespace asr
