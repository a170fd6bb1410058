// asr bound RUN: the forgetting theorem on the analysis files of a run, stage by stage: what it allows, what happened.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <map>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/stage_samples.h"
#include "metrics/measured_transitions.h"

namespace asr {
namespace {

using nlohmann::json;

// A run with its theorem: the transitions between consecutive stages and the fits over all of them.
struct RunBound {
  std::string folder;
  std::vector<StageSamples> stages;
  std::vector<Transition> transitions;
  std::map<int64_t, SkillFit> fits;
};

Transition transition_between(const StageSamples& before, const StageSamples& after) {
  check_compatible(before.options, after.options, before.file.path);
  auto [out, left_out] = measured_transition(before.file, after.file, before.options.spectral.covariance_floor);
  for (const auto& few : left_out)
    log_warn("stages ", before.stage, " and ", after.stage, " share ", few.samples, " samples of skill '",
             printable(before.file.skill_name(few.skill)), "'; a variance needs two; left out");
  out.old_stage = before.stage;
  out.new_stage = after.stage;
  return out;
}

RunBound bound_of(const std::string& folder, const std::vector<int64_t>& stages) {
  RunBound out;
  out.folder = folder;
  for (const int64_t stage : stages)
    out.stages.push_back(read_stage_samples(fmt::format("{}/stages/{:02}/analysis.safetensors", folder, stage), stage));
  for (size_t i = 1; i < out.stages.size(); ++i) {
    auto transition = transition_between(out.stages[i - 1], out.stages[i]);
    if (!transition.skills.empty()) out.transitions.push_back(std::move(transition));
  }
  out.fits = fit_skills(out.transitions);
  return out;
}

// Low, middle, high energy and anisotropy of one skill's mean descriptor.
std::array<double, 6> six_numbers(const StageSamples& stage, int64_t skill) {
  std::vector<Vector> rows;
  for (size_t i = 0; i < stage.skill().size(); ++i)
    if (stage.skill()[i] == skill) rows.push_back(stage.descriptor()[i]);
  const auto mean = law_of(rows).mean;
  const auto& o = stage.options.spectral;
  const auto radial_end = mean.begin() + o.radial_bins, angular_end = radial_end + o.angular_bins;
  return six_number_summary({mean.begin(), radial_end}, {angular_end, angular_end + o.angular_bins});
}

json skill_json(const SkillDrift& s, const RunBound& run) {
  const auto& fit = run.fits.at(s.skill).fit;
  return {{"skill", s.skill},
          {"name", run.stages.back().file.skill_name(s.skill)},
          {"samples", s.samples},
          {"matched", s.matched},
          {"omega", s.share},
          {"delta", s.delta},
          {"gamma_estimate", {{"old", s.gamma_old}, {"new", s.gamma_new}}},
          {"w1", s.w1},
          {"risk", {{"old", s.old_risk}, {"new", s.new_risk}}},
          {"risk_increase", s.risk_increase()},
          {"bound_w1", fit.lipschitz * s.w1 + 2 * fit.epsilon},
          {"bound_gaussian", fit.lipschitz * s.gaussian_drift() + 2 * fit.epsilon}};
}

json transition_json(size_t index, const RunBound& run) {
  const auto& transition = run.transitions[index];
  const auto bound = forgetting_bound(transition, run.fits);
  const auto predicted = forgetting_bound(transition, fit_skills(run.transitions, index));
  json skills = json::array();
  for (const auto& skill : transition.skills) skills.push_back(skill_json(skill, run));
  return {{"old_stage", transition.old_stage},
          {"new_stage", transition.new_stage},
          {"risk_increase", bound.risk_increase},
          {"forgetting", bound.forgetting},
          {"bound_w1", bound.by_w1},
          {"bound_gaussian", bound.by_gaussian},
          {"predicted_w1", finite_or_null(predicted.by_w1)},
          {"predicted_gaussian", finite_or_null(predicted.by_gaussian)},
          {"skills", skills}};
}

json stage_json(const StageSamples& stage) {
  json skills = json::array();
  for (const int64_t skill : std::set<int64_t>(stage.skill().begin(), stage.skill().end())) {
    const auto six = six_numbers(stage, skill);
    skills.push_back({{"skill", skill},
                      {"name", stage.file.skill_name(skill)},
                      {"radial", {six[0], six[1], six[2]}},
                      {"anisotropy", {six[3], six[4], six[5]}}});
  }
  return {{"stage", stage.stage},
          {"samples", stage.skill().size()},
          {"separation", finite_or_null(separation(stage.descriptor(), stage.skill()))},
          {"skills", skills}};
}

json run_json(const RunBound& run) {
  json fits = json::array(), transitions = json::array(), stages = json::array();
  for (const auto& [skill, fit] : run.fits)
    fits.push_back({{"skill", skill},
                    {"name", run.stages.back().file.skill_name(skill)},
                    {"lipschitz_estimate", fit.fit.lipschitz},
                    {"epsilon_estimate", fit.fit.epsilon},
                    {"points", fit.points}});
  for (size_t i = 0; i < run.transitions.size(); ++i) transitions.push_back(transition_json(i, run));
  for (const auto& stage : run.stages) stages.push_back(stage_json(stage));
  return {{"run", run.folder}, {"fits", fits}, {"transitions", transitions}, {"stages", stages}};
}

// ---- as text, from the same JSON ---------------------------------------------------------------------------

std::string shown(const json& value) {
  return value.is_null() ? "-" : number(value.get<double>());
}

std::string stages_of(const json& transition) {
  return fmt::format("{} to {}", transition["old_stage"].get<int64_t>(), transition["new_stage"].get<int64_t>());
}

std::string skill_name(const json& entry) {
  return printable(entry["name"].get<std::string>());
}

void print_transitions(const json& run) {
  std::vector<std::vector<std::string>> skills = {
      {"stages", "skill", "samples", "omega", "Delta", "Gamma old~", "Gamma new~", "W1", "risk", "increase", "bound~"}};
  std::vector<std::vector<std::string>> totals = {
      {"stages", "forgetting", "bound by W1~", "by Gaussians~", "predicted W1~", "predicted Gaussians~"}};
  for (const auto& t : run["transitions"]) {
    for (const auto& s : t["skills"])
      skills.push_back({stages_of(t), skill_name(s), std::to_string(s["samples"].get<int64_t>()), shown(s["omega"]),
                        shown(s["delta"]), shown(s["gamma_estimate"]["old"]), shown(s["gamma_estimate"]["new"]),
                        shown(s["w1"]), shown(s["risk"]["old"]), shown(s["risk_increase"]), shown(s["bound_w1"])});
    totals.push_back({stages_of(t), shown(t["forgetting"]), shown(t["bound_w1"]), shown(t["bound_gaussian"]),
                      shown(t["predicted_w1"]), shown(t["predicted_gaussian"])});
  }
  std::vector<std::vector<std::string>> fits = {{"skill", "L~", "epsilon~", "transitions"}};
  for (const auto& f : run["fits"])
    fits.push_back({skill_name(f), shown(f["lipschitz_estimate"]), shown(f["epsilon_estimate"]),
                    std::to_string(f["points"].get<int64_t>())});
  std::cout << "the same samples before and after each stage; distances in units of the old deviation\n"
            << text_table(skills) << "\nfitted over this run\n"
            << text_table(fits) << "\nthe theorem (risk = 1 - score; all shared samples)\n"
            << text_table(totals)
            << "~ an estimate. The bound was fitted on these very transitions and holds for them by construction; the "
               "predicted one\nwas fitted on the others.\n\n";
}

void print_stages(const json& run) {
  std::vector<std::vector<std::string>> rows = {
      {"stage", "skill", "low", "middle", "high", "0-60 deg", "60-120", "120-180", "separation"}};
  for (const auto& stage : run["stages"])
    for (const auto& s : stage["skills"]) {
      rows.push_back({std::to_string(stage["stage"].get<int64_t>()), skill_name(s)});
      for (const char* part : {"radial", "anisotropy"})
        for (const auto& value : s[part]) rows.back().push_back(shown(value));
      rows.back().push_back(&s == &stage["skills"].front() ? shown(stage["separation"]) : "");
    }
  std::cout << "radial energy and anisotropy by orientation; separation of the skills\n" << text_table(rows) << "\n";
}

void run_bound(const std::string& path, const Common& common) {
  json runs = json::array();
  std::vector<std::string> left_out;
  for (const auto& folder : method_folders(path)) {
    const auto stages = stages_in(folder);
    if (stages.size() < 2)
      left_out.push_back(cat(folder, ": one analysed stage; the theorem compares two"));
    else
      runs.push_back(run_json(bound_of(folder, stages)));
  }
  check(!runs.empty(), join(left_out, "; "));
  for (const auto& line : left_out) log_warn(line, "; left out");
  if (common.json) return print_json({{"runs", runs}});
  for (const auto& entry : runs) {
    std::cout << printable(entry["run"].get<std::string>()) << "\n\n";
    print_transitions(entry);
    print_stages(entry);
  }
}

}  // namespace

void add_bound_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("bound", "the forgetting theorem on a run: what drift allows, what happened");
  auto path = std::make_shared<std::string>();
  command->add_option("RUN", *path, "a run's folder, or the folder of one of its methods")->required();
  command->callback([path, &common] { run_bound(*path, common); });
}

}  // namespace asr
