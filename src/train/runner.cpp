#include "train/runner.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>

#include "base/atomic_file.h"
#include "base/checksums.h"
#include "base/error.h"
#include "base/folder_lock.h"
#include "base/folders.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/text.h"
#include "data/walk.h"
#include "train/announce.h"
#include "train/memory_check.h"
#include "train/run_folder.h"
#include "train/run_identity.h"
#include "train/run_model.h"
#include "train/stage_phases.h"
#include "train/trainer.h"

namespace asr {
namespace {

using nlohmann::json;

// A fingerprint that can stand for a lost one of the output folder: that of any run in it.
std::optional<json> fingerprint_of_a_run(const std::string& folder) {
  for (const auto& name : list_folder(folder)) {
    std::string ignored;
    if (auto stored = read_fingerprint(folder + "/" + name + "/fingerprint.json", ignored)) return stored;
  }
  return std::nullopt;
}

// The content of a run: what all runs of the folder share, but for samples that its seed draws anew.
json content_of(const RunOptions& run, json content, int64_t seed) {
  const auto drawn = with_run_seed(run.stream, seed);
  if (drawn.seed != run.stream.seed) content["data"] = make_stream(drawn)->fingerprint();
  return content;
}

// Another run's folder is never written into. Looks, but writes nothing; returns the options that differ and may.
std::vector<std::string> check_output_folder(const RunRequest& request, const json& fingerprint) {
  const auto& folder = request.config.run.output_dir;
  const bool unused = is_unused_folder(folder);  // looked at first: another process may be claiming it just now
  const auto path = folder + "/fingerprint.json";
  std::string problem;
  const auto stored = read_fingerprint(path, problem);
  if (stored) {
    const auto version = stored->value("version", std::string());
    if (version != request.version)
      log_warn(cat(folder, ": was begun with version ", version, ", now ", request.version));
    return check_same(*stored, fingerprint, folder);
  }
  if (unused) return {};
  const auto run = fingerprint_of_a_run(folder);
  check(run.has_value() || problem.empty(), problem, "; choose another output_dir");
  check(run.has_value(), folder, ": is not empty and no run of ours; choose another output_dir");
  auto same_seed = fingerprint;
  same_seed["content"] = content_of(request.config.run, fingerprint.at("content"), run->value("seed", int64_t(0)));
  const auto encoders = run->at("content").value("encoders", json());  // a matter of single runs
  if (!encoders.is_null()) same_seed["content"]["encoders"] = encoders;
  const auto changed = check_same(*run, same_seed, folder, /*all_options=*/false);
  log_warn(cat(problem.empty() ? path + ": is missing" : problem, "; it is written again, from what its runs noted"));
  return changed;
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

// Where hashes of large files are known from: a folder that runs share serves all their output folders.
std::string hash_cache_of(const RunRequest& request) {
  if (!request.hash_cache.empty()) return request.hash_cache;
  const auto& run = request.config.run;
  if (run.data_cache.empty()) return run.output_dir + "/hashes.json";
  make_folders(run.data_cache);
  return run.data_cache + "/hashes.json";
}

// Everything that could speak against the runs is found before anything is written. Returns what lies in their folders.
std::vector<FoundRun> begin_output(const RunRequest& request, std::vector<RunKey>& keys, const json& content,
                                   ContentHashes& hashes) {
  const auto& folder = request.config.run.output_dir;
  for (const auto& key : keys)
    check(request.resume || !path_exists(key.folder), key.folder,
          ": exists already; use --resume to go on with it, or another output_dir");
  const auto fingerprint = shared_fingerprint(request.config, content, request.version);
  const auto changed = check_output_folder(request, fingerprint);
  std::vector<FoundRun> found;
  for (auto& key : keys) {
    const auto own = content_of(request.config.run, content, key.seed);
    key.fingerprint = run_fingerprint(request.config, key, with_encoders(own, request.config, key.composition, hashes));
    std::optional<FolderLock> lock;
    if (path_exists(key.folder)) lock.emplace(key.folder);
    found.push_back(examine_run(key.folder, key.fingerprint));
    const bool begun = !found.back().fingerprint.is_null();
    check(changed.empty() || begun, folder, ": holds runs with another '", changed.empty() ? "" : changed[0], "', and ",
          key.folder, " has not begun; choose another output_dir, or name with --set method=... the run to go on with");
    if (begun) key.fingerprint = found.back().fingerprint;
  }
  for (const auto& run : found)
    for (const auto& note : run.notes) log_warn(note);
  make_folders(folder);
  std::string problem;
  if (!read_fingerprint(folder + "/fingerprint.json", problem))
    write_file_atomically(folder + "/fingerprint.json", fingerprint_text(fingerprint));
  write_file_atomically(folder + "/config.yaml", with_checksum_line(yaml_text(request.config.manifest())));
  return found;
}

// A run that could not begin leaves nothing that would stand in the way of the next try.
void forget_output(const RunOptions& run, const RunKey& key, bool fresh_run, bool fresh_output) {
  std::error_code none;
  if (!fresh_run) return;
  std::filesystem::remove(key.folder + "/fingerprint.json", none);
  std::filesystem::remove(key.folder, none);  // no more than an empty folder
  if (!fresh_output) return;
  for (const char* file : {"/fingerprint.json", "/config.yaml", "/hashes.json"})
    std::filesystem::remove(run.output_dir + file, none);
  std::filesystem::remove(run.output_dir, none);
}

// What a process that was killed just after its last file left undecided.
void settle_complete(const RunKey& key) {
  remove_temporaries(key.folder);
  Checksums checksums(key.folder);
  if (checksums.settle()) checksums.save();
}

// Runs that see the same samples one after the other, so that samples are drawn once and held for one seed at a time.
std::vector<size_t> order_by_samples(const RunOptions& run, const std::vector<RunKey>& keys) {
  std::vector<size_t> out;
  for (size_t i = 0; i < keys.size(); ++i) out.push_back(i);
  const auto seed = [&](size_t i) { return with_run_seed(run.stream, keys[i].seed).seed; };
  std::stable_sort(out.begin(), out.end(), [&](size_t a, size_t b) { return seed(a) < seed(b); });
  return out;
}

// The samples of the run's seed, and what was made of them.
class DrawnData {
 public:
  DrawnData(const Backbone& model, const QuestionAnalyser& analyser, const Team& team, const KeptSamples* kept)
      : model_(model), analyser_(analyser), team_(team), kept_(kept) {}
  Data& of(const StreamOptions& options) {
    if (data_ && options.seed == seed_) return *data_;
    data_.reset();
    stream_ = make_stream(options);
    seed_ = options.seed;
    return data_.emplace(*stream_, model_, analyser_, team_, kept_);
  }

 private:
  const Backbone& model_;
  const QuestionAnalyser& analyser_;
  const Team& team_;
  const KeptSamples* kept_;
  int64_t seed_ = 0;
  std::unique_ptr<Stream> stream_;
  std::optional<Data> data_;
};

}  // namespace

std::vector<std::string> run_all(const RunRequest& request) {
  const auto& config = request.config;
  const Team alone;
  const Team& team = request.team ? *request.team : alone;
  check(!config.run.output_dir.empty(), "output_dir is not set; say where the run is to be written");
  check(config.run.data_cache.empty() || team.size() == 1,
        "data.cache serves runs of one process; leave it away with several");
  const auto path = find_model(config.run.model);
  const auto device = use_device(config.run.device, request.gpu, config.run.same_bits);
  const auto stream = make_stream(config.run.stream);  // of seed 0 where runs draw their own
  check_device_memory(config, *stream, path, team.size());
  for (const auto& composition : config.run.method)
    for (const auto& warning : plan_warnings(config, composition, *stream, /*layers=*/0))
      if (team.leads()) log_warn(warning);
  const auto model = load_run_model(config, path, device);
  const auto analyser = load_run_analyser(config);
  check(config.run.tap_layers <= model->layers(), "attention.layers=", config.run.tap_layers, " but ", model->name(),
        " has ", model->layers(), " layers to tap");
  check_task_names(config.run, *stream);
  check_scored(config.run, *stream);  // before hours of training
  if (const auto warning = batch_warning(config.run, *stream); team.leads() && !warning.empty()) log_warn(warning);
  auto keys = keys_of(config.run);
  bool fresh_output = !path_exists(config.run.output_dir);
  std::vector<FoundRun> found(keys.size());
  std::optional<KeptSamples> kept;
  if (team.leads()) {
    ContentHashes hashes(hash_cache_of(request));
    const auto content = run_content(config.run, config.options, *stream, path, hashes);
    found = begin_output(request, keys, content, hashes);
    hashes.save();
    if (!config.run.data_cache.empty()) kept.emplace(config.run.data_cache, content, *model);
  }

  const HearSignals hear(team.leads() ? "saving, then stopping; once more ends it at once" : nullptr);
  DrawnData data(*model, *analyser, team, kept ? &*kept : nullptr);
  std::vector<std::string> folders;
  for (const auto& key : keys) folders.push_back(key.folder);
  bool announced = false;
  for (const size_t i : order_by_samples(config.run, keys)) {
    const auto& key = keys[i];
    std::optional<FolderLock> lock;
    const bool fresh_run = !path_exists(key.folder);
    if (team.leads()) {
      make_folders(key.folder);
      lock.emplace(key.folder);
    }
    if (team.any(found[i].complete)) {
      if (team.leads()) settle_complete(key);
      log_info(cat(key.folder, ": is complete; nothing to do"));
      continue;
    }
    std::string problem;
    if (team.leads() && !read_fingerprint(key.folder + "/fingerprint.json", problem))
      write_file_atomically(key.folder + "/fingerprint.json", fingerprint_text(key.fingerprint));
    std::optional<Trainer> trainer;
    try {
      trainer.emplace(config, key, *model, data.of(with_run_seed(config.run.stream, key.seed)), team);
    } catch (...) {
      if (team.leads()) forget_output(config.run, key, fresh_run, fresh_output);
      throw;
    }
    fresh_output = false;
    trainer->run(request.resume, [&] {
      if (!request.announce || announced || !team.leads()) return;
      announced = true;
      for (const auto& line : header_lines({config, *stream, *model, path, trainer->trained_numbers(), trainer->steps(),
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
