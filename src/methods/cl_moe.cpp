// CL-MoE (CVPR 2025): low-rank experts weighed token by token by a softmax router G(x), all of them in training. The
// weights G^T(t) of a stage are how often each expert was among the best two of its tokens; answers weigh experts by
// b G(x) + (1 - b) G^T(t). After a stage every expert is blended with what it was before, theta = l theta_old +
// (1 - l) theta_new, with l by its role: whether this stage and the one before it use it.
#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.h"
#include "methods/method.h"
#include "methods/terms/recipes.h"
#include "methods/terms/sites.h"

namespace asr {

enum class RoleRule { code, inverted };
template <>
struct EnumNames<RoleRule> {
  static constexpr const char* names[] = {"code", "inverted"};
};
enum class AnswerStage { nearest, average, oracle };
template <>
struct EnumNames<AnswerStage> {
  static constexpr const char* names[] = {"nearest", "average", "oracle"};
};

namespace {

constexpr int64_t kCounted = 2;  // best experts of a token

// What the routers of the language model make of a pass, linear by linear: weights [B, S, E] of all tokens, and which
// tokens are real [B, S, 1].
class RouterWatch final : public InputObserver {
 public:
  using Look = std::function<void(const torch::Tensor& weights, const torch::Tensor& real)>;
  RouterWatch(const AdapterBank& bank, torch::Tensor text_mask, Look look)
      : slot_(bank.number(kTrainedSlot)), text_(std::move(text_mask)), look_(std::move(look)) {
    for (const auto& site : sequence_sites(bank.sites())) sites_.insert(site.linear);
  }
  void see(const Linear& linear, const torch::Tensor& x) override {
    if (sites_.count(&linear) == 0 || linear.slots[slot_].experts.empty()) return;
    const auto& router = linear.slots[slot_].training.router;
    const auto weights = at::linear(x.detach(), router.detach().to(x.scalar_type())).to(at::kFloat).softmax(-1);
    // Visual tokens stand before the text in sequences that hold both.
    const auto before = torch::ones({x.size(0), x.size(1) - text_.size(1)}, text_.options());
    look_(weights, at::cat({before, text_}, 1).to(at::kFloat).unsqueeze(-1));
  }

 private:
  size_t slot_;
  torch::Tensor text_;  // [B, T] bool
  Look look_;
  std::set<const Linear*> sites_;
};

class ClMoe final : public Method {
 public:
  void visit(OptionVisitor& visitor) override {
    visitor("experts", experts_, 1, 256,
            "a linear; lora_rank is shared out among them, lora_alpha / lora_rank scales each");
    visitor("router_share", router_share_, 0, 1,
            "of an answer's weights (b); the rest is the stage's. 1: router alone");
    visitor("momentum", momentum_, 0, 1, "part of an expert's old value that stays in the blend (gamma); by its role");
    visitor("role_rule", role_rule_,
            "code: experts that the stage before used and this one does not keep 1 - momentum, the others momentum; "
            "inverted: the other way round");
    visitor("role_experts", role_experts_, 1, 256,
            "most counted experts that a stage is said to use; 8: as released, where 4 experts have no roles");
    visitor("count_every", count_every_, 1, 1000000, "steps from one whose tokens are counted to the next");
    visitor("stage", stage_by_,
            "whose weights answer a sample: of the stage nearest to its mean router output, the average of all, or its "
            "true stage (oracle), for comparison");
    visitor("sites", sites_, kAdaptedSitesHelp);
  }

  std::vector<Assignment> native() const override { return llava_recipe(32, 64, 16, 2); }

  std::optional<AdapterLayout> layout(const std::vector<AdapterSite>& sites, const SlotLayout& plain,
                                      int) const override {
    const auto chosen = adapted_sites(sites, plain, sites_);
    auto each = routed_experts(plain, experts_, "cl-moe");
    each.answering.router_share = router_share_;
    auto slot = alike(kTrainedSlot, chosen, each);
    // The projector has no experts in the original, and is taken from the newest stage.
    for (size_t i = 0; i < chosen.size(); ++i) {
      if (chosen[i].part != SitePart::projector) continue;
      slot.sites[i] = plain.sites.at(0);
      slot.sites[i].site = chosen[i].name;
    }
    return AdapterLayout{slot};
  }

  void begin_stage(StageContext& stage) override {
    steps_ = 0;
    counts_ = torch::zeros({experts_}, at::kDouble);
    if (stage.stage == 1) return;
    std::vector<torch::Tensor> parts;
    each_factor(stage.bank, [&](size_t, torch::Tensor& factor) { parts.push_back(factor.detach().flatten()); });
    before_ = at::cat(parts).cpu();
  }

  void before_stage(StageContext& stage) override {
    team_ = &stage.team;
    counts_ = counts_.cpu();
  }

  void add_losses(StepContext& step) override {
    if (steps_ % count_every_ != 0 || step.share.positions.empty()) return;
    at::NoGradGuard no_grad;
    const int64_t best = std::min(kCounted, experts_);
    RouterWatch watch(step.bank, step.batch.input.mask, [&](const torch::Tensor& weights, const torch::Tensor& real) {
      const auto places = std::get<1>(weights.topk(best, -1));
      const auto among = torch::zeros_like(weights).scatter_(-1, places, 1) * real;
      const auto found = among.flatten(0, 1).sum(0, false, at::kDouble);
      fresh_ = fresh_.defined() ? fresh_ + found : found;
    });
    Pass pass;
    pass.slots = step.bank.training();
    run_routers(step.model, step.batch.input, pass, watch);
  }

  // The processes add up what each has counted before anything can be stored.
  void after_step(GradientContext&) override {
    if (steps_++ % count_every_ != 0) return;
    auto found = fresh_.defined() ? fresh_.cpu() : torch::zeros_like(counts_);
    fresh_ = torch::Tensor();
    team_->sum(found);
    counts_ += found;
  }

  void after_stage(StageContext& stage) override {
    check(counts_.sum().item<double>() > 0, "cl-moe: no token of stage ", stage.stage,
          " was counted; are linears of the language model among the run's sites?");
    const auto fresh = (counts_ / counts_.sum()).unsqueeze(0);
    weights_ = weights_.defined() ? at::cat({weights_.cpu(), fresh}) : fresh;
    if (stage.stage > 1) blend(stage.bank);
    counts_ = before_ = torch::Tensor();
    steps_ = 0;
  }

  void route(RouteContext& context) override {
    if (!context.answering || router_share_ == 1) return;
    at::NoGradGuard no_grad;
    const int64_t known = weights_.defined() ? weights_.size(0) : 0;
    // While a stage is being finished, what was counted in it serves.
    const auto given = known < context.stage ? counted_share() : stage_weights(context);
    context.given[context.bank.number(kTrainedSlot)] = given.to(at::kFloat).to(context.model.device());
  }

  void state(StateVisitor& visitor) override {
    visitor.tensor("weights", StateKind::statistics, weights_);
    visitor.tensor("counts", StateKind::statistics, counts_);
    visitor.tensor("before", StateKind::statistics, before_);
    visitor.number("steps", StateKind::statistics, steps_);
  }
  std::vector<StateShape> kept(const StateSizes& sizes) const override {
    constexpr auto kind = StateKind::statistics;
    return {{"weights", kind, {sizes.stages, experts_}},
            {"counts", kind, {experts_}, Lasts::stage},
            {"before", kind, {sizes.parameters}, Lasts::stage},
            {"steps", kind, {1}}};
  }

  MethodCosts costs(const CostContext& run) const override {
    MethodCosts out;
    out.host_bytes = out.checkpoint_bytes = run.task_samples.size() > 1 ? 4 * run.parameters : 0;
    out.forward_passes = 1 / static_cast<double>(count_every_);
    return out;
  }

 private:
  // Every factor of every expert, with the expert's number, in the order of the sites.
  static void each_factor(AdapterBank& bank, const std::function<void(size_t, torch::Tensor&)>& visit) {
    for (const auto& site : bank.layout(kTrainedSlot).sites) {
      if (site.training.kind != GateKind::router) continue;
      auto& experts = bank.at(kTrainedSlot, site.site).experts;
      for (size_t e = 0; e < experts.size(); ++e) {
        visit(e, experts[e].a);
        visit(e, experts[e].b);
      }
    }
  }

  // A pass for what the routers say of it; its output goes.
  static void run_routers(const Backbone& model, const Batch& batch, Pass pass, RouterWatch& watch) {
    pass.observer = &watch;
    Want want;
    want.loss = false;
    want.state = true;  // every layer runs
    model.forward(batch, pass, want);
  }

  // The experts that a finished stage counted most; of equal ones the first.
  std::set<size_t> used_in(int64_t stage) const {
    std::vector<size_t> order(static_cast<size_t>(experts_));
    std::iota(order.begin(), order.end(), size_t(0));
    const auto row = weights_[stage - 1].contiguous();
    const double* weight = row.data_ptr<double>();
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return weight[a] > weight[b]; });
    return {order.begin(), order.begin() + std::min(role_experts_, experts_)};
  }

  void blend(AdapterBank& bank) const {
    at::NoGradGuard no_grad;
    const auto earlier = used_in(weights_.size(0) - 1), now = used_in(weights_.size(0));
    const auto stays = [&](size_t expert) {
      const bool old_alone = earlier.count(expert) > 0 && now.count(expert) == 0;
      return old_alone == (role_rule_ == RoleRule::inverted) ? momentum_ : 1 - momentum_;
    };
    int64_t first = 0;
    each_factor(bank, [&](size_t expert, torch::Tensor& factor) {
      const auto old = before_.narrow(0, first, factor.numel()).view(factor.sizes()).to(factor.device());
      factor.mul_(1 - stays(expert)).add_(old, stays(expert));
      first += factor.numel();
    });
  }

  torch::Tensor counted_share() const {  // [E]
    const double all = counts_.defined() ? counts_.sum().item<double>() : 0;
    if (all == 0) return torch::full({experts_}, 1 / static_cast<double>(experts_), at::kDouble);
    return counts_ / all;
  }

  torch::Tensor stage_weights(const RouteContext& context) const {  // [E] or [B, E]
    const auto all = weights_.cpu();
    if (all.size(0) == 1) return all[0];
    if (stage_by_ == AnswerStage::average) return all.mean(0);
    if (stage_by_ == AnswerStage::nearest) {
      const auto apart = prompt_weights(context).unsqueeze(1) - all;  // [B, stages, E]
      return all.index_select(0, apart.square().sum(2).argmin(1));
    }
    std::vector<int64_t> stages;
    for (const auto& info : context.batch.info) {
      check(info.stage > 0, "cl-moe.stage: oracle needs samples whose stage is known, and that of ", info.id,
            " is not; choose nearest");
      stages.push_back(std::min<int64_t>(info.stage, all.size(0)) - 1);
    }
    return all.index_select(0, torch::tensor(stages, at::kLong));
  }

  // Mean weights that the routers give the tokens of each sample's prompt, [B, E]: its answer may stand in the batch.
  torch::Tensor prompt_weights(const RouteContext& context) const {
    auto prompt = context.batch.input;
    prompt.mask = prompt.mask.logical_and(prompt.labels.lt(0));
    torch::Tensor sum;
    RouterWatch watch(context.bank, prompt.mask, [&](const torch::Tensor& weights, const torch::Tensor& real) {
      const auto found = (weights * real).sum(1, false, at::kDouble);
      sum = sum.defined() ? sum + found : found;
    });
    Pass pass;  // routers alone, as in training
    pass.slots = context.slots;
    run_routers(context.model, prompt, pass, watch);
    return (sum / sum.sum(1, true)).cpu();
  }

  int64_t experts_ = 4, role_experts_ = 2, count_every_ = 10;
  double router_share_ = 0.5, momentum_ = 0.7;
  RoleRule role_rule_ = RoleRule::code;
  AnswerStage stage_by_ = AnswerStage::nearest;
  AdaptedSites sites_ = AdaptedSites::run;

  const Team* team_ = nullptr;
  torch::Tensor weights_;  // [finished stages, E] double: G^T
  torch::Tensor counts_;   // [E] double, of the stage in hand
  torch::Tensor fresh_;    // [E], of this process in the step in hand
  torch::Tensor before_;   // experts as the stage found them, flat; from the second stage on
  int64_t steps_ = 0;      // of the stage
};

}  // namespace

std::unique_ptr<Method> make_cl_moe_method() {
  return std::make_unique<ClMoe>();
}

}  // namespace asr
