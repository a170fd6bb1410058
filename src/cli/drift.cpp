// asr drift A B: how far the spectra of each skill moved from A to B, and what that means for the forgetting bound.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/command.h"
#include "io/analysis_file.h"
#include "io/safetensors_metadata.h"
#include "metrics/diagnostics.h"
#include "spectral/memory.h"

namespace asr {
namespace {

using nlohmann::json;

// One skill of a memory, or of the tasks of an analysis file that are compared.
struct SkillSpectra {
  Gaussian law;         // its variance floored
  Vector own_variance;  // as measured: a coordinate that never moves is its own Gaussian
  Vector radial, angular, embedding;
  double accuracy = NAN, entropy = NAN;
  int64_t count = 0;  // samples measured; 0: the file does not say
  std::vector<Vector> samples;
};

// A memory holds one law a skill; an analysis file has one for every task, of which those in common are pooled.
struct SpectraFile {
  std::string path;
  double floor = 0;                // smallest variance
  std::optional<Options> options;  // what the descriptors were made with, where the file says it
  std::map<int64_t, SkillSpectra> stored;
  std::optional<AnalysisFile> analysis;
  std::map<int64_t, std::string> names;  // of its skills, where the file says them
};

SpectraFile from_memory(const std::string& path, double floor) {
  const PrototypeMemory memory = load_memory(path);
  SpectraFile out;
  out.path = path;
  out.options = memory.options;
  out.floor = floor >= 0 ? floor : memory.options.spectral.covariance_floor;
  for (const auto& p : memory.prototypes) {
    SkillSpectra s;
    s.radial.assign(p.mean.begin(), p.mean.begin() + memory.options.spectral.radial_bins);
    s.law = {p.mean, p.variance};
    s.angular = p.angular;
    out.names[p.skill] = memory.name_of(p.skill);
    out.stored[p.skill] = std::move(s);
  }
  return out;
}

SpectraFile from_analysis(const Safetensors& file, double floor) {
  SpectraFile out;
  out.path = file.path;
  out.analysis = read_analysis_file(file);
  if (!out.analysis->options.empty())
    out.options = resolve_options(
        "sound", manifest_assignments(metadata_json(file, "options"), file.path + " (metadata 'options')"));
  if (floor >= 0)
    out.floor = floor;
  else if (out.options)
    out.floor = out.options->spectral.covariance_floor;
  if (out.analysis->skill_names.empty()) return out;
  for (const int64_t skill : out.analysis->skills()) out.names[skill] = out.analysis->skill_name(skill);
  return out;
}

SpectraFile read_spectra(const std::string& path, double floor) {
  const auto file = read_safetensors(path);
  if (!file.metadata.count("sha256")) log_warn(cat(path, ": carries no checksum; it is read unchecked"));
  return file.metadata.count("asr_memory") ? from_memory(path, floor) : from_analysis(file, floor);
}

void check_comparable(const SpectraFile& a, const SpectraFile& b) {
  if (a.options && b.options) check_compatible(*a.options, *b.options, a.path);
  for (const auto& [skill, name] : a.names) {
    const auto other = b.names.find(skill);
    if (other == b.names.end()) continue;
    check(other->second == name, b.path, ": skill ", skill, " is '", printable(other->second), "', but '",
          printable(name), "' in ", a.path, "; both need the same taxonomy and kind of prototypes");
  }
}

std::set<int64_t> skills_of(const SpectraFile& file) {
  if (file.analysis) return file.analysis->skills();
  std::set<int64_t> out;
  for (const auto& [skill, spectra] : file.stored) out.insert(skill);
  return out;
}

// Tasks with samples of the skill in every analysis file among these; nothing where there is no such file.
std::optional<std::set<std::string>> common_tasks(const std::vector<const SpectraFile*>& files, int64_t skill) {
  std::optional<std::set<std::string>> out;
  const AnalysisFile* first = nullptr;
  for (const auto* file : files) {
    if (!file->analysis) continue;
    if (!first) {
      first = &*file->analysis;
      out = first->tasks(skill);
      continue;
    }
    const auto both = shared_tasks(*first, *file->analysis, skill);
    std::set<std::string> left;
    std::set_intersection(out->begin(), out->end(), both.begin(), both.end(), std::inserter(left, left.end()));
    out = left;
  }
  return out;
}

SkillSpectra spectra_of(const SpectraFile& file, int64_t skill, const std::optional<std::set<std::string>>& tasks) {
  SkillSpectra out;
  if (file.analysis) {
    auto moments = file.analysis->moments(skill, *tasks);
    out.law = {std::move(moments.mean), std::move(moments.variance)};
    out.radial = std::move(moments.radial);
    out.angular = std::move(moments.angular);
    out.embedding = std::move(moments.embedding);
    out.accuracy = moments.accuracy;
    out.entropy = moments.entropy;
    out.count = moments.count;
    const auto& samples = file.analysis->samples;
    for (size_t i = 0; i < samples.descriptor.size(); ++i)
      if (samples.skill[i] == skill && tasks->count(file.analysis->task_names[static_cast<size_t>(samples.task[i])]))
        out.samples.push_back(samples.descriptor[i]);
  } else {
    out = file.stored.at(skill);
  }
  out.own_variance = out.law.variance;
  for (double& value : out.law.variance) {
    value = std::max(value, file.floor);
    check(value > 0, file.path, ": a variance of skill ", skill, " is 0; name the smallest one with --floor, as in ",
          "--floor 1e-6");
  }
  return out;
}

json compare(const SkillSpectra& a, const SkillSpectra& b, const SkillSpectra& stored, double eta, double rho0) {
  check(a.law.mean.size() == b.law.mean.size() && a.radial.size() == b.radial.size() &&
            a.angular.size() == b.angular.size(),
        "the files have descriptors of different sizes");
  const auto error = memory_error(a.law, stored.law);
  const auto bound = empirical_bound(b.law, a.law, stored.law);
  json out = {{"l2", l2_distance(a.law.mean, b.law.mean)},
              {"jsd_radial", jensen_shannon(a.radial, b.radial)},
              {"jsd_angular", jensen_shannon(a.angular, b.angular)},
              {"jsd", spectral_drift(a.radial, b.radial, a.angular, b.angular, eta)},
              {"high_frequency_loss", high_frequency_loss(a.radial, b.radial, rho0)},
              {"w2", gaussian_drift(b.law, a.law)},
              {"memory_error", {{"a", error.a}, {"b", error.b}, {"rho", error.rho}, {"xi", finite_or_null(error.xi)}}},
              {"bound", {{"left", bound.left}, {"right", finite_or_null(bound.right)}}}};
  if (!std::isnan(a.entropy) && !std::isnan(b.entropy)) out["entropy_increase"] = b.entropy - a.entropy;
  if (!std::isnan(a.accuracy) && !std::isnan(b.accuracy)) out["accuracy_drop"] = a.accuracy - b.accuracy;
  if (!a.embedding.empty() && a.embedding.size() == b.embedding.size())
    out["embedding_drift"] = l2_distance(a.embedding, b.embedding);
  if (!a.samples.empty() && !b.samples.empty()) {
    // All three in the metric of A: otherwise they could not be added.
    const Gaussian own_a{a.law.mean, a.own_variance}, own_b{b.law.mean, b.own_variance};
    const double gamma_a = non_gaussianity(a.samples, own_a, a.law.variance);
    const double gamma_b = non_gaussianity(b.samples, own_b, a.law.variance);
    out["gamma_estimate"] = {{"a", gamma_a}, {"b", gamma_b}};
    out["gaussian_bound_estimate"] = gamma_a + whitened_w2(own_b, own_a, a.law.variance) + gamma_b;
  }
  return out;
}

struct DriftArguments {
  std::string a, b, stored;
  double eta = 1, rho0 = 0.5, floor = -1;
};

// Why a skill of the first file cannot be compared; empty when it can.
std::string obstacle(const std::vector<const SpectraFile*>& files, int64_t skill, const std::string& name) {
  for (const auto* file : files)
    if (skills_of(*file).count(skill) == 0)
      return cat("skill ", printable(name), " is not in ", file->path, "; left out");
  const auto tasks = common_tasks(files, skill);
  if (tasks && tasks->empty()) return cat("skill ", printable(name), " has no task that both files measured; left out");
  return "";
}

void run(const DriftArguments& arguments, const Common& common) {
  const auto a = read_spectra(arguments.a, arguments.floor), b = read_spectra(arguments.b, arguments.floor);
  check_comparable(a, b);
  const auto stored = arguments.stored.empty() ? b : read_spectra(arguments.stored, arguments.floor);
  check_comparable(a, stored);
  json skills = json::array();
  std::vector<std::string> left_out;
  std::vector<std::vector<std::string>> rows = {
      {"skill", "samples", "L2", "JSD", "high-freq loss", "W2", "memory a", "b", "rho", "xi", "bound"}};
  const auto shown = [](const json& value) {
    return value.is_null() ? "inf" : fmt::format("{:.4g}", value.get<double>());
  };
  for (const int64_t key : skills_of(a)) {
    const auto named = a.names.count(key) ? a.names.at(key) : b.names.count(key) ? b.names.at(key) : cat("skill", key);
    if (const auto reason = obstacle({&a, &b, &stored}, key, named); !reason.empty()) {
      left_out.push_back(reason);
      continue;
    }
    const auto tasks = common_tasks({&a, &b, &stored}, key);
    const auto old = spectra_of(a, key, tasks), now = spectra_of(b, key, tasks), kept = spectra_of(stored, key, tasks);
    json entry = compare(old, now, kept, arguments.eta, arguments.rho0);
    entry["skill"] = key;
    entry["name"] = named;
    if (old.count > 0) {
      entry["tasks"] = *tasks;
      entry["samples"] = old.count;
    }
    const auto& error = entry["memory_error"];
    rows.push_back({printable(named), old.count > 0 ? std::to_string(old.count) : "", shown(entry["l2"]),
                    shown(entry["jsd"]), shown(entry["high_frequency_loss"]), shown(entry["w2"]), shown(error["a"]),
                    shown(error["b"]), shown(error["rho"]), shown(error["xi"]), shown(entry["bound"]["right"])});
    skills.push_back(std::move(entry));
  }
  check(!skills.empty(), arguments.a, " and ", arguments.b, " have no skill in common",
        left_out.empty() ? "" : cat(" (", left_out[0], ")"));
  for (const auto& line : left_out) log_warn(line);
  if (common.json)
    return print_json(
        {{"a", arguments.a}, {"b", arguments.b}, {"eta", arguments.eta}, {"rho0", arguments.rho0}, {"skills", skills}});
  std::cout << text_table(rows);
}

}  // namespace

void add_drift_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("drift", "per-skill drift between two memory or analysis files");
  auto arguments = std::make_shared<DriftArguments>();
  command->add_option("A", arguments->a, "the older file: the law that should have been kept")->required();
  command->add_option("B", arguments->b, "the newer file")->required();
  command->add_option("--stored", arguments->stored, "the stored memory whose error and bound are wanted (default: B)")
      ->type_name("MEM");
  command->add_option("--eta", arguments->eta, "weight of the angular divergence")
      ->capture_default_str()
      ->check(between(0.0, 1e6));
  command->add_option("--rho0", arguments->rho0, "radius above which frequencies are high")
      ->capture_default_str()
      ->check(between(0.0, 1.0));
  command->add_option("--floor", arguments->floor, "smallest variance (default: as the file's options say)")
      ->check(between(0.0, 1e6));
  command->callback([arguments, &common] { run(*arguments, common); });
}

}  // namespace asr
