#include "train/run_identity.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "base/assets.h"
#include "base/atomic_file.h"
#include "base/checksums.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/text.h"
#include "skills/part_of_speech.h"
#include "train/data.h"

namespace asr {
namespace {

using nlohmann::json;

constexpr int kFingerprintFormat = 2;
constexpr std::array<const char*, 2> kMayChange = {"learning_rate", "max_grad_norm"};

std::string hash_of_list(const std::vector<std::string>& texts) {
  Sha256 hash;
  for (const auto& text : texts) {
    hash.update_int(text.size());
    hash.update(text);
  }
  return hash.hex();
}

// Of a folder: weights, configuration, tokenizers and processor, whatever their names are. Not what nobody loads, such
// as a README or weights of another format.
std::vector<std::string> model_files(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return {path};
  static const std::set<std::string> read = {".safetensors", ".json", ".model", ".txt", ".jinja"};
  std::vector<std::string> out;
  for (const char* part : {"", "/qformer_tokenizer"})
    for (const auto& name : list_folder(path + part)) {
      const auto file = path + part + "/" + name;
      if (read.count(std::filesystem::path(name).extension().string()) && std::filesystem::is_regular_file(file, error))
        out.push_back(file);
    }
  return out;
}

std::string model_hash(const std::string& path, ContentHashes& hashes) {
  const auto files = model_files(path);
  auto parts = hashes.of(files, "the model");
  for (const auto& file : files) parts.push_back(file.substr(path.size()));
  return hash_of_list(parts);
}

std::string picture_hash(const Stream& stream, DataSplit scored, ContentHashes& hashes) {
  std::vector<std::string> files;
  for (size_t task = 0; task < stream.tasks().size(); ++task)
    for (const auto split : {DataSplit::train, scored, DataSplit::novel})
      for (auto& file : stream.picture_files(task, split)) files.push_back(std::move(file));
  return files.empty() ? "none" : hash_of_list(hashes.of(files, "the pictures"));
}

// Options by their full names, "stream.name".
std::map<std::string, json> flat_options(const json& config) {
  std::map<std::string, json> out;
  for (const auto& [key, value] : config.items()) {
    if (!value.is_object()) {
      out[key] = value;
      continue;
    }
    for (const auto& [name, inner] : flat_options(value)) out[key + "." + name] = inner;
  }
  return out;
}

bool may_change(const std::string& key) {
  return std::find(kMayChange.begin(), kMayChange.end(), key) != kMayChange.end();
}

std::string shown_value(const json& value) {
  return printable(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace

json run_content(const RunOptions& run, const Options& options, const Stream& stream, const std::string& model,
                 ContentHashes& hashes) {
  const auto lexicon = lexicon_files();
  return {{"data", stream.fingerprint()},
          {"pictures", picture_hash(stream, run.scored_split(), hashes)},
          {"model", model_hash(model, hashes)},
          {"parser", reads_parser(options.asr.skill) ? hashes.of(run.parser_path(), "the parser") : "none"},
          {"taxonomy", run.taxonomy.empty() ? "built in" : hashes.of(run.taxonomy, "the taxonomy")},
          {"lexicon", lexicon.empty() ? "built in" : hash_of_list(hashes.of(lexicon, "WordNet"))}};
}

json with_encoders(json content, const RunConfig& config, const std::string& composition, ContentHashes& hashes) {
  std::vector<std::string> parts;
  for (const auto& method : make_methods(composition, config.method_assignments))
    for (const auto& folder : method->encoder_folders()) {
      check_model_path(folder);
      parts.push_back(model_hash(folder, hashes));
    }
  if (!parts.empty()) content["encoders"] = hash_of_list(parts);
  return content;
}

json shared_fingerprint(const RunConfig& config, const json& content, const std::string& version) {
  return {
      {"format", kFingerprintFormat}, {"config", config.shared_manifest()}, {"content", content}, {"version", version}};
}

json run_fingerprint(const RunConfig& config, const RunKey& key, const json& content) {
  auto options = config.manifest();
  for (const char* name : {"output_dir", "data", "seeds", "orders", "method", "label", "save_steps", "save_minutes",
                           "save_total_limit", "logging_steps", "report_to", "full_determinism", "device"})
    options.erase(name);
  const auto parts = method_parts(key.composition);
  const auto analysis = config.options.manifest();  // every run is analysed, whatever its method
  for (const auto& name : methods_with_section(options))
    if (!analysis.contains(name) && std::find(parts.begin(), parts.end(), name) == parts.end()) options.erase(name);
  return {{"format", kFingerprintFormat}, {"method", key.composition}, {"seed", key.seed},
          {"order", key.order},           {"config", options},         {"content", content}};
}

std::string fingerprint_text(json fingerprint) {
  const auto hash = self_hash(fingerprint);
  fingerprint["hash"] = hash;
  return fingerprint.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::optional<json> read_fingerprint(const std::string& path, std::string& problem) {
  if (!path_exists(path)) return std::nullopt;
  json stored;
  JsonProblem ignored;
  if (!try_parse_json(read_file(path), stored, ignored) || !stored.is_object() || !stored.contains("hash") ||
      stored["hash"] != self_hash(stored)) {
    problem = path + ": is damaged";
    return std::nullopt;
  }
  stored.erase("hash");
  if (!stored.contains("format") || stored["format"] != kFingerprintFormat) {
    problem = path + ": was written by another version of asr, which noted other things";
    return std::nullopt;
  }
  return stored;
}

std::vector<std::string> check_same(const json& stored, const json& now, const std::string& folder, bool all_options) {
  for (const char* key : {"method", "seed", "order"})
    if (stored.contains(key) && now.contains(key))
      check(stored[key] == now[key], folder, ": holds a run with ", key, " ", shown_value(stored[key]), ", not ",
            shown_value(now[key]), "; choose another label or output_dir");
  const auto before = flat_options(stored.at("config")), after = flat_options(now.at("config"));
  std::vector<std::string> changed;
  for (const auto& [key, value] : after) {
    const auto place = before.find(key);
    if (place != before.end() && place->second == value) continue;
    if (place == before.end() && !all_options) continue;
    if (place != before.end() && may_change(key)) {
      changed.push_back(key);
      continue;
    }
    fail(folder, ": holds runs with another '", key, "' (", place == before.end() ? "none" : shown_value(place->second),
         ", now ", shown_value(value), "); choose another output_dir");
  }
  static const std::map<std::string, const char*> words = {{"data", "on other data"},
                                                           {"pictures", "on other pictures"},
                                                           {"model", "from another base model"},
                                                           {"parser", "with another skill parser"},
                                                           {"taxonomy", "with another taxonomy"},
                                                           {"lexicon", "with another lexicon (WordNet)"},
                                                           {"encoders", "with another encoder"}};
  for (const auto& [key, what] : words)
    check(stored.at("content").value(key, json()) == now.at("content").value(key, json()), folder, ": holds runs ",
          what, " (the content has changed); put it back or choose another output_dir");
  return changed;
}

std::vector<OptionChange> option_changes(const json& before, const json& after) {
  std::vector<OptionChange> out;
  for (const char* key : kMayChange)
    if (before.at(key) != after.at(key)) out.push_back({key, before.at(key), after.at(key)});
  return out;
}

json with_changes_of(const json& before, json after) {
  for (const char* key : kMayChange)
    if (before.is_object() && before.contains(key) && before[key].is_number()) after[key] = before[key];
  return after;
}

}  // namespace asr
