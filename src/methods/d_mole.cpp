// D-MoLE (Ge et al. 2025): a stage adds experts only at the linears where the gradient of the pretrained model on its
// data is largest, with the vision tower's part of the budget never below a floor. An autoencoder a task, fitted to
// features of the base, recognises samples: a task is a candidate where its reconstruction error is below a threshold,
// and the candidate with the least error answers, or the base where there is none. A stage trains beside the expert of
// the earlier task that recognises the sample, frozen. Active experts are added with weight 1.
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "data/drawn_rows.h"
#include "data/probe.h"
#include "data/walk.h"
#include "methods/method.h"
#include "methods/terms/key_moments.h"
#include "methods/terms/several_tasks.h"
#include "methods/terms/site_budget.h"
#include "methods/terms/sites.h"
#include "methods/terms/task_autoencoder.h"
#include "methods/terms/task_votes.h"

namespace asr {

enum class MoleSites { attention, run };
template <>
struct EnumNames<MoleSites> {
  static constexpr const char* names[] = {"attention", "run"};
};
enum class MoleVote { sample, batch };
template <>
struct EnumNames<MoleVote> {
  static constexpr const char* names[] = {"sample", "batch"};
};

namespace {

constexpr const char* kFit = "autoencoder";           // its phase, and its parameters
constexpr int64_t kMoleGradients = int64_t(2) << 30;  // bytes of full gradients at a time
constexpr uint64_t kCodeSeed = 0xc0de;

std::string sample_name(const SampleInfo& info) {
  return info.id + "\n" + info.question;
}

class DMole final : public Method {
 public:
  bool renews_adapters() const override { return true; }
  void visit(OptionVisitor& visitor) override {
    visitor("budget", budget_, 1e-6, 1, "part of the candidate linears that get an expert in a stage");
    visitor("vision_floor", vision_floor_, 0, 1, "part of them that is the vision tower's at least, where it has any");
    visitor("probe", probe_, 1e-6, 1, "part of a stage's data that gradients are taken on; a batch at least");
    visitor("rank", rank_, 0, 4096, "of an expert; 0: lora_rank. lora_alpha / lora_rank scales it");
    visitor(
        "sites", sites_,
        "candidates: attention of the language model and of the vision tower, or the linears that every run adapts");
    visitor("vote", vote_, "who chooses the experts: every sample its own, or the samples of a batch, as released");
    visitor("least_share", least_share_, 0, 1, "of a batch's votes, that the second expert needs (vote: batch)");
    visitor("quantile", quantile_, 0.01, 1, "of a task's own errors: its threshold");
    visitor("hidden", hidden_, 1, 65536, "numbers of an autoencoder's code");
    visitor("samples", samples_, 1, int64_t(1) << 30, "of a stage, evenly spaced, that its autoencoder is fitted to");
    visitor("epochs", epochs_, 1, 1000000, "of the autoencoder, at most");
    visitor("patience", patience_, 1, 1000000, "epochs without a smaller error that end it");
    visitor("fit_rate", fit_rate_, 1e-6, 10, "learning rate of the autoencoder");
  }

  std::vector<Assignment> native() const override {
    return {{"lora_rank", "8", ""},
            {"lora_alpha", "16", ""},
            {"lora_dropout", "0.05", ""},
            {"learning_rate", "1e-4", ""},
            {"weight_decay", "0.01", ""},
            {"warmup_ratio", "0.03", ""},
            {"num_train_epochs", "1", ""},
            {"projector", "frozen", ""},
            {"lr_scheduler_type", "cosine", ""},
            {"per_device_train_batch_size", "10", ""},
            {"gradient_accumulation_steps", "8", ""}};
  }

  std::optional<AdapterLayout> layout(const std::vector<AdapterSite>& sites, const SlotLayout& plain,
                                      int stage) const override {
    SiteLayout each = plain.sites.at(0);
    if (rank_ > 0) each.rank = rank_;
    each.answering.kind = GateKind::given;
    if (sites_ == MoleSites::run)
      return AdapterLayout{alike(stage_slot(stage), adapted_sites(sites, plain, AdaptedSites::run), each)};
    return AdapterLayout{
        alike(stage_slot(stage),
              sites_of(sites, {SitePart::q, SitePart::k, SitePart::v, SitePart::o, SitePart::cross_q, SitePart::cross_k,
                               SitePart::cross_v, SitePart::cross_o, SitePart::vision}),
              each)};
  }

  // The autoencoder is fitted first: no pass needs it before its threshold is known.
  void plan(const PhasePlan& stage, std::vector<Phase>& phases) const override {
    check_several_tasks(stage, "d-mole recognises tasks by their autoencoders");
    check_pictures(stage, "d-mole recognises tasks by picture and question");
    for (auto& phase : phases)
      if (phase.trains.empty()) phase.trains = {"adapters", "task"};
    Phase fit;
    fit.name = kFit;
    fit.trains = {kFit};
    fit.rows = {0};  // every step takes all features
    fit.batch = 1;
    fit.task_weight = 0;
    fit.runs_model = false;
    fit.learning_rate = fit_rate_;
    fit.steps = epochs_;
    phases.insert(phases.begin(), fit);
  }

  std::vector<ParameterGroup> parameters() override {
    if (codes_.empty()) return {};
    auto& code = codes_.back();
    return {{kFit,
             {{"encode", code.encode},
              {"encode_bias", code.encode_bias},
              {"decode", code.decode},
              {"decode_bias", code.decode_bias}},
             0,
             0}};
  }

  void begin_stage(StageContext& stage) override {
    for (int old = 1; old < stage.stage; ++old) {
      stage.bank.freeze(stage_slot(old));
      const GateLayout given{GateKind::given};
      for (const auto& site : stage.bank.layout(stage_slot(old)).sites)
        stage.bank.set_gates(stage_slot(old), site.site, given, given);
    }
    keep_best_sites(stage);
    const auto width = task_features(stage.model, stage.data.rows({0})).size(1);
    codes_.push_back(new_task_autoencoder(hidden_, width, Random({kCodeSeed, stage.seed, uint64_t(stage.stage)}).next(),
                                          stage.model.device()));
  }

  void before_stage(StageContext& stage) override {
    stage_ = stage.stage;
    earlier_.clear();
    features_ = torch::Tensor();
    if (thresholds_.size() < static_cast<size_t>(stage_)) {
      const auto rows = spaced_rows(stage.data.size(), samples_);
      features_ = features_of(stage, rows).to(stage.model.device());
    }
    if (stage_ > 1) recognise_rows(stage);
  }

  void begin_phase(StageContext& stage, const Phase& phase) override {
    if (phase.name == kFit) {
      waiting_ = torch::tensor({std::numeric_limits<double>::infinity(), 0.0}, at::kDouble);
      return;
    }
    if (thresholds_.size() >= static_cast<size_t>(stage.stage)) return;
    at::NoGradGuard no_grad;
    const auto errors = codes_.back().errors(features_).to(at::kDouble).cpu();
    // With few samples no quantile is known; the largest error keeps a task from recognising everything.
    thresholds_.push_back(std::min(upper_quantile(errors, quantile_), errors.max().item<double>()));
    features_ = waiting_ = torch::Tensor();
  }

  void add_losses(StepContext& step) override {
    if (step.phase.name != kFit) return;
    step.add("autoencoder_loss", scaled(codes_.back().errors(features_).mean(), step.share.process()));
  }

  bool phase_done(const Phase& phase, int64_t, double loss) override {
    if (phase.name != kFit) return false;
    const bool better = loss < waiting_[0].item<double>();
    const double waited = better ? 0 : waiting_[1].item<double>() + 1;
    waiting_ = torch::tensor({better ? loss : waiting_[0].item<double>(), waited}, at::kDouble);
    return waited >= static_cast<double>(patience_);
  }

  void route(RouteContext& context) override {
    at::NoGradGuard no_grad;
    const int64_t tasks = context.answering ? static_cast<int64_t>(thresholds_.size()) : context.stage - 1;
    if (tasks == 0) return;
    const auto active = context.answering ? answering_experts(context, tasks) : training_experts(context, tasks);
    for (int64_t k = 0; k < tasks; ++k) {
      const auto slot = stage_slot(static_cast<int>(k) + 1);
      const auto weight = active.select(1, k);
      // In answering a slot that nobody needs is left out of the pass; in training all processes have the same slots.
      if (context.answering && !weight.any().item<bool>()) context.slots &= ~context.bank.bit(slot);
      if ((context.slots & context.bank.bit(slot)) == 0) continue;
      context.given[context.bank.number(slot)] = weight.to(at::kFloat).unsqueeze(1).to(context.model.device());
    }
  }

  void state(StateVisitor& visitor) override {
    auto tasks = static_cast<int64_t>(codes_.size());
    visitor.number("tasks", StateKind::statistics, tasks);
    codes_.resize(static_cast<size_t>(tasks));
    for (size_t k = 0; k < codes_.size(); ++k) {
      visitor.tensor(cat("encode.", k), StateKind::adapter, codes_[k].encode);
      visitor.tensor(cat("encode_bias.", k), StateKind::adapter, codes_[k].encode_bias);
      visitor.tensor(cat("decode.", k), StateKind::adapter, codes_[k].decode);
      visitor.tensor(cat("decode_bias.", k), StateKind::adapter, codes_[k].decode_bias);
    }
    auto thresholds = torch::tensor(thresholds_, at::kDouble);
    visitor.tensor("thresholds", StateKind::statistics, thresholds);
    visitor.tensor("waiting", StateKind::statistics, waiting_);
    if (waiting_.defined()) waiting_ = waiting_.cpu();
    const auto host = thresholds.defined() ? thresholds.cpu().contiguous() : at::empty({0}, at::kDouble);
    thresholds_.assign(host.data_ptr<double>(), host.data_ptr<double>() + host.numel());
  }

  std::vector<StateShape> kept(const StateSizes& sizes) const override {
    constexpr auto learnt = StateKind::adapter;
    const int64_t width = 2 * sizes.widest_site;
    return {{"tasks", StateKind::statistics, {1}},
            {"encode.*", learnt, {hidden_, width}},
            {"encode_bias.*", learnt, {hidden_}},
            {"decode.*", learnt, {width, hidden_}},
            {"decode_bias.*", learnt, {width}},
            {"thresholds", StateKind::statistics, {sizes.stages}},
            {"waiting", StateKind::statistics, {2}, Lasts::stage}};
  }

  MethodCosts costs(const CostContext& run) const override {
    MethodCosts out;
    const auto stages = static_cast<double>(run.task_samples.size());
    const double code = 2 * run.width * (2 * static_cast<double>(hidden_) + 1) + static_cast<double>(hidden_);
    out.device_bytes = 4 * (run.parameters * std::max(0.0, stages - 1) + code * stages);
    out.checkpoint_bytes = out.device_bytes;
    out.forward_samples = run.samples();  // features, once a stage
    out.backward_samples = probe_ * run.samples();
    if (run.augments && stages > 0) out.forward_passes = (stages - 1) / stages;  // changed pictures are looked at anew
    return out;
  }

 private:
  // Leaves experts to those linears alone whose gradients on the pretrained model are the largest.
  void keep_best_sites(StageContext& stage) const {
    const auto slot = stage_slot(stage.stage);
    const auto sites = sites_of_slot(stage.bank, slot);
    const int64_t count = stage.data.size();
    const auto wanted = std::max<int64_t>(stage.batch_size, std::llround(probe_ * static_cast<double>(count)));
    Probe probe{stage.model, stage.data, spaced_rows(count, wanted), stage.team};
    probe.loss = [&](const SampleBatch& batch, const Pass& pass) {
      return stage.objective.loss_of(stage.model, batch, pass);
    };
    probe.pass = Pass{0, nullptr};
    probe.batch = stage.batch_size;
    std::vector<double> scores;
    for (const auto& gradient : weight_gradients(probe, sites, kMoleGradients))
      scores.push_back(gradient.to(at::kDouble).norm().item<double>());
    const auto kept = SiteBudget{budget_, vision_floor_}.best(sites, scores);
    if (stage.team.leads())
      log_info("stage ", stage.stage, ": experts at ", kept.size(), " of ", sites.size(), " linears");
    stage.bank.keep_sites(slot, kept);
  }

  // Of these rows, in their order, for all processes: [rows, d] on the host.
  static torch::Tensor features_of(const StageContext& stage, const std::vector<int64_t>& rows) {
    std::vector<torch::Tensor> blocks;
    const Walk over{cat("features of ", stage.data.name), static_cast<int64_t>(rows.size()), stage.data.pass_samples()};
    each_block(over, stage.team, [&](Part here, Part) {
      const auto batch = stage.data.rows({rows.begin() + here.begin, rows.begin() + here.end});
      blocks.push_back(task_features(stage.model, batch).cpu());
    });
    return stage.team.gather(blocks.empty() ? at::empty({0}, at::kFloat) : at::cat(blocks));
  }

  // Which earlier task each sample of the stage is taken for, once for all epochs, and the slots that training needs.
  void recognise_rows(StageContext& stage) {
    at::NoGradGuard no_grad;
    std::vector<torch::Tensor> blocks;
    const Walk over{cat("earlier tasks of ", stage.data.name), stage.data.size(), stage.data.pass_samples()};
    each_block(over, stage.team, [&](Part here, Part) {
      const auto batch = stage.data.rows(range(here.begin, here.end));
      blocks.push_back(best_tasks(candidate_errors(task_features(stage.model, batch), stage_ - 1)));
    });
    const auto found = stage.team.gather(blocks.empty() ? at::empty({0}, at::kLong) : at::cat(blocks));
    for (int64_t i = 0; i < found.size(0); ++i) earlier_[sample_name(stage.data.info(i))] = found[i].item<int64_t>();
    for (int old = 1; old < stage_; ++old)
      stage.bank.take_part(stage_slot(old), found.eq(old - 1).any().item<bool>(), true);
  }

  // Errors of the first tasks' autoencoders, infinite where a task is no candidate: [B, tasks] in double on the host.
  torch::Tensor candidate_errors(const torch::Tensor& features, int64_t tasks) const {
    std::vector<torch::Tensor> columns;
    for (int64_t k = 0; k < tasks; ++k) {
      const auto error = codes_[static_cast<size_t>(k)].errors(features).to(at::kDouble).cpu();
      columns.push_back(error.masked_fill(error.ge(thresholds_[static_cast<size_t>(k)]), kNoCandidate));
    }
    return at::stack(columns, 1);
  }

  // [B, tasks] of 0 and 1. Samples that were augmented or are replayed are looked at anew.
  torch::Tensor training_experts(const RouteContext& context, int64_t tasks) const {
    std::vector<int64_t> best;
    for (const auto& info : context.batch.info) {
      const auto known = earlier_.find(sample_name(info));
      if (context.batch.augmentation || known == earlier_.end()) break;
      best.push_back(known->second);
    }
    auto task = torch::tensor(best, at::kLong);
    if (task.size(0) < context.batch.size())
      task = best_tasks(candidate_errors(task_features(context.model, context.batch), tasks));
    return vote_ == MoleVote::sample ? task_choices(task, tasks) : voted(task_choices(task, tasks), 1, least_share_);
  }

  torch::Tensor answering_experts(const RouteContext& context, int64_t tasks) const {
    const auto errors = candidate_errors(task_features(context.model, context.batch), tasks);
    auto task = best_tasks(errors);
    auto out = task_choices(task, tasks);
    if (vote_ == MoleVote::batch) {
      const auto votes = out.sum(0);
      if (votes.any().item<bool>()) task = by_votes(votes)[0].expand_as(task);
      out = voted(out, 2, least_share_);
    } else {
      // Beside the winner the earlier task that its stage was trained with.
      const auto later = at::arange(tasks, at::kLong).unsqueeze(0).ge(task.unsqueeze(1));
      out = out + task_choices(best_tasks(errors.masked_fill(later, kNoCandidate)), tasks);
    }
    if (context.choices) note(task, *context.choices);
    return out;
  }

  static void note(const torch::Tensor& task, std::vector<RouteChoice>& choices) {
    choices.clear();
    for (int64_t b = 0; b < task.size(0); ++b) {
      const auto k = task[b].item<int64_t>();
      choices.push_back({k < 0 ? "" : stage_slot(static_cast<int>(k) + 1)});
    }
  }

  double budget_ = 0.5, vision_floor_ = 0.25, probe_ = 0.01, least_share_ = 0.3, quantile_ = 0.95, fit_rate_ = 5e-3;
  int64_t rank_ = 8, hidden_ = 128, samples_ = 1024, epochs_ = 1000, patience_ = 100;
  MoleSites sites_ = MoleSites::attention;
  MoleVote vote_ = MoleVote::sample;

  std::vector<TaskAutoencoder> codes_;  // by task; the last one is being fitted or is the current stage's
  std::vector<double> thresholds_;
  torch::Tensor waiting_;                             // of the fit: the least loss, and epochs since
  torch::Tensor features_;                            // [samples, d] that it is made to
  std::unordered_map<std::string, int64_t> earlier_;  // task that a sample of the stage is taken for, -1: none
  int stage_ = 1;
};

}  // namespace

std::unique_ptr<Method> make_d_mole_method() {
  return std::make_unique<DMole>();
}

}  // namespace asr
