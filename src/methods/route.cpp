// Route: every stage trains an adapter of its own, a slot, and a sample is answered by the slot whose stage it fits
// best. What it fits is read from a key, numbers that the base makes of picture and question with all slots off, and
// from count, mean and scatter of the keys of each stage. Kept between stages: the slots and these moments; no sample,
// question, answer or teacher.
#include <algorithm>
#include <cmath>

#include "base/checksums.h"
#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "data/drawn_rows.h"
#include "data/walk.h"
#include "methods/method.h"
#include "methods/terms/several_tasks.h"
#include "methods/terms/sites.h"
#include "methods/terms/stage_keys.h"

namespace asr {

enum class SlotStart { zero, last, nearest, automatic };
template <>
struct EnumNames<SlotStart> {
  static constexpr const char* names[] = {"zero", "last", "nearest", "auto"};
};
enum class RouteBy { keys, truth, chance };
template <>
struct EnumNames<RouteBy> {
  static constexpr const char* names[] = {"keys", "true", "random"};
};

namespace {

constexpr int64_t kProbeRows = 256;  // of a new stage, that earlier slots are tried on
constexpr double kAtHome = 1.25;     // start: auto copies a slot whose loss is at most so many times that at home

// Losses on rows of a stage, of the base and of slots.
struct TriedSlots {
  double base = 0;
  std::vector<double> slots;
  size_t best() const { return static_cast<size_t>(std::min_element(slots.begin(), slots.end()) - slots.begin()); }
};

class Route final : public Method {
 public:
  bool renews_adapters() const override { return true; }
  void visit(OptionVisitor& visitor) override {
    keys_.visit(visitor);
    visitor("choose", by_, "how a sample's stage is found: by keys; true or random, for comparison");
    visitor("start", start_,
            "of a stage's slot: zero; a copy of the last stage's, of the slot with the lowest loss on the new stage "
            "(nearest), or of that one if it is at home there already (auto)");
    visitor("share", share_, 0, 100,
            "a stage goes on in an earlier slot whose loss there is at most 1 + this times that of the slot's own "
            "stage; 0: every stage has its own slot");
    visitor("sites", sites_, kAdaptedSitesHelp);
  }

  void prepare(Backbone& model, const Options& options) override { keys_.prepare(model, options); }

  std::optional<AdapterLayout> layout(const std::vector<AdapterSite>& sites, const SlotLayout& plain,
                                      int stage) const override {
    auto slot = alike(stage_slot(stage), adapted_sites(sites, plain, sites_), plain.sites.at(0));
    for (auto& site : slot.sites) site.answering.kind = GateKind::given;
    return AdapterLayout{slot};
  }

  void plan(const PhasePlan& stage, std::vector<Phase>&) const override {
    check_several_tasks(stage, "route chooses among stages by their keys");
    keys_.check_parts();
  }

  void begin_stage(StageContext& stage) override {
    slots_.resize(static_cast<size_t>(stage.stage) - 1);
    for (const auto& old : slot_list()) {
      stage.bank.freeze(stage_slot(old));
      stage.bank.take_part(stage_slot(old), false, true);
    }
    slots_.push_back(stage.stage);
    if (stage.stage == 1 || (start_ == SlotStart::zero && share_ == 0)) return;
    at::NoGradGuard no_grad;
    if (start_ == SlotStart::last && share_ == 0) return copy_slot(stage, slots_[slots_.size() - 2]);
    begin_from_the_best(stage);
  }

  void after_stage(StageContext& stage) override {
    at::NoGradGuard no_grad;
    keys_.learn(stage, by_ == RouteBy::keys);
    if (compares()) own_loss_.push_back(tried(stage, {slots_.back()}).slots[0]);
  }

  void route(RouteContext& context) override {
    if (!context.answering) return;
    at::NoGradGuard no_grad;
    const auto known = std::min<int64_t>(keys_.stages(), context.stage);
    // While a stage is being finished, its own slot answers its own data.
    const auto fit = known < context.stage ? own_slot(context) : stage_fit(context);
    const auto& weights = fit.weights;
    for (const int slot : slot_list()) {
      const auto name = stage_slot(slot);
      auto weight = at::zeros({weights.size(0)}, at::kDouble);
      for (int64_t t = 0; t < weights.size(1); ++t)
        if (slots_[static_cast<size_t>(t)] == slot) weight = weight + weights.select(1, t);
      // A slot that nobody needs is left out of the pass.
      if (weight.eq(0).all().item<bool>()) {
        context.slots &= ~context.bank.bit(name);
        continue;
      }
      context.given[context.bank.number(name)] = weight.to(at::kFloat).unsqueeze(1).to(context.model.device());
    }
    if (context.choices) note(fit, *context.choices);
  }

  void state(StateVisitor& visitor) override {
    keys_.state(visitor);
    auto slots = torch::tensor(slots_, at::kInt), loss = torch::tensor(own_loss_, at::kDouble);
    visitor.tensor("slots", StateKind::statistics, slots);
    visitor.tensor("loss", StateKind::statistics, loss);
    slots_ = numbers<int>(slots);
    own_loss_ = numbers<double>(loss);
  }

  std::vector<StateShape> kept(const StateSizes& sizes) const override {
    constexpr auto kind = StateKind::statistics;
    std::vector<StateShape> out = {{"slots", kind, {sizes.stages}}, {"loss", kind, {sizes.stages}}};
    keys_.add_kept(sizes, out);
    return out;
  }

  MethodCosts costs(const CostContext& run) const override {
    MethodCosts out;
    const auto stages = static_cast<double>(run.task_samples.size());
    out.device_bytes = 4 * run.parameters * std::max(0.0, stages - 1);
    keys_.add_costs(run, out);
    out.checkpoint_bytes = out.device_bytes + out.host_bytes;
    if (compares()) out.forward_samples += run.samples_up_to(kProbeRows) * (stages + 1) / 2;
    return out;
  }

 private:
  template <class Number>
  static std::vector<Number> numbers(const torch::Tensor& tensor) {
    if (!tensor.defined()) return {};
    const auto host = tensor.cpu().contiguous();
    return {host.data_ptr<Number>(), host.data_ptr<Number>() + host.numel()};
  }

  // Each once, by the stage that made it.
  std::vector<int> slot_list() const {
    auto out = slots_;
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  // Whether earlier slots are tried on a new stage, and each on its own stage.
  bool compares() const { return share_ > 0 || start_ == SlotStart::nearest || start_ == SlotStart::automatic; }

  void copy_slot(StageContext& stage, int from) const {
    const auto source = stage_slot(from), target = stage_slot(stage.stage);
    for (const auto& site : stage.bank.layout(target).sites) {
      const auto& old = stage.bank.at(source, site.site).experts[0];
      auto& fresh = stage.bank.at(target, site.site).experts[0];
      fresh.a.copy_(old.a);
      fresh.b.copy_(old.b);
    }
  }

  // The mean loss of the base and of these slots over some rows of the stage.
  TriedSlots tried(const StageContext& stage, const std::vector<int>& slots) const {
    const auto rows = drawn_rows(stage.data.size(), kProbeRows, draw_key(DrawPurpose::probe, stage.seed, stage.stage));
    std::vector<torch::Tensor> blocks;
    const Walk over{cat("losses of earlier adapters on ", stage.data.name), static_cast<int64_t>(rows.size()),
                    stage.data.pass_samples()};
    each_block(over, stage.team, [&](Part here, Part) {
      const auto batch = stage.data.rows({rows.begin() + here.begin, rows.begin() + here.end});
      const auto learnt = static_cast<double>(stage.objective.learnt(batch));
      std::vector<double> sums = {learnt, stage.objective.loss_of(stage.model, batch, Pass{0, nullptr}).item<double>()};
      for (const int slot : slots) {
        Pass alone;
        alone.slots = stage.bank.bit(stage_slot(slot));
        sums.push_back(stage.objective.loss_of(stage.model, batch, alone).item<double>());
      }
      for (size_t i = 1; i < sums.size(); ++i) sums[i] *= learnt;
      blocks.push_back(torch::tensor(sums, at::kDouble).unsqueeze(0));
    });
    const auto all = stage.team.gather(blocks.empty() ? at::empty({0}, at::kDouble) : at::cat(blocks)).sum(0);
    const auto means = numbers<double>(all / all[0]);
    return {means[1], {means.begin() + 2, means.end()}};
  }

  void begin_from_the_best(StageContext& stage) {
    slots_.pop_back();
    const auto candidates = slot_list();
    const auto losses = tried(stage, candidates);
    const auto best = losses.best();
    const int slot = candidates[best];
    const bool shares = share_ > 0 && losses.slots[best] <= (1 + share_) * loss_at_home(slot);
    // A copy of a slot that knows half of a stage ends below a fresh one: it must unlearn the other half.
    const bool at_home = losses.slots[best] <= std::min(losses.base, kAtHome * loss_at_home(slot));
    int copied = 0;
    if (start_ == SlotStart::nearest || (start_ == SlotStart::automatic && at_home)) copied = slot;
    if (start_ == SlotStart::last) copied = slots_.back();
    if (stage.team.leads())
      log_info("stage ", stage.stage, ": loss of the base ", losses.base, ", of ", stage_slot(slot), ", the best of ",
               candidates.size(), " slots, ", losses.slots[best], " (on its own stage ", loss_at_home(slot), "); ",
               shares       ? cat("goes on in ", stage_slot(slot))
               : copied > 0 ? cat("begins as a copy of ", stage_slot(copied))
                            : std::string("begins fresh"));
    if (shares) {
      stage.bank.remove(stage_slot(stage.stage));
      stage.bank.unfreeze(stage_slot(slot));
      stage.bank.take_part(stage_slot(slot), true, true);
      slots_.push_back(slot);
      return;
    }
    if (copied > 0) copy_slot(stage, copied);
    slots_.push_back(stage.stage);
  }

  // The loss with which a slot left the last of its stages.
  double loss_at_home(int slot) const {
    double out = -1;
    for (size_t t = 0; t < own_loss_.size(); ++t)
      if (slots_[t] == slot) out = own_loss_[t];
    return out;
  }

  static StageFit own_slot(const RouteContext& context) {
    auto out = at::zeros({context.batch.size(), context.stage}, at::kDouble);
    out.select(1, context.stage - 1).fill_(1);
    return {out, out};
  }

  StageFit stage_fit(const RouteContext& context) {
    if (by_ == RouteBy::keys) return keys_.fit(context.model, context.batch);
    const int64_t stages = keys_.stages();
    auto out = at::zeros({context.batch.size(), stages}, at::kDouble);
    for (int64_t b = 0; b < context.batch.size(); ++b) {
      const auto& info = context.batch.info[static_cast<size_t>(b)];
      out[b][by_ == RouteBy::truth ? true_stage(info, stages) : random_stage(info, stages)] = 1;
    }
    return {out, out};
  }

  static int64_t true_stage(const SampleInfo& info, int64_t stages) {
    check(info.stage > 0, "route.choose: true needs samples whose stage is known, and that of ", info.id,
          " is not; choose keys");
    return std::min<int64_t>(info.stage, stages) - 1;
  }
  static int64_t random_stage(const SampleInfo& info, int64_t stages) {
    const auto id = std::stoull(sha256_of(info.id + info.question).substr(0, 15), nullptr, 16);
    return Random({0x40e7e, uint64_t(id)}).below(static_cast<uint32_t>(stages));
  }

  void note(const StageFit& fit, std::vector<RouteChoice>& choices) const {
    choices.clear();
    for (int64_t b = 0; b < fit.weights.size(0); ++b) {
      const auto [most, best] = fit.weights[b].max(0);
      const auto stage = best.item<int64_t>();
      const bool base = most.item<double>() == 0;
      choices.push_back({base ? "" : stage_slot(slots_[static_cast<size_t>(stage)]),
                         base ? 1 : fit.probabilities[b][stage].item<double>(), slot_probabilities(fit, b)});
    }
  }

  // Of having come from a stage of each slot.
  std::vector<std::pair<std::string, double>> slot_probabilities(const StageFit& fit, int64_t row) const {
    std::vector<std::pair<std::string, double>> out;
    for (const int slot : slot_list()) {
      double sum = 0;
      for (int64_t t = 0; t < fit.probabilities.size(1); ++t)
        if (slots_[static_cast<size_t>(t)] == slot) sum += fit.probabilities[row][t].item<double>();
      out.emplace_back(stage_slot(slot), sum);
    }
    return out;
  }

  StageKeys keys_;
  double share_ = 0;
  RouteBy by_ = RouteBy::keys;
  SlotStart start_ = SlotStart::zero;
  AdaptedSites sites_ = AdaptedSites::run;

  std::vector<int> slots_;        // of every stage: the stage that made its slot
  std::vector<double> own_loss_;  // where slots are compared: of every stage's slot on it, at its end
};

}  // namespace

std::unique_ptr<Method> make_route_method() {
  return std::make_unique<Route>();
}

}  // namespace asr
