// HiDe-LLaVA (Guo et al. 2025): an adapter a stage, trained alone. When answering, all layers but the last add the
// stages' factors up, (sum B)(sum A), cross terms with them; the last layer weighs the stages by how near a sample's
// picture and question are to the means of their data: softmax of the mean of both cosines over a temperature. The keys
// are those of a CLIP model, its text before the projection as released; without one the backbone's own embeddings with
// adapters off.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "data/walk.h"
#include "methods/method.h"
#include "methods/terms/external_encoder.h"
#include "methods/terms/recipes.h"
#include "methods/terms/released_anchors.h"
#include "methods/terms/several_tasks.h"
#include "methods/terms/sites.h"

namespace asr {

enum class LayerFusion { factors, products };
template <>
struct EnumNames<LayerFusion> {
  static constexpr const char* names[] = {"factors", "products"};
};
enum class AnchorForm { means, released };
template <>
struct EnumNames<AnchorForm> {
  static constexpr const char* names[] = {"means", "released"};
};

namespace {

class HideLlava final : public Method {
 public:
  bool renews_adapters() const override { return true; }
  void visit(OptionVisitor& visitor) override {
    visitor("temperature", temperature_, 1e-4, 1e3, "of the softmax over the stages' similarities");
    visitor("fusion", fusion_, "below the last layer: sums of factors, as released, or the sum of the products");
    visitor(
        "anchors", form_,
        "means of a stage's data; or, as released, running means in bfloat16, batch by batch, that begin with noise");
    visitor("experts", experts_, 0, 64,
            "stages that the softmax is over, those to come with noise for anchors, as released; 0: those seen");
    visitor("sites", sites_, kAdaptedSitesHelp);
    encoder_.visit(visitor);
  }
  std::vector<Assignment> native() const override { return llava_recipe(8, 16, 24, 4); }
  void prepare(Backbone& model, const Options&) override { encoder_.prepare(model); }
  std::vector<std::string> encoder_folders() const override { return encoder_.folders(); }

  std::optional<AdapterLayout> layout(const std::vector<AdapterSite>& sites, const SlotLayout& plain,
                                      int stage) const override {
    const auto chosen = adapted_sites(sites, plain, sites_);
    const auto weighed = sites_of_last_layer(sites);
    auto slot = alike(stage_slot(stage), chosen, plain.sites.at(0));
    for (size_t i = 0; i < chosen.size(); ++i) {
      const auto fused = fusion_ == LayerFusion::factors ? GateKind::fused : GateKind::sum;
      slot.sites[i].answering.kind = weighed.count(chosen[i].name) > 0 ? GateKind::given : fused;
    }
    return AdapterLayout{slot};
  }

  void begin_stage(StageContext& stage) override {
    for (int old = 1; old < stage.stage; ++old) {
      stage.bank.freeze(stage_slot(old));
      stage.bank.take_part(stage_slot(old), false, true);
    }
  }

  void after_stage(StageContext& stage) override {
    at::NoGradGuard no_grad;
    const auto sums = sums_of_blocks(stage, form_ == AnchorForm::released ? stage.batch_size : 64);
    if (experts_ > 0 && !noise_.defined()) noise_ = anchor_noise(experts_, sums.size(1), stage.seed);
    const auto anchor = form_ == AnchorForm::released ? released_anchor(stage, sums) : mean_of(stage, sums);
    anchors_ = anchors_.defined() ? at::cat({anchors_.cpu(), anchor}) : anchor;
  }

  void plan(const PhasePlan& stage, std::vector<Phase>&) const override {
    check_several_tasks(stage, "hide-llava weighs the adapters of tasks by their anchors");
    check_pictures(stage, "hide-llava chooses by pairs of picture and question");
    check(experts_ == 0 || experts_ >= stage.stages, "hide-llava.experts: ", experts_, " are fewer than the ",
          stage.stages, " stages of the stream; 0 takes those seen");
  }

  void route(RouteContext& context) override {
    if (!context.answering) return;
    at::NoGradGuard no_grad;
    const int64_t known = anchors_.defined() ? anchors_.size(0) : 0;
    if (known < context.stage) {  // while a stage is being finished, on its own data
      for (int k = 1; k <= context.stage; ++k)
        context.given[context.bank.number(stage_slot(k))] = torch::full({1}, k == context.stage ? 1.0 : 0.0);
      return;
    }
    const auto [image, text] = encoder_.of(context.model, context.batch);
    const auto anchors = all_anchors().to(image.device()).split_with_sizes({image.size(1), text.size(1)}, 1);
    const auto nearness = (cosines(image, anchors[0]) + cosines(text, anchors[1])) / 2;
    const auto weights = (nearness / temperature_).softmax(1);  // [B, stages]
    for (int64_t k = 0; k < known; ++k)
      context.given[context.bank.number(stage_slot(static_cast<int>(k) + 1))] = weights.narrow(1, k, 1);
  }

  void state(StateVisitor& visitor) override {
    visitor.tensor("anchors", StateKind::statistics, anchors_);
    if (experts_ > 0) visitor.tensor("noise", StateKind::statistics, noise_);
    encoder_.state(visitor);
  }
  std::vector<StateShape> kept(const StateSizes& sizes) const override {
    const int64_t width = 2 * encoder_.widest(sizes);
    std::vector<StateShape> out = {{"anchors", StateKind::statistics, {sizes.stages, width}}};
    if (experts_ > 0) out.push_back({"noise", StateKind::statistics, {experts_, width}});
    encoder_.add_kept(out);
    return out;
  }

  MethodCosts costs(const CostContext& run) const override {
    MethodCosts out;
    const double earlier = static_cast<double>(run.task_samples.size()) - 1;
    out.device_bytes = out.checkpoint_bytes = 4 * run.parameters * std::max(0.0, earlier);
    out.forward_samples = run.samples();
    encoder_.add_costs(run, out);
    return out;
  }

 private:
  // Of picture and text side by side, [blocks, both widths] in double on the CPU: block by block, so that what is made
  // of them does not depend on who took which.
  torch::Tensor sums_of_blocks(StageContext& stage, int64_t block) {
    std::vector<torch::Tensor> sums;
    each_block({cat("anchors of ", stage.data.name), stage.data.size(), block}, stage.team, [&](Part rows, Part) {
      const auto [image, text] = encoder_.of(stage.model, stage.data.rows(range(rows.begin, rows.end)));
      sums.push_back(at::cat({image, text}, 1).to(at::kDouble).sum(0, true));
    });
    return stage.team.gather(sums.empty() ? at::empty({0}, at::kDouble) : at::cat(sums).cpu());
  }

  static torch::Tensor mean_of(const StageContext& stage, const torch::Tensor& sums) {
    return (sums.sum(0, true) / static_cast<double>(stage.data.size())).to(at::kFloat);
  }

  static torch::Tensor released_anchor(const StageContext& stage, const torch::Tensor& sums) {
    std::vector<int64_t> rows;
    for (int64_t first = 0; first < stage.data.size(); first += stage.batch_size)
      rows.push_back(std::min(stage.batch_size, stage.data.size() - first));
    const auto noise = anchor_noise(stage.stage, sums.size(1), stage.seed);
    return coarse_running_mean(noise.narrow(0, stage.stage - 1, 1), sums, rows);
  }

  // Of the stages seen and, with `experts`, of those to come: [stages, both widths].
  torch::Tensor all_anchors() const {
    const int64_t known = anchors_.size(0);
    if (experts_ <= known) return anchors_;
    return at::cat({anchors_, noise_.to(anchors_.device()).narrow(0, known, experts_ - known)});
  }

  // Of the language model: a Q-Former has layers, too, and may have more of them.
  static std::set<std::string> sites_of_last_layer(const std::vector<AdapterSite>& sites) {
    const auto language = language_sites(sites);
    int64_t last = -1;
    for (const auto& site : language) last = std::max(last, site.layer);
    std::set<std::string> out;
    for (const auto& site : language)
      if (site.layer == last) out.insert(site.name);
    return out;
  }

  double temperature_ = 0.1;
  LayerFusion fusion_ = LayerFusion::factors;
  AnchorForm form_ = AnchorForm::means;
  int64_t experts_ = 0;
  AdaptedSites sites_ = AdaptedSites::run;
  ExternalEncoder encoder_{ClipTextForm::pooled};
  torch::Tensor anchors_;  // [stages, image and text widths]
  torch::Tensor noise_;    // [experts, the same]: what unseen stages have for anchors; without `experts` none
};

}  // namespace

std::unique_ptr<Method> make_hide_llava_method() {
  return std::make_unique<HideLlava>();
}

}  // namespace asr
