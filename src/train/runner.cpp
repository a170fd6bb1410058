#include "train/runner.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>

#include "base/assets.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/text.h"
#include "io/safetensors.h"
#include "methods/long_pass.h"
#include "metrics/metric.h"
#include "skills/taxonomy.h"
#include "tensor/runtime.h"
#include "train/announce.h"
#include "train/trainer.h"

namespace asr {
namespace {

using nlohmann::json;

// A file by its content; a folder by config.json and the names, sizes and headers of its weight files, since weights
// may be hundreds of gigabytes.
std::string model_hash(const std::string& path) {
  Sha256 hash;
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    hash.update(read_file(path));
    return hash.hex();
  }
  hash.update(read_file(path + "/config.json"));
  for (const auto& name : list_folder(path)) {
    const auto file = path + "/" + name;
    if (std::filesystem::path(name).extension() != ".safetensors") continue;
    const auto weights = read_safetensors(file);
    hash.update(cat(name, " ", std::filesystem::file_size(file), "\n"));
    for (const auto& t : weights.tensors) {
      hash.update(cat(t.name, " ", dtype_name(t.dtype)));
      for (const int64_t size : t.shape) hash.update(cat(" ", size));
    }
  }
  return hash.hex();
}

json fingerprint_of(const RunRequest& request, const Stream& stream, const std::string& model_path) {
  const auto shared = request.config.shared_manifest();
  Sha256 all;
  json out = {{"config", shared},
              {"version", request.version},
              {"data", stream.fingerprint()},
              {"model", model_hash(model_path)}};
  all.update(out.dump());
  out["hash"] = all.hex();
  return out;
}

// Another run's folder is never written into.
void claim_folder(const RunRequest& request, const json& fingerprint) {
  const auto& folder = request.config.run.output_dir;
  const auto path = folder + "/fingerprint.json";
  const bool unused = is_unused_folder(folder);  // looked at first: another process may be claiming it just now
  if (path_exists(path)) {
    const auto stored = read_json(path);
    const JsonFields fields(stored, path);
    fields.object("config");
    const auto& config = fields.at("config");
    for (const auto& [key, value] : fingerprint["config"].items())
      check(config.contains(key) && config[key] == value, folder, ": holds runs with another '", key, "' (",
            config.contains(key) ? config[key].dump() : "none", ", now ", value.dump(), "); choose another output_dir");
    check(fields.text("data") == fingerprint["data"].get<std::string>(), folder,
          ": holds runs on other data; choose another output_dir");
    check(fields.text("model") == fingerprint["model"].get<std::string>(), folder,
          ": holds runs from another base model; choose another output_dir");
    const auto version = fields.text_or("version", "?");
    if (version != fingerprint["version"].get<std::string>())
      log_warn(cat(folder, ": was begun with version ", version, ", now ", request.version));
    return;
  }
  check(unused, folder, ": is not empty and no run of ours; choose another output_dir");
  make_folders(folder);
  write_file_atomically(path, fingerprint.dump(1) + "\n");
}

std::vector<RunKey> keys_of(const RunOptions& run) {
  std::vector<RunKey> out;
  for (const auto& method : run.method)
    for (int64_t order = 0; order < run.orders; ++order)
      for (const int64_t seed : run.seeds) {
        const auto label = run.label.empty() ? method : run.label;
        auto name = label;
        if (run.seeds.size() > 1 || seed != 0) name += cat("-seed", seed);
        if (run.orders > 1) name += cat("-order", order);
        out.push_back({method, label, seed, order, run.output_dir + "/" + name});
      }
  return out;
}

bool is_complete(const std::string& folder) {
  if (!path_exists(folder + "/metrics.json")) return false;
  const auto path = folder + "/metrics.json";
  const auto metrics = read_json(path);
  return JsonFields(metrics, path).flag("complete");
}

void begin_output(const RunRequest& request, const std::vector<RunKey>& keys, const json& fingerprint) {
  for (const auto& key : keys)  // before anything is written
    check(request.resume || !path_exists(key.folder), key.folder,
          ": exists already; use --resume to go on with it, or another output_dir");
  claim_folder(request, fingerprint);
  write_file_atomically(request.config.run.output_dir + "/config.yaml", yaml_text(request.config.manifest()));
}

at::Device use_device(const std::string& name, int gpu, Switch same_bits) {
  if (name == "cpu") return at::kCPU;
  check(at::hasCUDA(), "device=cuda: this build or machine has none; use device=cpu");
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(gpu));
  c10::impl::VirtualGuardImpl(at::kCUDA).setDevice(device);  // what is made without naming a device lands there too
  set_deterministic(same_bits == Switch::yes);
  return device;
}

// A run's folder belongs to one process at a time: a job that is started again while the first still trains would ruin
// the checkpoints of both. The lock goes with the process, however it ends.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder)
      : descriptor_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    // Some network file systems have no locks; there it is up to the user.
    const bool taken = flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (taken) close(descriptor_);
    check(!taken, folder, ": another process is at work here; wait for it, stop it, or choose another output_dir");
  }
  ~FolderLock() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace

std::string find_model(const std::string& name) {
  if (name.find('/') != std::string::npos || path_exists(name)) return name;
  return find_asset(name + ".safetensors");
}

std::vector<std::string> run_all(const RunRequest& request) {
  const auto& config = request.config;
  const Team alone;
  const Team& team = request.team ? *request.team : alone;
  check(!config.run.output_dir.empty(), "output_dir is not set; say where the run is to be written");
  const auto path = find_model(config.run.model);
  auto model = load_backbone(path);
  const auto device = use_device(config.run.device, request.gpu, config.run.same_bits);
  model->to(device);
  model->configure(config.run.backbone_options());
  const auto stream = make_stream(config.run.stream);
  if (!config.run.taxonomy.empty()) use_taxonomy(read_taxonomy(config.run.taxonomy));
  use_lexicon(config.run.lexicon);
  const auto skill = config.options.asr.skill;
  const auto analyser = make_analyser(reads_parser(skill) ? config.run.parser_path() : "", skill);
  check(config.run.tap_layers <= model->layers(), "attention.layers=", config.run.tap_layers, " but ", model->name(),
        " has ", model->layers(), " layers to tap");
  check_task_names(config.run, *stream);
  for (size_t task = 0; task < stream->tasks().size(); ++task)
    check(stream->size(task, config.run.scored_split()) > 0, "eval_split: ", stream->name(),
          " has no samples of task '", printable(stream->tasks()[task].name), "' in that split");
  const auto metrics = metric_names();
  for (const auto& task : stream->tasks())  // before hours of training
    check(std::find(metrics.begin(), metrics.end(), task.metric) != metrics.end(), stream->name(), ": task '",
          printable(task.name), "' is scored by '", printable(task.metric), "', which is unknown",
          did_you_mean(task.metric, metrics));
  for (const auto& task : stream->tasks()) check_metric(task.metric);
  const auto keys = keys_of(config.run);
  if (const auto warning = batch_warning(config.run, *stream); team.leads() && !warning.empty()) log_warn(warning);
  if (team.leads()) begin_output(request, keys, fingerprint_of(request, *stream, path));

  const HearSignals hear(team.leads() ? "saving, then stopping; once more ends it at once" : nullptr);
  Data data(*stream, *model, *analyser, team);
  std::vector<std::string> folders;
  bool announced = false;
  for (const auto& key : keys) {
    folders.push_back(key.folder);
    if (team.any(team.leads() && is_complete(key.folder))) {
      log_info(cat(key.folder, ": is complete; nothing to do"));
      continue;
    }
    std::optional<FolderLock> lock;
    if (team.leads()) {
      make_folders(key.folder);
      lock.emplace(key.folder);
      write_file_atomically(key.folder + "/config.yaml", yaml_text(config.manifest()));
    }
    Trainer trainer(config, key, *model, data, team);
    trainer.run(request.resume, [&] {
      if (!request.announce || announced || !team.leads()) return;
      announced = true;
      for (const auto& line : header_lines({config, *stream, *model, path, trainer.trained_numbers(), trainer.steps(),
                                            static_cast<int64_t>(keys.size()), team.size()}))
        log_info(line);
    });
    if (const int number = stop_signal(team))
      throw Stopped(cat("stopped when ", key.folder, " was complete; go on with --resume"), number);
  }
  team.any(false);  // none goes while another is still at work
  return folders;
}

}  // namespace asr
