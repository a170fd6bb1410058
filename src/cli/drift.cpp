// asr drift A B: how far the spectra of each skill moved from A to B, and what that means for the forgetting bound.
#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/command.h"
#include "spectral/diagnostics.h"
#include "spectral/memory.h"
#include "tensor/tensor_io.h"

namespace asr {
namespace {

using nlohmann::json;

// One skill of a memory or analysis file.
struct SkillSpectra {
  Gaussian law;
  Vector radial, angular, embedding;
  double accuracy = NAN, entropy = NAN;
  std::vector<Vector> samples;
};

struct SpectraFile {
  std::string path;
  std::optional<Options> options;  // what the descriptors were made with, where the file says it
  std::map<int64_t, SkillSpectra> skills;
  std::map<int64_t, std::string> names;
};

Vector row_of(const torch::Tensor& table, int64_t row) {
  const auto flat = table[row].to(at::kDouble).contiguous().flatten();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

SpectraFile from_memory(const std::string& path, double floor_from_options) {
  PrototypeMemory memory = load_memory(path);
  SpectraFile out{path, memory.options, {}, {}};
  const double floor = floor_from_options >= 0 ? floor_from_options : memory.options.spectral.covariance_floor;
  for (auto& p : memory.prototypes) {
    SkillSpectra s;
    for (double& value : p.variance) value = std::max(value, floor);
    s.radial.assign(p.mean.begin(), p.mean.begin() + memory.options.spectral.radial_bins);
    s.law = {p.mean, p.variance}, s.angular = p.angular;
    out.names[p.skill] = memory.name_of(p.skill);
    out.skills[p.skill] = std::move(s);
  }
  return out;
}

// Analysis files hold per-skill tables `skill, mean, variance, radial, angular` and optionally `accuracy, entropy,
// embedding`, with `sample.skill, sample.descriptor` for a bounded number of samples.
SpectraFile from_analysis(const Safetensors& file, double floor) {
  SpectraFile out{file.path, std::nullopt, {}, {}};
  const auto options = file.metadata.find("options");
  if (options != file.metadata.end())
    out.options = resolve_options("sound", manifest_assignments(json::parse(options->second, nullptr, false),
                                                                file.path + " (metadata 'options')"));
  const auto skill = load_index(file, "skill");
  check(skill.dim() == 1, file.path, ": 'skill' must be [n]");
  const int64_t n = skill.size(0);
  const auto table = [&](const char* name, bool required, int64_t rank) {
    if (!required && !file.find(name)) return torch::Tensor();
    const auto tensor = load_real(file, name).to(at::kDouble);
    check(tensor.dim() == rank && tensor.size(0) == n, file.path, ": '", name, "' has shape ",
          shape_text(tensor.sizes()), " for ", n, " skills");
    check(tensor.isfinite().all().item<bool>(), file.path, ": '", name, "' holds NaN or infinite values");
    return tensor;
  };
  const auto mean = table("mean", true, 2), variance = table("variance", true, 2), radial = table("radial", true, 2),
             angular = table("angular", true, 2);
  const auto accuracy = table("accuracy", false, 1), entropy = table("entropy", false, 1),
             embedding = table("embedding", false, 2);
  check(mean.sizes() == variance.sizes() && variance.ge(0).all().item<bool>(), file.path,
        ": 'variance' must be >= 0 and shaped as 'mean'");
  check(radial.ge(0).all().item<bool>() && angular.ge(0).all().item<bool>(), file.path,
        ": 'radial' and 'angular' must be >= 0");
  for (int64_t i = 0; i < n; ++i) {
    SkillSpectra s;
    s.law = {row_of(mean, i), row_of(variance.clamp_min(std::max(floor, 0.0)), i)};
    s.radial = row_of(radial, i), s.angular = row_of(angular, i);
    if (accuracy.defined()) s.accuracy = accuracy[i].item<double>();
    if (entropy.defined()) s.entropy = entropy[i].item<double>();
    if (embedding.defined()) s.embedding = row_of(embedding, i);
    const int64_t key = skill[i].item<int64_t>();
    check(out.skills.emplace(key, std::move(s)).second, file.path, ": skill ", key, " stands twice");
  }
  if (!file.find("sample.skill") && !file.find("sample.descriptor")) return out;
  const auto sample_skill = load_index(file, "sample.skill"),
             samples = load_real(file, "sample.descriptor").to(at::kDouble);
  check(sample_skill.dim() == 1 && samples.dim() == 2 && samples.size(0) == sample_skill.size(0) &&
            samples.size(1) == mean.size(1),
        file.path, ": sample.descriptor has shape ", shape_text(samples.sizes()), "; expected [", sample_skill.numel(),
        ", ", mean.size(1), "]");
  check(samples.isfinite().all().item<bool>(), file.path, ": sample.descriptor holds NaN or infinite values");
  for (int64_t i = 0; i < samples.size(0); ++i) {
    const auto found = out.skills.find(sample_skill[i].item<int64_t>());
    if (found != out.skills.end()) found->second.samples.push_back(row_of(samples, i));
  }
  return out;
}

SpectraFile read_spectra(const std::string& path, double floor) {
  const auto file = read_safetensors(path);
  return file.metadata.count("asr_memory") ? from_memory(path, floor) : from_analysis(file, floor);
}

void check_comparable(const SpectraFile& a, const SpectraFile& b) {
  if (a.options && b.options) check_compatible(*a.options, *b.options, a.path);
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
    const double gamma_a = non_gaussianity(a.samples, a.law), gamma_b = non_gaussianity(b.samples, b.law);
    out["gamma_estimate"] = {{"a", gamma_a}, {"b", gamma_b}};
    out["gaussian_bound_estimate"] = gamma_a + bound.left + gamma_b;
  }
  return out;
}

struct Arguments {
  std::string a, b, stored;
  double eta = 1, rho0 = 0.5, floor = -1;
};

void run(const Arguments& arguments, const Common& common) {
  const auto a = read_spectra(arguments.a, arguments.floor), b = read_spectra(arguments.b, arguments.floor);
  check_comparable(a, b);
  const auto stored = arguments.stored.empty() ? b : read_spectra(arguments.stored, arguments.floor);
  check_comparable(a, stored);
  json skills = json::array();
  std::vector<std::string> left_out;
  std::vector<std::vector<std::string>> rows = {
      {"skill", "L2", "JSD", "high-freq loss", "W2", "memory a", "b", "rho", "xi", "bound"}};
  const auto shown = [](const json& value) { return value.is_null() ? "inf" : number(value.get<double>()); };
  for (const auto& [key, old] : a.skills) {
    const auto now = b.skills.find(key), kept = stored.skills.find(key);
    if (now == b.skills.end() || kept == stored.skills.end()) {
      left_out.push_back(cat("skill ", key, " is not in ", now == b.skills.end() ? b.path : stored.path, "; left out"));
      continue;
    }
    json entry = compare(old, now->second, kept->second, arguments.eta, arguments.rho0);
    const auto named = a.names.count(key) ? a.names.at(key) : b.names.count(key) ? b.names.at(key) : cat("skill", key);
    entry["skill"] = key, entry["name"] = named;
    const auto& error = entry["memory_error"];
    rows.push_back({printable(named), shown(entry["l2"]), shown(entry["jsd"]), shown(entry["high_frequency_loss"]),
                    shown(entry["w2"]), shown(error["a"]), shown(error["b"]), shown(error["rho"]), shown(error["xi"]),
                    shown(entry["bound"]["right"])});
    skills.push_back(std::move(entry));
  }
  check(!skills.empty(), arguments.a, " and ", arguments.b, " have no skill in common");
  for (const auto& line : left_out) log_warn(line);
  if (common.json)
    return print_json(
        {{"a", arguments.a}, {"b", arguments.b}, {"eta", arguments.eta}, {"rho0", arguments.rho0}, {"skills", skills}});
  std::cout << text_table(rows);
}

}  // namespace

void add_drift_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("drift", "per-skill drift between two memory or analysis files");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("A", arguments->a, "the older file: the law that should have been kept")->required();
  command->add_option("B", arguments->b, "the newer file")->required();
  command->add_option("--stored", arguments->stored, "the stored memory whose error and bound are wanted (default: B)")
      ->type_name("MEM");
  command->add_option("--eta", arguments->eta, "weight of the angular divergence")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e6));
  command->add_option("--rho0", arguments->rho0, "radius above which frequencies are high")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--floor", arguments->floor, "smallest variance (default: as the memory says)")
      ->check(CLI::Range(0.0, 1e6));
  command->callback([arguments, &common] { run(*arguments, common); });
}

}  // namespace asr
