#include "spectral/memory.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "io/safetensors_metadata.h"
#include "tensor/tensor_io.h"

namespace asr {
namespace {

using nlohmann::json;

void average(std::vector<double>& stored, const std::vector<double>& stage, double alpha) {
  check(stored.size() == stage.size(), "stage moments have ", stage.size(), " entries but the memory has ",
        stored.size());
  for (size_t i = 0; i < stored.size(); ++i) stored[i] = alpha * stored[i] + (1 - alpha) * stage[i];
}

torch::Tensor stack(const std::vector<Prototype>& prototypes, std::vector<double> Prototype::*field, int64_t width) {
  auto out = torch::empty({static_cast<int64_t>(prototypes.size()), width}, at::kDouble);
  for (size_t i = 0; i < prototypes.size(); ++i)
    std::copy((prototypes[i].*field).begin(), (prototypes[i].*field).end(),
              out.data_ptr<double>() + static_cast<int64_t>(i) * width);
  return out;
}

json parse_metadata(const Safetensors& file, const char* key) {
  const auto found = file.metadata.find(key);
  check(found != file.metadata.end(), file.path, ": is no prototype memory (no metadata '", key, "')");
  return metadata_json(file, key);
}

std::vector<double> row_of(const torch::Tensor& table, int64_t row) {
  const auto flat = table[row].contiguous().to(at::kDouble).flatten();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

void read_prototypes(const Safetensors& file, PrototypeMemory& memory) {
  const auto skill = load_index(file, "skill"), count = load_index(file, "count");
  const auto& spectral = memory.options.spectral;
  const int64_t n = skill.numel(), M = spectral.angular_bins;
  int64_t D = spectral.dim();
  if (spectral.heads == Heads::kept && n > 0) {
    const auto sizes = load_real(file, "mean").sizes().vec();
    check(sizes.size() == 2 && spectral.fits(sizes[1]), file.path, ": 'mean' has shape ", shape_text(sizes),
          "; expected [", n, ", ", expected_numbers(spectral), "]");
    D = sizes[1];
  }
  const auto table = [&](const char* name, int64_t width) {
    const auto tensor = load_real(file, name);
    check(tensor.dim() == 2 && tensor.size(0) == n && tensor.size(1) == width, file.path, ": '", name, "' has shape ",
          shape_text(tensor.sizes()), "; expected [", n, ", ", width, "]");
    check(tensor.isfinite().all().item<bool>(), file.path, ": '", name, "' holds NaN or infinite values");
    return tensor;
  };
  const auto mean = table("mean", D), variance = table("variance", D), angular = table("angular", M);
  check(variance.ge(0).all().item<bool>(), file.path, ": variance holds negative values");
  check(angular.ge(0).all().item<bool>() && angular.sum(1).gt(0).all().item<bool>(), file.path,
        ": angular spectra must be >= 0 and not all zero");
  torch::Tensor map;
  if (file.find("map")) {
    map = load_real(file, "map");
    check(map.dim() == 3 && map.size(0) == n && map.isfinite().all().item<bool>(), file.path, ": 'map' has shape ",
          shape_text(map.sizes()), "; expected [", n, ", H, W]");
    memory.map_height = map.size(1);
    memory.map_width = map.size(2);
  }
  check(skill.dim() == 1 && count.sizes() == skill.sizes(), file.path, ": 'skill' and 'count' must be [n]");
  for (int64_t i = 0; i < n; ++i) {
    Prototype p;
    p.skill = skill[i].item<int64_t>();
    p.count = count[i].item<int64_t>();
    check(p.skill >= 0 && p.count >= 1 && p.count < (int64_t(1) << 53), file.path, ": prototype ", i, " has skill ",
          p.skill, " and count ", p.count);
    check(memory.prototypes.empty() || memory.prototypes.back().skill < p.skill, file.path,
          ": skills are not in ascending order");
    p.mean = row_of(mean, i);
    p.variance = row_of(variance, i);
    p.angular = row_of(angular, i);
    if (map.defined()) p.map = row_of(map, i);
    memory.prototypes.push_back(std::move(p));
  }
}

}  // namespace

bool PrototypeMemory::update(const StageMoments& stage) {
  const bool wanted = wants_stage();
  if (wanted)
    take(stage);
  else
    leave_out_stage();
  return wanted;
}

void PrototypeMemory::take(const StageMoments& stage) {
  ++stages;
  const auto& s = options.spectral;
  if (stage.map_height) {
    map_height = stage.map_height;
    map_width = stage.map_width;
  }
  for (auto& [key, moments] : stage.result()) {
    auto variance = moments.variance;
    if (s.floor_at == FloorAt::update)
      for (double& value : variance) value = std::max(value, s.covariance_floor);
    auto place = std::lower_bound(prototypes.begin(), prototypes.end(), key,
                                  [](const Prototype& p, int64_t k) { return p.skill < k; });
    if (place == prototypes.end() || place->skill != key) {
      check(prototypes.empty() || prototypes[0].mean.size() == moments.mean.size(), "stage moments have ",
            moments.mean.size(), " entries but the memory has ", prototypes.empty() ? 0 : prototypes[0].mean.size());
      prototypes.insert(place, Prototype{key, moments.count, moments.mean, variance, moments.angular, moments.map});
      continue;
    }
    place->count += moments.count;
    average(place->mean, moments.mean, s.alpha);
    average(place->variance, variance, s.alpha);
    average(place->angular, moments.angular, s.alpha);
    average(place->map, moments.map, s.alpha);
  }
}

std::string PrototypeMemory::name_of(int64_t skill) const {
  if (options.asr.prototypes == Prototypes::global) return "global";
  if (options.asr.prototypes == Prototypes::task) return cat("task", skill + 1);
  if (skill < static_cast<int64_t>(skill_names.size())) return skill_names[skill];
  return cat("skill", skill);
}

PrototypeTensors PrototypeMemory::tensors() const {
  PrototypeTensors out;
  const auto n = static_cast<int64_t>(prototypes.size());
  out.skill = torch::empty({n}, at::kLong);
  out.count = torch::empty({n}, at::kLong);
  for (int64_t i = 0; i < n; ++i) {
    out.skill[i] = prototypes[i].skill;
    out.count[i] = prototypes[i].count;
  }
  const auto numbers = n > 0 ? static_cast<int64_t>(prototypes[0].mean.size()) : options.spectral.dim();
  out.mean = stack(prototypes, &Prototype::mean, numbers);
  out.variance = stack(prototypes, &Prototype::variance, numbers);
  out.angular = stack(prototypes, &Prototype::angular, options.spectral.angular_bins);
  if (map_height) out.map = stack(prototypes, &Prototype::map, map_height * map_width).view({n, map_height, map_width});
  return out;
}

PrototypeMemory load_memory(const std::string& path) {
  const Safetensors file = read_safetensors(path);
  const json format = parse_metadata(file, "asr_memory");
  check(format == 1, path, ": memory format ", format.dump(), " is not known to this version");
  verify_checksum(file);
  PrototypeMemory memory;
  memory.options = resolve_options("sound", manifest_assignments(parse_metadata(file, "options"), path));
  const json stages = parse_metadata(file, "stages"), names = parse_metadata(file, "skills");
  check(stages.is_number_unsigned() && stages.get<uint64_t>() < (uint64_t(1) << 31) && names.is_array(), path,
        ": metadata 'stages' or 'skills' is malformed");
  memory.stages = stages.get<int64_t>();
  for (const auto& name : names) {
    check(name.is_string(), path, ": a skill name is not text");
    memory.skill_names.push_back(name.get<std::string>());
  }
  read_prototypes(file, memory);
  return memory;
}

void save_memory(const std::string& path, const PrototypeMemory& memory) {
  Options options = memory.options;
  const auto tensors = memory.tensors();
  NamedTensors out = {{"skill", tensors.skill},
                      {"count", tensors.count},
                      {"mean", tensors.mean},
                      {"variance", tensors.variance},
                      {"angular", tensors.angular}};
  if (tensors.map.defined()) out.emplace_back("map", tensors.map);
  save_tensors(path, out,
               {{"asr_memory", "1"},
                {"options", options.table().manifest().dump()},
                {"skills", json(memory.skill_names).dump()},
                {"stages", std::to_string(memory.stages)}});
}

}  // namespace asr
