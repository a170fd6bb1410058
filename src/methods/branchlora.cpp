// BranchLoRA (Zhang et al. 2025): the experts of a linear share one A and differ in B, their branch, of which the
// router of a task picks the best few: y = W x + s sum_{i in top} g_i B_i A x. After a stage the branches that its
// router weighed most are frozen, linear by linear; A stays trainable. Every task has routers of its own and a pair of
// keys, trained towards the embeddings of its pictures and questions; a sample is answered with the routers of the task
// whose keys are nearest.
#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "data/walk.h"
#include "methods/method.h"
#include "methods/terms/external_encoder.h"
#include "methods/terms/recipes.h"
#include "methods/terms/several_tasks.h"
#include "methods/terms/sites.h"

namespace asr {

enum class BranchReads { token, first, mean };  // as RouterReads
template <>
struct EnumNames<BranchReads> {
  static constexpr const char* names[] = {"token", "first", "mean"};
};

namespace {

constexpr const char* kBranches = "branches";  // the slot
constexpr uint64_t kKeySeed = 0xb4a7c4;

// Where a linear reads the sequence that is answered; others read pictures, and have no first token of it.
bool reads_sequence(const AdapterSite& site) {
  return site.part <= SitePart::down || site.part == SitePart::cross_q || site.part == SitePart::cross_o;
}

// Adds up what routers gave each branch, by linear.
class BranchUse final : public InputObserver {
 public:
  BranchUse(const std::vector<const Linear*>& linears, size_t slot, int64_t branches)
      : sums(at::zeros({static_cast<int64_t>(linears.size()), branches}, at::kDouble)),
        linears_(linears),
        slot_(slot) {}
  void see(const Linear&, const torch::Tensor&) override {}
  void see_weights(const Linear& linear, size_t slot, const torch::Tensor& weights,
                   const torch::Tensor& mask) override {
    if (slot != slot_) return;
    const auto place = std::find(linears_.begin(), linears_.end(), &linear) - linears_.begin();
    auto each = weights.to(at::kDouble);
    if (each.dim() == 3 && mask.defined() && mask.sizes() == each.sizes().slice(0, 2))
      each = each * mask.to(at::kDouble).unsqueeze(-1);
    sums[place] += each.reshape({-1, each.size(-1)}).sum(0).cpu();
  }

  torch::Tensor sums;  // [linears, branches]

 private:
  std::vector<const Linear*> linears_;
  size_t slot_;
};

class BranchLora final : public Method {
 public:
  bool renews_adapters() const override { return true; }
  void visit(OptionVisitor& visitor) override {
    visitor("branches", branches_, 1, 256,
            "a linear (N); lora_rank is shared out among them, lora_alpha / lora_rank scales each");
    visitor("top", top_, 1, 256, "branches that take part in a pass, and that are frozen after a stage (k)");
    visitor("reads", reads_, "what a router reads: the first token, as published, each token, or their mean");
    visitor("align", align_, 1e-6, 1e6, "weight of the loss that trains the keys");
    visitor("key_rate", key_rate_, 0, 1e3, "learning rate of the keys; 0: the run's");
    visitor("freeze_a_after_stage1", freeze_a_,
            "whether the A that all branches share learns in the first stage alone");
    visitor("sites", sites_, kAdaptedSitesHelp);
    encoder_.visit(visitor);
  }

  std::vector<Assignment> native() const override { return llava_recipe(128, 256); }
  void prepare(Backbone& model, const Options&) override { encoder_.prepare(model); }
  std::vector<std::string> encoder_folders() const override { return encoder_.folders(); }

  Needs needs(int) const override {
    Needs out;
    out.reference = encoder_.folders().empty();
    return out;
  }

  std::optional<AdapterLayout> layout(const std::vector<AdapterSite>& sites, const SlotLayout& plain,
                                      int stage) const override {
    SiteLayout each = plain.sites.at(0);
    check(top_ <= branches_, "branchlora.top=", top_, " of branchlora.branches=", branches_,
          " cannot be; top is at most the number of branches");
    check(each.rank % branches_ == 0, "branchlora.branches=", branches_, " does not divide lora_rank=", each.rank,
          ", which the branches share");
    each.rank /= branches_;
    each.experts = branches_;
    each.share_a = true;
    each.routers = stage;
    const auto chosen = adapted_sites(sites, plain, sites_);
    auto slot = alike(kBranches, chosen, each);
    for (size_t i = 0; i < chosen.size(); ++i) {
      const auto reads = reads_sequence(chosen[i]) ? static_cast<RouterReads>(reads_) : RouterReads::token;
      slot.sites[i].training = slot.sites[i].answering = {GateKind::router, reads, top_, 1};
    }
    return AdapterLayout{slot};
  }

  void plan(const PhasePlan& stage, std::vector<Phase>&) const override {
    check_several_tasks(stage, "branchlora chooses among tasks by their keys");
    check_pictures(stage, "branchlora chooses by pairs of picture and question");
  }

  std::vector<ParameterGroup> parameters() override {
    if (image_keys_.empty()) return {};
    return {{"keys", {{"key.image", image_keys_.back()}, {"key.text", text_keys_.back()}}, key_rate_, 0}};
  }

  void begin_stage(StageContext& stage) override {
    const auto size = encoder_.of(stage.model, stage.data.rows({0}));
    auto generator = at::detail::createCPUGenerator(Random({kKeySeed, stage.seed, uint64_t(stage.stage)}).next());
    const auto key = [&](const torch::Tensor& like) {
      const auto drawn = at::randn({like.size(1)}, generator, at::CPU(at::kFloat));
      return (drawn / drawn.norm()).to(like.device());
    };
    image_keys_.push_back(key(size.image));
    text_keys_.push_back(key(size.text));
    if (freeze_a_ == Switch::no || stage.stage != 2) return;
    for (const auto& site : stage.bank.layout(kBranches).sites)
      stage.bank.freeze_tensor(kBranches, stage.bank.at(kBranches, site.site).experts[0].a);
  }

  void before_stage(StageContext& stage) override {
    stage_ = stage.stage;
    free_ = free_branches(stage.bank);
  }

  // Keys of the stage and the embeddings of its samples: 1 - cos(e_image, k_image) + 1 - cos(e_text, k_text), the mean.
  void add_losses(StepContext& step) override {
    const auto [image, text] = encoder_.of(step.model, step.batch);
    const auto far =
        2 - cosines(image, image_keys_.back().unsqueeze(0)) - cosines(text, text_keys_.back().unsqueeze(0));
    const auto counted = far.squeeze(1) * step.batch.of_stage(stage_).to(far.device());
    step.add("align_loss", scaled(counted.mean(), step.share.samples), align_);
    step.log["free_branch_count"] = torch::full({}, free_ * step.share.process());
  }

  void after_stage(StageContext& stage) override {
    const auto& sites = stage.bank.layout(kBranches).sites;
    const auto sums = router_weight(stage);
    for (size_t i = 0; i < sites.size(); ++i) {
      const auto order = std::get<1>(at::sort(sums[static_cast<int64_t>(i)], /*stable=*/true, 0, /*descending=*/true));
      for (int64_t k = 0; k < top_; ++k)
        stage.bank.freeze(kBranches, sites[i].site, static_cast<size_t>(order[k].item<int64_t>()));
    }
    if (stage.team.leads())
      log_info("stage ", stage.stage, ": ", free_branches(stage.bank), " of ", branches_,
               " branches a linear are left to learn, on average");
  }

  void route(RouteContext& context) override {
    if (!context.answering || image_keys_.empty()) return;
    at::NoGradGuard no_grad;
    const auto [image, text] = encoder_.of(context.model, context.batch);
    const auto nearness = cosines(image, at::stack(image_keys_)) + cosines(text, at::stack(text_keys_));  // [B, tasks]
    const auto task = nearness.argmax(1, true);
    context.given[context.bank.number(kBranches)] = at::zeros_like(nearness).scatter(1, task, 1.0);
    if (!context.choices) return;
    context.choices->clear();
    for (int64_t b = 0; b < task.size(0); ++b)
      context.choices->push_back({stage_slot(static_cast<int>(task[b].item<int64_t>()) + 1)});
  }

  void state(StateVisitor& visitor) override {
    auto count = static_cast<int64_t>(image_keys_.size());
    visitor.number("tasks", StateKind::statistics, count);
    image_keys_.resize(static_cast<size_t>(count));
    text_keys_.resize(static_cast<size_t>(count));
    for (size_t k = 0; k < image_keys_.size(); ++k) {
      visitor.tensor(cat("image.", k), StateKind::adapter, image_keys_[k]);
      visitor.tensor(cat("text.", k), StateKind::adapter, text_keys_[k]);
    }
    encoder_.state(visitor);
  }

  std::vector<StateShape> kept(const StateSizes& sizes) const override {
    const int64_t width = encoder_.widest(sizes);
    std::vector<StateShape> out = {{"tasks", StateKind::statistics, {1}},
                                   {"image.*", StateKind::adapter, {width}},
                                   {"text.*", StateKind::adapter, {width}}};
    encoder_.add_kept(out);
    return out;
  }

  MethodCosts costs(const CostContext& run) const override {
    MethodCosts out;
    const auto stages = static_cast<double>(run.task_samples.size());
    const double linears = run.layers * (sites_ == AdaptedSites::all ? 7 : 2);
    const double routers = linears * run.width * static_cast<double>(branches_);
    out.device_bytes = out.checkpoint_bytes = 4 * (stages * 2 * run.width + std::max(0.0, stages - 1) * routers);
    out.forward_samples = run.samples();  // that router weights are added up over
    out.reference = encoder_.folders().empty();
    encoder_.add_costs(run, out);
    return out;
  }

 private:
  // What the stage's routers gave the branches over its data, [linears, branches].
  torch::Tensor router_weight(StageContext& stage) const {
    at::NoGradGuard no_grad;
    std::vector<const Linear*> linears;
    for (const auto& site : sites_of_slot(stage.bank, kBranches)) linears.push_back(site.linear);
    Pass pass;
    pass.slots = stage.bank.training();
    Want want;
    want.loss = false;
    want.pooled = true;  // all layers run, whatever else is wanted
    std::vector<torch::Tensor> blocks;
    const Walk over{cat("router weights of ", stage.data.name), stage.data.size(), stage.data.pass_samples()};
    each_block(over, stage.team, [&](Part rows, Part) {
      BranchUse use(linears, stage.bank.number(kBranches), branches_);
      pass.observer = &use;
      stage.model.forward(stage.data.rows(range(rows.begin, rows.end)).input, pass, want);
      blocks.push_back(use.sums.unsqueeze(0));
    });
    return stage.team.gather(blocks.empty() ? at::empty({0}, at::kDouble) : at::cat(blocks)).sum(0);
  }

  double free_branches(AdapterBank& bank) const {
    double out = 0;
    const auto& sites = bank.layout(kBranches).sites;
    for (const auto& site : sites)
      for (const auto& expert : bank.at(kBranches, site.site).experts) out += expert.b.requires_grad() ? 1 : 0;
    return out / static_cast<double>(sites.size());
  }

  int64_t branches_ = 8, top_ = 2;
  double align_ = 1, key_rate_ = 0.01;
  BranchReads reads_ = BranchReads::first;
  Switch freeze_a_ = Switch::no;
  AdaptedSites sites_ = AdaptedSites::run;
  ExternalEncoder encoder_{ClipTextForm::projected};

  std::vector<torch::Tensor> image_keys_, text_keys_;  // [width] each, by task; the last ones are being trained
  int stage_ = 1;
  double free_ = 0;  // branches a linear, on average
};

}  // namespace

std::unique_ptr<Method> make_branchlora_method() {
  return std::make_unique<BranchLora>();
}

}  // namespace asr
