// asr memory update | show | verify: the prototype memory as a file.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <iostream>
#include <set>

#include "base/error.h"
#include "base/folder_lock.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/command.h"
#include "io/safetensors_metadata.h"
#include "spectral/memory.h"
#include "tensor/tensor_io.h"

namespace asr {
namespace {

using nlohmann::json;

// The memory as it stands on disk, with the user's options over the stored ones; or a new one.
PrototypeMemory open_memory(const std::string& path, const OptionFlags& flags) {
  PrototypeMemory memory;
  if (access(path.c_str(), F_OK) != 0) {
    memory.options = flags.resolve();
    return memory;
  }
  memory = load_memory(path);
  const Options now = resolve_options(memory.options, flags.assignments());
  check_compatible(memory.options, now, path);
  memory.options = now;
  return memory;
}

void adopt_names(const Safetensors& stage, PrototypeMemory& memory) {
  if (!stage.metadata.count("skills")) return;
  const json names = metadata_json(stage, "skills");
  check(names.is_array(), stage.path, ": metadata 'skills' is not a JSON list of names");
  std::vector<std::string> list;
  for (const auto& name : names) {
    check(name.is_string(), stage.path, ": metadata 'skills' holds something that is not text");
    list.push_back(name.get<std::string>());
  }
  check(std::set<std::string>(list.begin(), list.end()).size() == list.size(), stage.path,
        ": metadata 'skills' names a skill twice");
  check(memory.skill_names.empty() || memory.skill_names == list, stage.path,
        ": names other skills than the memory does");
  memory.skill_names = list;
}

json prototypes_json(const PrototypeMemory& memory) {
  json list = json::array();
  for (const auto& p : memory.prototypes) {
    json entry = {{"skill", p.skill}, {"name", memory.name_of(p.skill)}, {"count", p.count},
                  {"mean", p.mean},   {"variance", p.variance},          {"angular", p.angular}};
    if (!p.map.empty()) entry["map"] = p.map;
    list.push_back(std::move(entry));
  }
  return list;
}

bool all_finite(const SkillMoments& moments) {
  bool out = true;
  for (const auto* list : {&moments.mean, &moments.variance, &moments.angular, &moments.map})
    for (const double value : *list) out = out && std::isfinite(value);
  return out;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value / static_cast<double>(values.size());
  return sum;
}

void print_memory(const PrototypeMemory& memory) {
  std::vector<std::vector<std::string>> rows = {
      {"skill", "name", "samples", "|mean|", "mean std", "radial spectrum (low to high)"}};
  for (const auto& p : memory.prototypes) {
    double norm = 0;
    for (double value : p.mean) norm += value * value;
    std::string radial;
    for (int64_t k = 0; k < memory.options.spectral.radial_bins; ++k) radial += (k ? " " : "") + number(p.mean[k], 2);
    rows.push_back({std::to_string(p.skill), printable(memory.name_of(p.skill)), std::to_string(p.count),
                    number(std::sqrt(norm)), number(std::sqrt(mean_of(p.variance))), radial});
  }
  std::cout << memory.prototypes.size() << " prototypes after " << memory.stages << " stages\n" << text_table(rows);
}

void update(const std::string& path, const std::string& stage_path, const OptionFlags& flags, const Common& common) {
  constexpr double kPatience = 30;  // seconds; an update takes a fraction of one
  const auto slash = path.rfind('/');
  const FolderLock lock(slash == std::string::npos ? "." : path.substr(0, slash + 1), kPatience);
  PrototypeMemory memory = open_memory(path, flags);
  const auto stage = read_safetensors(stage_path);
  adopt_names(stage, memory);
  StageMoments moments(memory.options);
  const auto descriptor = load_real(stage, "descriptor"), angular = load_real(stage, "angular"),
             posterior = load_real(stage, "posterior");
  torch::Tensor map;
  if (memory.options.asr.spectrum == Spectrum::raw) {
    map = load_real(stage, "map");
    check(map.dim() == 3, stage_path, ": map has shape ", shape_text(map.sizes()),
          "; expected [N, H, W], averaged over layer-heads");
    check(memory.map_height == 0 || (memory.map_height == map.size(1) && memory.map_width == map.size(2)), stage_path,
          ": maps are ", map.size(1), "x", map.size(2), " but the memory holds ", memory.map_height, "x",
          memory.map_width);
  }
  check(descriptor.dim() == 2 && descriptor.size(0) > 0, stage_path, ": descriptor has shape ",
        shape_text(descriptor.sizes()), "; expected [N, D] with at least one sample");
  about_file(stage_path, [&] { moments.add(descriptor, angular, posterior, map, memory.stages); });
  for (const auto& [key, m] : moments.result())
    check(all_finite(m), stage_path, ": the moments of ", memory.name_of(key),
          " are not finite; its descriptors hold numbers that are too large");
  if (moments.result().empty()) log_warn(stage_path, ": no posterior exceeds spectral.tau_skill; no prototype changes");
  const bool changed = memory.update(moments);
  save_memory(path, memory);
  json counts = json::object();
  for (const auto& [key, m] : moments.result()) counts[memory.name_of(key)] = m.count;
  if (common.json)
    return print_json({{"memory", path},
                       {"stages", memory.stages},
                       {"updated", changed},
                       {"stage_counts", counts},
                       {"prototypes", memory.prototypes.size()}});
  if (!changed) std::cout << "asr.beta=0: the memory stays as after stage 1\n";
  print_memory(memory);
}

void show(const std::string& path, const Common& common) {
  PrototypeMemory memory = load_memory(path);
  if (!common.json) return print_memory(memory);
  print_json({{"stages", memory.stages},
              {"options", memory.options.table().manifest()},
              {"prototypes", prototypes_json(memory)}});
}

void verify(const std::string& path, const Common& common) {
  const PrototypeMemory memory = load_memory(path);
  const auto file = read_safetensors(path);
  const size_t bytes = file.file->bytes().size;
  const auto sum = file.metadata.at("sha256");
  if (common.json)
    return print_json(
        {{"memory", path}, {"ok", true}, {"sha256", sum}, {"bytes", bytes}, {"prototypes", memory.prototypes.size()}});
  std::cout << path << ": sound, " << memory.prototypes.size() << " prototypes, "
            << human_bytes(static_cast<double>(bytes)) << ", sha256 " << sum << "\n";
}

}  // namespace

void add_memory_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("memory", "the prototype memory: all that is kept between stages");
  command->require_subcommand(1);
  struct Arguments {
    std::string memory, stage;
    OptionFlags options;
  };
  auto arguments = std::make_shared<Arguments>();
  auto* update_command =
      command->add_subcommand("update", "take a stage's descriptors into the memory; creates the file if absent");
  update_command->add_option("MEM", arguments->memory, "memory file")->required();
  update_command->add_option("-i,--input", arguments->stage, "stage file: descriptor, angular, posterior")
      ->required()
      ->type_name("STAGE");
  arguments->options.add_to(*update_command);
  update_command->callback(
      [arguments, &common] { update(arguments->memory, arguments->stage, arguments->options, common); });
  auto* show_command = command->add_subcommand("show", "what the memory holds");
  show_command->add_option("MEM", arguments->memory, "memory file")->required();
  show_command->callback([arguments, &common] { show(arguments->memory, common); });
  auto* verify_command = command->add_subcommand("verify", "checksum and every invariant");
  verify_command->add_option("MEM", arguments->memory, "memory file")->required();
  verify_command->callback([arguments, &common] { verify(arguments->memory, common); });
}

}  // namespace asr
