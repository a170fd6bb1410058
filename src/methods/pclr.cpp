// PCLR (ICLR 2026): adapters are pools of rank-one experts with keys, and a sample uses the ranks whose keys are
// nearest to its query, made of its question and its picture. A stage learns new ranks and their keys. When the pool is
// full, every m-th rank is dropped, and the rest, with a few ranks that all samples share, learns from the pool as it
// was: on the stage's own data, under the stored mean query of one stage or another. No sample is kept.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "methods/method.h"
#include "methods/terms/rank_pool.h"
#include "methods/terms/rank_slots.h"
#include "methods/terms/recipes.h"
#include "methods/terms/sample_queries.h"
#include "methods/terms/sites.h"

namespace asr {

namespace {

constexpr const char* kPast = "past";
constexpr const char* kFresh = "fresh";
constexpr const char* kShared = "shared";
constexpr const char* kIntegrate = "integrate";

// Which ranks take part, as columns of the slots: [N, ranks] of 0 and 1.
struct RankGates {
  torch::Tensor past, fresh;
};

class Pclr final : public Method {
 public:
  bool renews_adapters() const override { return true; }
  void visit(OptionVisitor& visitor) override {
    visitor("pool", pool_, 2, 60, "stages whose lora_rank ranks are kept in full; from then on ranks are dropped");
    visitor("active", active_, 0, 65536,
            "ranks of the pool that a sample uses, scaled by lora_alpha over it; 0: lora_rank");
    visitor("shared", shared_, 0, 65536, "ranks that all samples use once some were dropped; 0: half of lora_rank");
    visitor("alignment", alignment_, 0, 1e6, "weight of the cosine distance between new keys and queries; 0: off");
    visitor("choice", choice_, "of ranks: by each sample's own scores, or as released by their sum over the batch");
    visitor("picture", query_.picture,
            "of a query, of the vision tower's last states: the first, which is the class token where there is one, or "
            "their mean");
    visitor("integration_epochs", epochs_, 0.001, 1000, "of learning from the pool before ranks were dropped");
    visitor("integration_rate", rate_, 1e-6, 100, "of that, as a part of the learning rate");
    visitor("top", divergence_.top, 1, 1000000, "likeliest words of the old pool that the new one learns from");
    visitor("temperature", divergence_.temperature, 1e-3, 1e3, "of both distributions over them");
    visitor("sites", sites_,
            "run: the linears that every run adapts; all: every linear of the language model; never the projector");
  }

  std::vector<Assignment> native() const override {
    auto out = llava_recipe(64, 128);
    for (auto& setting : out)
      if (setting.key == "projector") setting.value = "frozen";
    return out;
  }

  std::optional<AdapterLayout> layout(const std::vector<AdapterSite>& sites, const SlotLayout& plain,
                                      int) const override {
    std::vector<AdapterSite> text;  // projector and vision tower stay as they are
    for (const auto& site : adapted_sites(sites, plain, sites_))
      if (site.part <= SitePart::cross_o) text.push_back(site);
    SiteLayout each = plain.sites.at(0);
    const int64_t rank = each.rank, common = shared_ > 0 ? shared_ : std::max<int64_t>(1, rank / 2);
    const double alpha = each.scale * static_cast<double>(rank);
    each.scale = alpha / static_cast<double>(active_of(rank));
    each.training.kind = each.answering.kind = GateKind::given;
    AdapterLayout out = {alike(kFresh, text, each)};
    each.rank = schedule_of(rank).most_past();
    out.push_back(alike(kPast, text, each));
    each.rank = common;
    each.scale = alpha / static_cast<double>(common);
    each.training.kind = each.answering.kind = GateKind::sum;
    out.push_back(alike(kShared, text, each));
    return out;
  }

  void plan(const PhasePlan& stage, std::vector<Phase>& phases) const override {
    check_several_tasks(stage, "pclr chooses ranks by the keys of tasks");
    if (stage.stage < pool_ || stage.stage >= stage.stages) return;
    Phase integrate;
    integrate.name = kIntegrate;
    for (const auto& phase : phases)
      if (phase.of_method.empty()) integrate.samples += phase.samples;
    integrate.steps = stage.steps(epochs_, integrate.samples);
    integrate.trains = {"adapters"};
    integrate.task_weight = 0;
    integrate.learning_rate = rate_ * stage.learning_rate;
    phases.push_back(integrate);
  }

  void prepare(Backbone& model, const Options&) override { query_.text_width = model.token_embedding().size(1); }

  std::vector<ParameterGroup> parameters() override {
    if (!fresh_keys_.defined()) return {};
    return {{"keys", {{"pclr.keys", fresh_keys_}}, 0, 0}};
  }

  void begin_stage(StageContext& stage) override {
    at::NoGradGuard no_grad;
    const auto ranks = schedule_of(rank_of(stage.bank)).at(stage.stage);
    if (stage.stage > 1) move_fresh_to_past(stage.bank);
    check(past_count_ == ranks.past, "pclr: stage ", stage.stage, " begins with ", past_count_, " ranks, not ",
          ranks.past);
    fresh_count_ = ranks.fresh;
    const bool compressed = schedule_of(rank_of(stage.bank)).compressed_before(stage.stage);
    for (const char* slot : {kPast, kShared}) stage.bank.freeze(slot);
    stage.bank.unfreeze(kFresh);
    stage.bank.take_part(kPast, past_count_ > 0, past_count_ > 0);
    stage.bank.take_part(kShared, compressed, compressed);
    const auto query = query_.mean_of(stage.model, stage.data, stage.team);
    queries_ = queries_.defined() ? at::cat({queries_.to(query.device()), query}) : query;
    if (!past_keys_.defined())
      past_keys_ = at::zeros({stage.bank.layout(kPast).sites[0].rank, query.size(1)}, query.options());
    fresh_keys_ = query.expand({rank_of(stage.bank), -1}).clone();
    begin_fresh_ranks(stage, compressed);
  }

  void before_stage(StageContext& stage) override {
    stage_ = stage.stage;
    seed_ = stage.seed;
    team_ = &stage.team;
  }

  void begin_phase(StageContext& stage, const Phase& phase) override {
    if (phase.name != kIntegrate) return;
    at::NoGradGuard no_grad;
    before_.clear();
    for (const char* slot : {kFresh, kPast, kShared})
      for (const auto& [name, tensor] : stage.bank.tensors_of(slot)) before_.push_back(tensor.detach().clone());
    old_gates_ = joined(gates_of_stages());
    compress(stage.bank);
    new_gates_ = joined(gates_of_stages());
    stage.bank.unfreeze(kPast);
    stage.bank.unfreeze(kShared);
    stage.bank.take_part(kShared, true, true);
    last_divergence_ = at::ones({queries_.size(0)}, at::kDouble);
    integrated_ = 0;
  }

  void route(RouteContext& context) override {
    at::NoGradGuard no_grad;
    const auto& bank = context.bank;
    const bool fills = past_count_ > 0 && fresh_count_ < active_of(rank_of(bank));
    if (!context.answering && !fills) {  // the new ranks alone, all of them
      context.slots &= ~bank.bit(kPast);
      context.given[bank.number(kFresh)] = padded_gate(at::ones({1, fresh_count_}), rank_of(bank)).squeeze(0);
      return;
    }
    const auto queries = query_.of(context.model, context.batch);
    auto last = at::ones({queries.size(0), 1}, at::device(queries.device()).dtype(at::kBool));
    if (context.answering) last = scores(queries, queries_).argmax(1, true).eq(queries_.size(0) - 1);
    const auto gates = gates_for(queries, last, bank);
    const auto give = [&](const char* slot, const torch::Tensor& gate) {
      if (gate.eq(0).all().item<bool>())
        context.slots &= ~bank.bit(slot);  // nobody needs it
      else
        context.given[bank.number(slot)] = gate;
    };
    give(kPast, gates.past);
    give(kFresh, gates.fresh);
  }

  void add_losses(StepContext& step) override {
    if (step.phase.name == kIntegrate) return add_integration(step);
    if (alignment_ == 0) return;
    const auto queries = query_.of(step.model, step.batch);
    const auto keys = fresh_keys_.narrow(0, 0, fresh_count_);
    const auto cosines = QueryScores{query_.text_width, 1}(queries, keys);
    const auto far = (2 - cosines).mean(1) * step.batch.of_stage(stage_).to(cosines.device());
    step.add("alignment_loss", scaled(far.mean(), step.share.samples), alignment_);
  }

  void after_step(GradientContext& step) override {
    if (step.phase.name != kIntegrate) return;
    auto seen = torch::full({1}, seen_divergence_, at::kDouble);
    team_->sum(seen);
    last_divergence_[drawn_stage()] = seen[0];
    seen_divergence_ = 0;
    ++integrated_;
  }

  void after_stage(StageContext& stage) override {
    stage.bank.freeze(kPast);
    stage.bank.freeze(kShared);
    before_.clear();
    old_gates_ = new_gates_ = last_divergence_ = torch::Tensor();
    integrated_ = 0;
  }

  void state(StateVisitor& visitor) override {
    constexpr auto kind = StateKind::statistics;
    int64_t copies = static_cast<int64_t>(before_.size());
    visitor.number("past_count", kind, past_count_);
    visitor.number("fresh_count", kind, fresh_count_);
    visitor.number("integrated", kind, integrated_);
    visitor.number("copies", kind, copies);
    visitor.tensor("queries", kind, queries_);
    visitor.tensor("past_keys", StateKind::adapter, past_keys_);
    visitor.tensor("fresh_keys", StateKind::adapter, fresh_keys_);
    visitor.tensor("old_gates", kind, old_gates_);
    visitor.tensor("new_gates", kind, new_gates_);
    visitor.tensor("last_divergence", kind, last_divergence_);
    before_.resize(static_cast<size_t>(copies));
    for (size_t i = 0; i < before_.size(); ++i) visitor.tensor(cat("before.", i), StateKind::adapter, before_[i]);
    if (last_divergence_.defined()) last_divergence_ = last_divergence_.cpu();
  }

  std::vector<StateShape> kept(const StateSizes& sizes) const override {
    constexpr auto kind = StateKind::statistics;
    constexpr int64_t kLargestRank = 4096;
    const int64_t T = sizes.stages, ranks = pool_ * kLargestRank, width = 2 * sizes.widest_site;
    return {{"past_count", kind, {1}},
            {"fresh_count", kind, {1}},
            {"integrated", kind, {1}},
            {"copies", kind, {1}},
            {"queries", kind, {T, width}},
            {"past_keys", StateKind::adapter, {ranks, width}},
            {"fresh_keys", StateKind::adapter, {kLargestRank, width}},
            {"old_gates", kind, {T, 2 * ranks}, Lasts::stage},
            {"new_gates", kind, {T, 2 * ranks}, Lasts::stage},
            {"last_divergence", kind, {T}, Lasts::stage},
            {"before.*", StateKind::adapter, {std::max(ranks, width), std::max(ranks, width)}, Lasts::stage}};
  }

  MethodCosts costs(const CostContext& run) const override {
    MethodCosts out;
    const auto pool = static_cast<double>(pool_);
    const double adapters = 4 * run.parameters * pool;
    const double keys = run.layers > 0 ? 2 * (pool + 1) * run.parameters / run.layers : 0;
    out.checkpoint_bytes = adapters + keys;
    const auto stages = static_cast<int64_t>(run.task_samples.size());
    double integrated = 0;
    for (int64_t t = pool_ - 1; t + 1 < stages; ++t) integrated += epochs_ * run.task_samples[static_cast<size_t>(t)];
    out.device_bytes = (integrated > 0 ? 2 : 1) * adapters + keys;
    out.backward_samples = out.forward_samples = integrated;
    out.picture_passes = out.answer_picture_passes = 1;  // of a query
    return out;
  }

 private:
  int64_t active_of(int64_t rank) const { return active_ > 0 ? active_ : rank; }
  RankSchedule schedule_of(int64_t rank) const { return {pool_ * rank, rank}; }
  static int64_t rank_of(const AdapterBank& bank) { return bank.layout(kFresh).sites.at(0).rank; }
  static torch::Tensor padded_gate(const torch::Tensor& gate, int64_t columns) {
    return at::constant_pad_nd(gate, {0, columns - gate.size(1)});
  }
  torch::Tensor joined(const RankGates& gates) const { return at::cat({gates.fresh, gates.past}, 1); }

  torch::Tensor scores(const torch::Tensor& queries, const torch::Tensor& keys) const {
    const auto text = static_cast<double>(query_.text_width), all = static_cast<double>(queries.size(1));
    return QueryScores{query_.text_width, (all - text) / text}(queries, keys);
  }

  // The last stage's samples use its ranks and are filled up with old ones; others choose among the old ones alone.
  RankGates gates_for(const torch::Tensor& queries, const torch::Tensor& last, int64_t rank) const {
    const int64_t active = active_of(rank);
    const auto old = scores(queries, past_keys_.narrow(0, 0, past_count_));
    const auto filled = largest_of(old, active - fresh_count_, choice_), alone = largest_of(old, active, choice_);
    const auto fresh = at::ones({queries.size(0), fresh_count_}, queries.options()) * last;
    return {padded_gate(at::where(last, filled, alone), past_keys_.size(0)), padded_gate(fresh, rank)};
  }
  RankGates gates_for(const torch::Tensor& queries, const torch::Tensor& last, const AdapterBank& bank) const {
    return gates_for(queries, last, rank_of(bank));
  }
  RankGates gates_of_stages() const {
    const auto numbers = at::arange(queries_.size(0), at::device(queries_.device()).dtype(at::kLong)).unsqueeze(1);
    return gates_for(queries_, numbers.eq(queries_.size(0) - 1), fresh_keys_.size(0));
  }

  void move_fresh_to_past(AdapterBank& bank) {
    copy_ranks(bank, {kFresh, 0}, {kPast, past_count_}, range(0, fresh_count_));
    past_keys_.narrow(0, past_count_, fresh_count_).copy_(fresh_keys_.narrow(0, 0, fresh_count_));
    past_count_ += fresh_count_;
  }

  // Random and zero; once ranks were dropped, copies of the old ones that the stage's query chooses.
  void begin_fresh_ranks(StageContext& stage, bool copies) const {
    renew_ranks(stage.bank, kFresh, Random({stage.seed, 0x9c14, static_cast<uint64_t>(stage.stage)}).next());
    if (!copies) return;
    const auto old = scores(queries_.narrow(0, queries_.size(0) - 1, 1), past_keys_.narrow(0, 0, past_count_));
    auto best = std::get<1>(at::sort(old, /*stable=*/true, 1, /*descending=*/true)).flatten().cpu();
    best = best.narrow(0, 0, std::min(fresh_count_, past_count_));
    copy_ranks(stage.bank, {kPast, 0}, {kFresh, 0},
               {best.data_ptr<int64_t>(), best.data_ptr<int64_t>() + best.numel()});
  }

  // Drops ranks of both pools; the keys of the others move towards the queries that choose them.
  void compress(AdapterBank& bank) {
    const int64_t drops = schedule_of(rank_of(bank)).at(stage_).drops;
    const auto shrink = [&](const char* slot, int64_t before, int64_t count, torch::Tensor& keys) {
      const auto stay = without_every(drops, before, count);
      keep_ranks(bank, slot, stay);
      const auto left = keys.index_select(0, torch::tensor(stay, at::kLong).to(keys.device()));
      keys.zero_().narrow(0, 0, left.size(0)).copy_(left);
      return left.size(0);
    };
    fresh_count_ = shrink(kFresh, past_count_, fresh_count_, fresh_keys_);
    past_count_ = shrink(kPast, 0, past_count_, past_keys_);
    const auto gates = gates_of_stages();
    const auto moved = [&](const torch::Tensor& keys, const torch::Tensor& chosen) {
      return query_.normalised(keys + chosen.t().mm(queries_));
    };
    past_keys_.copy_(moved(past_keys_, gates.past));
    fresh_keys_.copy_(moved(fresh_keys_, gates.fresh));
  }

  // The stage whose query the step in hand is under: by the root of how far apart the pools were there last.
  int64_t drawn_stage() const {
    const auto weights = (last_divergence_ + 1e-4).sqrt();
    const double place =
        Random({seed_, 0x9c15, static_cast<uint64_t>(stage_), static_cast<uint64_t>(integrated_)}).uniform() *
        weights.sum().item<double>();
    return std::min(weights.cumsum(0).le(place).sum().item<int64_t>(), weights.numel() - 1);
  }

  struct Said {
    torch::Tensor logits, samples;  // [N, choices], [N]
  };
  // At every position of the text; with a head of its own, what the task chooses from.
  static Said said(const StepContext& step, const Pass& pass) {
    if (!step.objective.parameters().empty()) {
      const auto logits = step.logits(pass, {});
      return {logits, at::arange(logits.size(0), at::device(logits.device()).dtype(at::kLong))};
    }
    Want want;
    want.loss = false;
    want.all_logits = true;
    const auto out = step.model.forward(step.batch.input, pass, want).all_logits;
    const auto places = step.batch.input.mask.nonzero();
    return {out.index({places.select(1, 0), places.select(1, 1)}), places.select(1, 0)};
  }

  void add_integration(StepContext& step) {
    const auto& bank = step.bank;
    const auto row = drawn_stage();
    const auto under = [&](const torch::Tensor& table, bool shared) {
      RoutedPass out;
      out.how.slots = bank.bit(kFresh) | bank.bit(kPast) | (shared ? bank.bit(kShared) : 0);
      const auto gates = table[row];
      const int64_t fresh = rank_of(bank);
      out.given[bank.number(kFresh)] = gates.narrow(0, 0, fresh);
      out.given[bank.number(kPast)] = gates.narrow(0, fresh, gates.size(0) - fresh);
      return out;
    };
    Said teacher;
    {
      at::NoGradGuard no_grad;
      const OtherFactors old(step.bank, {kFresh, kPast, kShared}, before_);
      const auto pass = under(old_gates_, schedule_of(rank_of(bank)).compressed_before(stage_));
      teacher = said(step, pass.pass());
    }
    const auto pass = under(new_gates_, true);
    const auto student = said(step, pass.pass());
    const auto loss = scaled(divergence_(teacher.logits, student.logits, teacher.samples), step.share.samples);
    seen_divergence_ += loss.item<double>() / static_cast<double>(step.passes);
    step.add("integration_loss", loss);
  }

  int64_t pool_ = 4, active_ = 0, shared_ = 0;
  double alignment_ = 0.2, epochs_ = 1, rate_ = 0.25;
  RankChoice choice_ = RankChoice::sample;
  SampleQueries query_;
  TopDivergence divergence_;
  AdaptedSites sites_ = AdaptedSites::run;
  torch::Tensor queries_;                 // [stages, text and picture], means
  torch::Tensor past_keys_, fresh_keys_;  // [ranks, text and picture]
  int64_t past_count_ = 0, fresh_count_ = 0;
  // Of a stage that ends with a compression.
  std::vector<torch::Tensor> before_;  // factors of all slots
  torch::Tensor old_gates_, new_gates_, last_divergence_;
  int64_t integrated_ = 0;  // steps
  double seen_divergence_ = 0;
  int stage_ = 1;
  uint64_t seed_ = 0;
  const Team* team_ = nullptr;
};

}  // namespace

std::unique_ptr<Method> make_pclr_method() {
  return std::make_unique<Pclr>();
}

}  // namespace asr
