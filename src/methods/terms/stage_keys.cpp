#include "methods/terms/stage_keys.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text.h"
#include "data/drawn_rows.h"

namespace asr {
namespace {

constexpr int64_t kAskedRows = 256;   // of a new stage, whether its key names it
constexpr double kKnowsItsOwn = 0.6;  // of a stage's samples, that its key should name
constexpr double kWorthALook = 0.1;   // of a stage's samples, that further parts must name beyond those named already
constexpr int64_t kLongestDescription = 1024;

int64_t percent(double share) {
  return std::lround(100 * share);
}

}  // namespace

void StageKeys::visit(OptionVisitor& visitor) {
  parts_.visit(visitor);
  visitor("samples", samples_, 0, int64_t(1) << 40, "of a stage, drawn at random, whose keys are measured; 0: all");
  choice_.visit(visitor);
}

void StageKeys::check_parts() const {
  parts_.check_parts();
}

void StageKeys::prepare(Backbone& model, const Options& options) {
  int64_t depth = 0;
  for (const auto& site : model.all_sites())
    if (site.part == SitePart::down) depth = std::max(depth, site.layer + 1);
  check(!parts_.whole().has("states") || parts_.layer <= depth, "route.layer: ", parts_.layer,
        " is no layer of the language model of ", model.name(), ", which has ", depth);
  parts_.check_parts();
  auto leading = parts_;
  leading.further.clear();
  leading_.emplace(leading, options.spectral, depth);
  whole_.emplace(parts_.whole(), options.spectral, depth);
  auto told = nlohmann::json::parse(whole_->description(model));
  if (has_further()) told["further"] = parts_.further;
  description_ = told.dump();
}

void StageKeys::learn(StageContext& stage, bool chosen_by_keys) {
  const auto rows = drawn_rows(stage.data.size(), samples_, draw_key(DrawPurpose::keys, stage.seed, stage.stage));
  const auto keys = whole_->of(stage.model, stage.data, rows, stage.team);
  check(at::isfinite(keys).all().item<bool>(), "stage ", stage.stage,
        ": a key holds a number that is not finite; does the base compute in enough precision?");
  if (keys.size(0) < keys.size(1) && stage.team.leads())
    log_info("stage ", stage.stage, ": ", keys.size(0), " samples for ", keys.size(1),
             " numbers of a key; their covariance is drawn towards the identity (route.ridge)");
  if (has_further()) look_further_if_needed(stage, keys);
  const bool bounded =
      choice_.add(keys, whole_->groups(keys.size(1)), draw_key(DrawPurpose::held_out, stage.seed, stage.stage),
                  has_further() ? leading_numbers_ : keys.size(1));
  if (!stage.team.leads()) return;
  if (!bounded)
    log_warn("stage ", stage.stage, ": ", keys.size(0) / 10, " samples held out are too few for route.fallback ",
             choice_.fallback(), ", so no sample is too far from this stage; lower it, or give more samples");
  if (stage.stage > 1 && chosen_by_keys) say_if_unlike(stage.stage, keys);
}

StageFit StageKeys::fit(const Backbone& model, const SampleBatch& batch) {
  const bool all = !has_further() || looks_further();
  const auto keys = (all ? *whole_ : *leading_).of(model, batch);
  return choice_.of(keys, whole_->groups(keys.size(1)));
}

torch::Tensor StageKeys::looked_at(const torch::Tensor& keys) const {
  return !has_further() || looks_further() ? keys : keys.narrow(1, 0, leading_numbers_);
}

// By samples that the moments have not seen, since a longer key always fits its own samples better.
void StageKeys::look_further_if_needed(const StageContext& stage, const torch::Tensor& keys) {
  if (leading_numbers_ == 0) leading_numbers_ = leading_->of(stage.model, stage.data.rows({0})).size(1);
  if (looks_further() || choice_.stages() == 0) return;
  const auto groups = whole_->groups(keys.size(1));
  const auto draw = draw_key(DrawPurpose::held_out, stage.seed, stage.stage);
  const auto without = choice_.named(keys, groups, draw, leading_numbers_);
  const auto with = choice_.named(keys, groups, draw, keys.size(1));
  if (!without || *with < *without + kWorthALook) return;
  further_since_ = stage.stage;
  if (stage.team.leads())
    log_info("stage ", stage.stage, ": its key names ", percent(*without), " % of its samples, and ", percent(*with),
             " % with ", join(parts_.further, ", "), ", which answers look at from now on (route.further)");
}

// A stage whose own samples look to the key like those of another: its slot will hardly be asked.
void StageKeys::say_if_unlike(int stage, const torch::Tensor& keys) {
  const auto some = looked_at(keys.narrow(0, 0, std::min<int64_t>(kAskedRows, keys.size(0))));
  const auto shares = choice_.of(some, whole_->groups(keys.size(1))).probabilities.mean(0);
  const double own = shares[stage - 1].item<double>();
  if (own >= kKnowsItsOwn) return;
  const auto other = shares.narrow(0, 0, stage - 1).argmax().item<int64_t>();
  const bool can_look = !parts_.whole().has("late");
  log_warn("stage ", stage, ": its key names ", percent(own), " % of its own samples, and stage ", other + 1, " takes ",
           percent(shares[other].item<double>()), " %; try ", can_look ? "route.further: [late], or " : "",
           "route.share if the two stages ask the same");
}

void StageKeys::state(StateVisitor& visitor) {
  auto stored = description_;
  visitor.text("key", StateKind::statistics, stored);
  check_description(stored);
  choice_.state(visitor, has_further());
  if (!has_further()) return;
  visitor.number("leading", StateKind::statistics, leading_numbers_);
  visitor.number("further", StateKind::statistics, further_since_);
}

void StageKeys::add_kept(const StateSizes& sizes, std::vector<StateShape>& out) const {
  constexpr auto kind = StateKind::statistics;
  const auto whole = parts_.whole();
  const int64_t T = sizes.stages, D = whole.most_numbers(sizes.widest_site, sizes.descriptor);
  out.push_back({"key", kind, {kLongestDescription}});
  out.push_back({"count", kind, {T}});
  out.push_back({"mean", kind, {T, D}});
  out.push_back({"scatter", kind, {T, whole.most_pairs(sizes.widest_site, sizes.descriptor)}});
  out.push_back({"reach", kind, {T}});
  if (!has_further()) return;
  out.push_back({"leading_reach", kind, {T}});
  out.push_back({"leading", kind, {1}});
  out.push_back({"further", kind, {1}});
}

void StageKeys::add_costs(const CostContext& run, MethodCosts& out) const {
  const auto whole = parts_.whole();
  const auto width = static_cast<int64_t>(run.width), descriptor = run.options.spectral.dim();
  const int64_t numbers = whole.most_numbers(width, descriptor) + whole.most_pairs(width, descriptor) + 3;
  out.host_bytes += static_cast<double>(run.task_samples.size()) * 4 * static_cast<double>(numbers);
  const double part =
      whole.needs_all_layers() || run.layers == 0 ? 1 : std::min(1.0, static_cast<double>(parts_.layer) / run.layers);
  out.forward_samples += part * run.samples_up_to(samples_);
}

// Moments say nothing of keys that another base makes, or another choice of keys.
void StageKeys::check_description(const std::string& stored) const {
  if (stored == description_ || description_.empty() || stored.empty()) return;
  auto then = nlohmann::json::parse(stored, nullptr, false);
  if (!then.is_object()) then = nlohmann::json::object();
  const auto now = nlohmann::json::parse(description_);
  auto names = then;
  names.update(now);
  for (const auto& [name, value] : names.items()) {
    if (name == "base") continue;  // a copy of a base under another name is the same base
    const auto text = [&name = name](const nlohmann::json& of) {
      return of.contains(name) ? of[name].dump() : std::string("not given");
    };
    check(text(then) == text(now), "the moments that route keeps are of other keys: ", name, " was ", text(then),
          " and is ", text(now), "; use the base, precision and route options of the run that made them");
  }
}

}  // namespace asr
