// Attention-Spectrum Regularization (the paper's Algorithm 1): attention spectra of the current batch are held near
// per-skill Gaussian prototypes of earlier stages, and cross-modal similarities near those of the base model. Between
// stages it keeps the prototypes alone.
#include <optional>

#include "base/error.h"
#include "data/measure.h"
#include "methods/method.h"
#include "skills/taxonomy.h"
#include "spectral/descriptor.h"
#include "spectral/memory.h"
#include "spectral/spectral_loss.h"
#include "tensor/torch_compat.h"

namespace asr {
namespace {

class Asr final : public Method {
 public:
  void prepare(Backbone&, const Options& options) override {
    options_ = options;
    memory_ = {};
    memory_.options = options;
    memory_.skill_names = skill_names();
  }

  Needs needs(int stage) const override {
    Needs out;
    out.tap = stage > 1 && options_.asr.beta > 0;
    out.pooled = out.reference = options_.asr.gamma > 0;
    return out;
  }

  void before_stage(StageContext& stage) override {
    loss_.reset();
    if (stage.stage > 1 && options_.asr.beta > 0)
      loss_.emplace(memory_.tensors(), options_, at::TensorOptions().dtype(at::kFloat).device(stage.model.device()));
  }

  void whole_step(const StepEmbeddings& all) override {
    if (options_.asr.gamma == 0) return;
    const auto image = all.image.detach().requires_grad_(), text = all.text.detach().requires_grad_();
    const auto loss = geometry_loss(image, text, all.reference_image, all.reference_text);
    const auto towards = gradients(loss, {image, text});
    step_ = {loss.detach(), towards[0], towards[1]};
  }

  void add_losses(StepContext& step) override {
    if (loss_) {
      const auto terms = spectral(step);
      step.add("spectral_loss", scaled(terms.loss, step.share.samples), options_.asr.beta);
      step.log["spectral_weight"] = scaled(terms.weight.mean(), step.share.samples);
    }
    if (options_.asr.gamma > 0) step.add("geometry_loss", geometry(step), options_.asr.gamma);
  }

  void after_stage(StageContext& stage) override {
    if (memory_.wants_stage())
      memory_.update(stage.moments());
    else
      memory_.leave_out_stage();
  }

  void state(StateVisitor& visitor) override { visit_memory(memory_, visitor); }
  std::vector<StateShape> kept(const StateSizes& sizes) const override { return memory_shapes(sizes); }

  MethodCosts costs(const CostContext& run) const override {
    MethodCosts out;
    const auto stages = static_cast<int64_t>(run.task_samples.size());
    out.measured_stages = run.options.asr.beta > 0 ? stages : 1;  // the ablation takes the first stage alone
    out.reference = run.options.asr.gamma > 0;
    return out;
  }

 private:
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

  LossTerms spectral(const StepContext& step) {
    const auto& attention = step.output.attention;  // [B, L, heads, T, H, W]
    if (!encoder_)
      encoder_ = std::make_unique<SpectralEncoder>(attention.size(4), attention.size(5), options_.spectral);
    const auto weights = row_weights(step.batch.input, step.output);
    const auto& posterior = step.batch.posterior;
    if (options_.asr.spectrum == Spectrum::raw) return loss_->raw(encoder_->maps(attention, weights), posterior);
    return (*loss_)(encoder_->descriptor(attention, weights), posterior);
  }

  Options options_;
  PrototypeMemory memory_;
  std::optional<SpectralLoss> loss_;
  std::unique_ptr<SpectralEncoder> encoder_;
  StepGeometry step_;
};

}  // namespace

std::unique_ptr<Method> make_asr_method() {
  return std::make_unique<Asr>();
}

}  // namespace asr
