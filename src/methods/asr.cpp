// Attention-Spectrum Regularization (the paper's Algorithm 1): attention spectra of the current batch are held near
// per-skill Gaussian prototypes of earlier stages, or where the stage found them (asr.target), and cross-modal
// similarities near those of the base model. Between stages it keeps the prototypes alone.
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "data/drawn_rows.h"
#include "data/measure.h"
#include "methods/method.h"
#include "methods/terms/anchor_controls.h"
#include "methods/terms/anchors.h"
#include "skills/taxonomy.h"
#include "spectral/anchored_loss.h"
#include "spectral/memory.h"
#include "spectral/spectral_loss.h"
#include "tensor/torch_compat.h"

namespace asr {
namespace {

// Trained parameters as they were when the stage began, while this object lives. `start` is set to them where it is
// not yet: when the stage begins, and not after a resume.
class AtStart {
 public:
  AtStart(const NamedParameters& parameters, torch::Tensor& start) : parameters_(parameters), now_(flat_copy()) {
    if (!start.defined()) start = now_.cpu();
    set(start);
  }
  ~AtStart() { set(now_); }
  AtStart(const AtStart&) = delete;
  AtStart& operator=(const AtStart&) = delete;

 private:
  torch::Tensor flat_copy() const {
    std::vector<torch::Tensor> parts;
    for (const auto& [name, p] : parameters_) parts.push_back(p.detach().flatten());
    return at::cat(parts);
  }
  void set(const torch::Tensor& values) {
    at::NoGradGuard no_grad;
    int64_t first = 0;
    for (const auto& [name, p] : parameters_) {
      auto value = p;
      value.copy_(values.narrow(0, first, p.numel()).view(p.sizes()));
      first += p.numel();
    }
  }

  const NamedParameters& parameters_;
  torch::Tensor now_;
};

class Asr final : public Method {
 public:
  void prepare(Backbone&, const Options& options) override {
    options_ = options;
    memory_ = {};
    memory_.options = options;
    memory_.skill_names = skill_names();
    view_ = std::make_unique<SpectrumView>(options.spectral);
    control_ = control_view(options);
  }

  Needs needs(int stage) const override {
    Needs out;
    const bool anchored = stage > 1 && options_.asr.to_anchors();
    const auto seen = anchored && control_ ? control_->needs() : Needs();
    out.tap = (stage > 1 && options_.asr.to_prototypes()) || (anchored && anchors_spectra()) || seen.tap;
    out.reference = options_.asr.gamma > 0;
    out.pooled = out.reference || seen.pooled;
    out.logits = seen.logits;
    return out;
  }

  void before_stage(StageContext& stage) override {
    loss_.reset();
    anchored_.reset();
    warned_ = !stage.team.leads();
    if (stage.stage == 1 || !options_.asr.holds_spectra()) return;
    const auto compute = at::TensorOptions().dtype(at::kFloat).device(stage.model.device());
    loss_.emplace(memory_.tensors(), options_, compute);
    if (options_.asr.to_anchors()) set_anchors(stage, compute);
  }

  void whole_step(const StepEmbeddings& all) override {
    if (options_.asr.gamma == 0) return;
    const auto image = all.image.detach().requires_grad_(), text = all.text.detach().requires_grad_();
    const auto loss = geometry_loss(image, text, all.reference_image, all.reference_text);
    const auto towards = gradients(loss, {image, text});
    step_ = {loss.detach(), towards[0], towards[1]};
  }

  void add_losses(StepContext& step) override {
    const auto& asr = options_.asr;
    if (loss_) {
      const bool seen = asr.spectrum != Spectrum::raw && (asr.to_prototypes() || anchors_spectra());
      const auto spectra = seen ? view_->see(step.batch, step.output) : torch::Tensor();
      if (asr.to_prototypes()) {
        const auto terms = to_prototypes(step, spectra);
        step.add("spectral_loss", scaled(terms.loss, step.share.samples), asr.beta);
        step.log["spectral_weight"] = scaled(terms.weight.mean(), step.share.samples);
        compare_with_task(step, "asr.beta", terms.loss * asr.beta);
      }
      if (anchored_) add_anchors(step, to_anchors(step, spectra));
      if (asr.to_anchors() && asr.anchor == AnchorOf::adapters) add_anchors(step, to_adapters(step));
    }
    if (asr.gamma > 0) step.add("geometry_loss", geometry(step), asr.gamma);
  }

  // Once a stage: a user's small data can make a prototype so narrow that nothing else is learnt. Read after the step,
  // when a GPU has nothing left to wait for.
  void after_step(GradientContext&) override {
    for (const auto& [strength, both] : std::exchange(sizes_, {})) {
      const auto sizes = both.to(at::kCPU, at::kDouble);
      const double term = sizes[0].item<double>(), task = sizes[1].item<double>();
      if (warned_ || term <= task) continue;
      warned_ = true;
      log_warn("asr: the spectral term (", term, ") is larger than the task's loss (", task, "); lower ", strength,
               ", or raise memory.shrinkage where skills have few samples");
    }
  }

  void after_stage(StageContext& stage) override {
    anchors_.clear();
    start_ = torch::Tensor();
    if (memory_.wants_stage())
      memory_.update(stage.moments());
    else
      memory_.leave_out_stage();
  }

  void state(StateVisitor& visitor) override {
    visit_memory(memory_, visitor);
    visitor.tensor("start", StateKind::statistics, start_);
  }
  std::vector<StateShape> kept(const StateSizes& sizes) const override {
    auto out = memory_shapes(sizes);
    out.push_back({"start", StateKind::statistics, {sizes.parameters + sizes.own_parameters}, Lasts::stage});
    return out;
  }

  MethodCosts costs(const CostContext& run) const override {
    MethodCosts out;
    const auto stages = static_cast<int64_t>(run.task_samples.size());
    const auto& asr = run.options.asr;
    out.measured_stages = asr.holds_spectra() ? stages : 1;  // the ablation takes the first stage alone
    out.reference = asr.gamma > 0;
    if (!asr.to_anchors() || stages < 2) return out;
    out.checkpoint_bytes = out.host_bytes = 4 * run.parameters;
    if (asr.anchor == AnchorOf::adapters) return out;
    // A pass before every stage but the first, and what it finds.
    double most = 0;
    for (size_t i = 1; i < run.task_samples.size(); ++i) {
      const double all = run.task_samples[i] * (run.augments ? run.epochs : 1);
      const double seen = asr.anchor_samples > 0 ? std::min(static_cast<double>(asr.anchor_samples), all) : all;
      out.forward_samples += seen;
      most = std::max(most, seen);
    }
    out.host_bytes += 4 * most * static_cast<double>(run.options.spectral.dim());
    return out;
  }

 private:
  void compare_with_task(const StepContext& step, const char* strength, const torch::Tensor& term) {
    if (!warned_ && step.output.loss.defined()) sizes_[strength] = at::stack({term, step.output.loss}).detach();
  }
  void add_anchors(StepContext& step, const torch::Tensor& loss) {
    step.add("anchor_loss", loss, options_.asr.anchor_beta);
    compare_with_task(step, "asr.anchor_beta", loss * options_.asr.anchor_beta);
  }

  // The geometry term of a whole step, and its gradient for every sample's embeddings.
  struct StepGeometry {
    torch::Tensor loss, image, text;  // [], [N, width], [N, width]
  };

  // <dL/dz, z> has the gradient of L for this part's samples, dL/dz being that of the whole step; its value is L's.
  torch::Tensor step_geometry(const StepContext& step) const {
    const auto &image = step.output.image, &text = step.output.text;
    const auto rows = static_cast<int64_t>(step.share.positions.empty() ? 0 : image.size(0));
    const auto towards = ((step_.image.narrow(0, step.first, rows) * image.narrow(0, 0, rows)).sum() +
                          (step_.text.narrow(0, step.first, rows) * text.narrow(0, 0, rows)).sum()) *
                         static_cast<double>(step.passes);
    return towards - towards.detach() + step_.loss * step.share.process();
  }

  // Similarities reach over the whole batch: every process forms all of them, with gradients for its own samples.
  torch::Tensor geometry(const StepContext& step) const {
    if (step.first >= 0) return step_geometry(step);
    const auto &image = step.output.image, &text = step.output.text;
    const auto &image0 = step.batch.reference_image, &text0 = step.batch.reference_text;
    if (step.share.team.size() == 1) return geometry_loss(image, text, image0, text0);
    const auto all = step.share.whole_rows(at::cat({image, text, image0, text0}, 1)).chunk(4, 1);
    const auto loss = geometry_loss(all[0], all[1], all[2], all[3]);
    return loss - loss.detach() * (1 - step.share.process());  // the value counts once over the processes
  }

  LossTerms to_prototypes(const StepContext& step, const torch::Tensor& spectra) {
    if (options_.asr.spectrum != Spectrum::raw) return (*loss_)(spectra, step.batch.posterior);
    const auto maps =
        view_->encoder(step.output).maps(step.output.attention, row_weights(step.batch.input, step.output));
    return loss_->raw(maps, step.batch.posterior);
  }

  bool anchors_spectra() const {
    return options_.asr.anchor == AnchorOf::spectra || options_.asr.anchor == AnchorOf::shuffled;
  }

  void set_anchors(const StageContext& stage, const at::TensorOptions& compute) {
    const auto& asr = options_.asr;
    const bool stored = has_stored_variances(asr.anchor);
    if (stored && memory_.prototypes.empty()) return;
    const AtStart at_start(stage.parameters, start_);
    start_place_.clear();
    int64_t first = 0;
    for (const auto& [name, p] : stage.parameters) {
      start_place_[name] = first;
      first += p.numel();
    }
    if (asr.anchor == AnchorOf::adapters) return;
    anchors_.measure(stage, control_ ? *control_ : *view_, asr.anchor_samples);
    if (asr.anchor == AnchorOf::shuffled) anchors_.shuffle(draw_key(DrawPurpose::anchors, stage.seed, -stage.stage));
    if (anchors_.table().numel() == 0) return;  // every sample is replayed
    anchored_ = stored ? anchor_weights(memory_.tensors(), options_, compute)
                       : own_weights(anchors_.table(), asr.metric, compute);
  }

  // The squared way of all that is trained from the stage's start.
  torch::Tensor to_adapters(const StepContext& step) const {
    torch::Tensor sum;
    for (const auto& [name, p] : step.parameters) {
      const auto from = start_.narrow(0, start_place_.at(name), p.numel()).view(p.sizes()).to(p.device());
      const auto way = (p - from).square().sum();
      sum = sum.defined() ? sum + way : way;
    }
    return scaled(sum, step.share.process());
  }

  // This part's summand; the metric's scale is of the whole batch.
  torch::Tensor to_anchors(const StepContext& step, const torch::Tensor& spectra) const {
    const auto found = anchors_.of(step);
    const auto seen = control_ ? control_->see(step.batch, step.output) : spectra;
    const bool by_skill = options_.asr.metric == AnchorMetric::posterior && has_stored_variances(options_.asr.anchor);
    const auto skills = by_skill ? loss_->skill_weights(step.batch.posterior) : torch::ones_like(found.has);
    const auto p = anchored_->of_samples(skills) * found.has;
    auto all = p.sum().to(at::kDouble).view({1});
    step.share.team.sum(all);
    return anchored_loss(*anchored_, {seen, found.anchor, p, all.item<double>()});
  }

  Options options_;
  PrototypeMemory memory_;
  std::optional<SpectralLoss> loss_;
  std::unique_ptr<SpectrumView> view_;
  std::unique_ptr<AnchorView> control_;  // what is anchored instead of spectra, if it is
  Anchors anchors_;
  std::optional<AnchorWeights> anchored_;
  torch::Tensor start_;  // all that is trained, flat, as it was before the stage's first step; with anchors alone
  std::map<std::string, int64_t> start_place_;  // of each in it
  bool warned_ = false;
  // By the option that weighs a term: the term and the task's loss in the step's last pass, until they were compared.
  std::map<std::string, torch::Tensor> sizes_;
  StepGeometry step_;
};

}  // namespace

std::unique_ptr<Method> make_asr_method() {
  return std::make_unique<Asr>();
}

}  // namespace asr
