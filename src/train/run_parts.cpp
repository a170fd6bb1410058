#include "train/run_parts.h"

#include <algorithm>
#include <map>

#include "base/checksums.h"
#include "base/error.h"
#include "base/random.h"
#include "base/sha256.h"
#include "base/text.h"
#include "methods/terms/sites.h"
#include "skills/taxonomy.h"
#include "train/objectives.h"
#include "train/schedule.h"
#include "train/task_order.h"

namespace asr {
namespace {

// Answers that training shows, and how often; what is scored plays no part.
std::map<std::string, int64_t> training_answers(Data& data) {
  std::map<std::string, int64_t> out;
  for (size_t task = 0; task < data.stream().tasks().size(); ++task) {
    const auto& set = data.get(task, DataSplit::train);
    for (int64_t i = 0; i < set.size(); ++i) ++out[set.info(i).answer];
  }
  return out;
}

std::vector<std::string> names_of_answers(const std::map<std::string, int64_t>& counted) {
  std::vector<std::string> out;
  for (const auto& [answer, count] : counted) out.push_back(answer);
  return out;
}

uint64_t slot_seed(uint64_t seed, const std::string& slot) {
  if (slot == kTrainedSlot) return Random({seed, 0xada}).next();
  return Random({seed, uint64_t(0xada), uint64_t(std::stoull(sha256_of(slot).substr(0, 15), nullptr, 16))}).next();
}

}  // namespace

uint64_t phase_key(int stage, const Phase& phase) {
  return static_cast<uint64_t>(stage) + (static_cast<uint64_t>(phase.number) << 32);
}

RunParts::RunParts(const RunConfig& run_config, const RunKey& run_key, Backbone& base, Data& run_data,
                   const Team& processes)
    : config(run_config),
      key(run_key),
      model(base),
      data(run_data),
      team(processes),
      order(task_order(run_data.stream().tasks().size(), run_key.order)),
      method_names(method_parts(run_key.composition)),
      bank(base.all_sites()) {
  methods = make_methods(key.composition, config.method_assignments);
  make_slots(1);
  const ObjectiveContext context{model, [&] { return training_answers(data); }};
  objective = methods_objective(methods, method_names, context);
  own_objective = objective != nullptr;
  if (!own_objective) objective = usual_objective(config.run, context);
  for (auto& method : methods) method->prepare(model, config.options);
  analysis_memory.options = config.options;
  analysis_memory.skill_names = skill_names();
}

bool RunParts::joint() const {
  return planned().joint();
}

int RunParts::stages() const {
  return planned().stages();
}

Needs RunParts::needs() const {
  Needs out;
  for (const auto& method : methods) {
    const auto n = method->needs(at.stage);
    out.tap |= n.tap;
    out.pooled |= n.pooled;
    out.logits |= n.logits;
    out.reference |= n.reference;
  }
  return out;
}

PlannedRun RunParts::planned() const {
  return {config.run, data.stream(), methods, method_names, order, seed()};
}

double RunParts::replay_share(int stage) const {
  return planned().replay_share(stage);
}

double RunParts::rows_a_pass(int stage) const {
  return planned().rows_a_pass(stage);
}

std::vector<Phase> RunParts::phases(int stage) const {
  auto run = planned();
  run.closed_head = !objective->parameters().empty();
  for (const auto& site : bank.sites())
    if (site.part == SitePart::down) run.layers = std::max(run.layers, site.layer + 1);
  return stage_phases(run, stage);
}

int64_t RunParts::planned_steps() const {
  int64_t out = 0;
  for (int stage = 1; stage <= stages(); ++stage) out += phases(stage).back().end();
  return out;
}

const SampleSet& RunParts::stage_data(bool reference) {
  if (!joint()) {
    const size_t number = order[static_cast<size_t>(at.stage) - 1];
    data.get(number, DataSplit::train, reference);
    return data.get_of_stage(number, DataSplit::train, at.stage);
  }
  if (!union_) {
    std::vector<const SampleSet*> sets;
    for (const size_t number : order) sets.push_back(&data.get(number, DataSplit::train));
    union_ = concatenate(sets);
    union_->name = "all tasks";
    union_->set_stage(1);
  }
  return *union_;
}

std::shared_ptr<SampleSet> RunParts::chosen_data(const SampleSet& set, bool reference) {
  std::shared_ptr<SampleSet> out;
  std::string owner;
  auto context = stage_context(set, trained(), {});
  for (size_t m = 0; m < methods.size(); ++m) {
    auto chosen = methods[m]->training_set(context);
    if (!chosen) continue;
    check(!out, "methods ", owner, " and ", method_names[m],
          " both choose the samples of a stage; they cannot be combined");
    out = std::move(chosen);
    owner = method_names[m];
  }
  if (!out) return nullptr;
  for (const auto& phase : phases(at.stage)) {
    const bool fits = phase.rows.empty() ? phase.samples <= out->size()
                                         : *std::max_element(phase.rows.begin(), phase.rows.end()) < out->size();
    check(fits, "stage ", at.stage, ", phase '", phase.name, "' needs more samples than the ", out->size(), " that ",
          owner, " chooses; let it choose as many as the stage has");
  }
  out->keep_features(team);
  if (reference) cache_reference(*out, model, team);
  return out;
}

std::string RunParts::stage_title() const {
  return joint() ? "all tasks" : data.stream().tasks()[order[static_cast<size_t>(at.stage) - 1]].name;
}

std::vector<std::string> RunParts::task_names() const {
  std::vector<std::string> out;
  for (const size_t number : order) out.push_back(data.stream().tasks()[number].name);
  return out;
}

int64_t RunParts::answers_after(int stage) const {
  const auto& stream = data.stream();
  const bool all = stage == 0 || joint();
  int64_t out = 0;
  for (size_t i = 0; i < order.size() && (all || i < static_cast<size_t>(stage)); ++i) {
    out += stream.size(order[i], config.run.scored_split());
    if (!all && stream.tasks()[order[i]].novel) out += stream.size(order[i], DataSplit::novel);
  }
  return out;
}

PlainLayout plain_layout(const std::vector<AdapterSite>& all, const RunOptions& run) {
  SiteLayout each;
  each.rank = run.lora_rank;
  each.scale = run.lora_alpha / static_cast<double>(run.lora_rank);
  const auto sites = run.lora_sites == LoraSites::all ? adapted_sites(all, {}, AdaptedSites::all) : default_sites(all);
  return {alike(kTrainedSlot, sites, each), run.projector, run.projector_learning_rate};
}

namespace {

// The layout with the projector as the run wants it.
AdapterLayout with_projector(AdapterLayout layout, const std::vector<AdapterSite>& sites, const PlainLayout& plain) {
  if (plain.projector == ProjectorTraining::adapter) return layout;
  const auto projector = sites_of(sites, {SitePart::projector});
  for (auto& slot : layout) {
    const auto left = std::remove_if(slot.sites.begin(), slot.sites.end(), [&](const SiteLayout& s) {
      return std::any_of(projector.begin(), projector.end(), [&](const AdapterSite& p) { return p.name == s.site; });
    });
    slot.sites.erase(left, slot.sites.end());
  }
  if (plain.projector == ProjectorTraining::frozen) return layout;
  SiteLayout whole;
  whole.full = true;
  whole.learning_rate = plain.projector_learning_rate;
  layout.push_back(alike(kProjectorSlot, projector, whole));
  return layout;
}

}  // namespace

AdapterLayout stage_layout(const std::vector<std::unique_ptr<Method>>& methods, const std::vector<std::string>& names,
                           const std::vector<AdapterSite>& sites, const PlainLayout& plain, int stage) {
  std::optional<AdapterLayout> out;
  std::string owner;
  for (size_t m = 0; m < methods.size(); ++m) {
    auto wanted = methods[m]->layout(sites, plain.slot, stage);
    if (!wanted) continue;
    check(!out, "methods ", owner, " and ", names[m], " both lay out the adapters; they cannot be combined");
    out = std::move(wanted);
    owner = names[m];
  }
  return with_projector(out ? *out : AdapterLayout{plain.slot}, sites, plain);
}

std::unique_ptr<Objective> methods_objective(const std::vector<std::unique_ptr<Method>>& methods,
                                             const std::vector<std::string>& names, const ObjectiveContext& run) {
  std::unique_ptr<Objective> out;
  std::string owner;
  for (size_t m = 0; m < methods.size(); ++m) {
    auto brought = methods[m]->objective(run);
    if (!brought) continue;
    check(!out, "methods ", owner, " and ", names[m], " both bring an objective of their own; they cannot be combined");
    out = std::move(brought);
    owner = names[m];
  }
  return out;
}

std::unique_ptr<Objective> usual_objective(const RunOptions& run, const ObjectiveContext& context) {
  if (run.head == Head::answers) return closed_objective(context.model, names_of_answers(context.answers()));
  return language_objective();
}

void RunParts::make_slots(int stage) {
  for (const auto& slot :
       stage_layout(methods, method_names, bank.sites(), plain_layout(model.all_sites(), config.run), stage))
    bank.ensure(slot, slot_seed(seed(), slot.name));
}

std::vector<ParameterGroup> RunParts::groups() const {
  std::vector<ParameterGroup> out = {{"adapters", {}}};
  std::map<double, NamedParameters> own_rate;
  for (auto& [name, tensor] : bank.trained()) {
    const double rate = bank.learning_rate(name);
    (rate > 0 ? own_rate[rate] : out[0].parameters).emplace_back(name, tensor);
  }
  for (auto& [rate, parameters] : own_rate) out.push_back({"adapters", parameters, rate});
  const auto learnt = objective->parameters();
  if (!learnt.empty()) out.push_back({"task", learnt});
  for (const auto& method : methods)
    for (auto& group : method->parameters()) out.push_back(std::move(group));
  return out;
}

NamedParameters RunParts::trained() const {
  NamedParameters out;
  for (const auto& group : groups()) out.insert(out.end(), group.parameters.begin(), group.parameters.end());
  return out;
}

RoutedPass RunParts::pass_for(const SampleBatch& batch, bool answering) {
  RoutedPass out;
  out.how.answering = answering;
  out.how.slots = answering ? bank.answering() : bank.training();
  RouteContext context{model, bank, batch, at.stage, answering, out.how.slots, out.given, &out.choices, &out.inserted};
  for (auto& method : methods) method->route(context);
  return out;
}

PassFor RunParts::answering() {
  // Before any training the base itself answers.
  if (at.stage == 0)
    return [](const SampleBatch&) {
      RoutedPass base;
      base.how.slots = 0;
      return base;
    };
  return [this](const SampleBatch& batch) { return pass_for(batch, true); };
}

StageContext RunParts::stage_context(const SampleSet& set, const NamedParameters& parameters,
                                     std::function<const StageMoments&()> moments) {
  StageContext out{at.stage,   seed(), config.run.batch,   model,       bank, *objective,
                   parameters, set,    std::move(moments), answering(), team};
  out.training = [this](const SampleBatch& batch) { return pass_for(batch, false); };
  out.tap_layers = config.run.tap_layers;
  out.schedule = [this] { return stage_schedule(*this); };
  return out;
}

}  // namespace asr
