// What a run is made of, by content: options, data, pictures, base model, skill parser, taxonomy and lexicon. It is
// written down when a run begins (fingerprint.json of the output folder and of each run, and every checkpoint), so that
// nothing is ever joined to a run that does not belong to it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/content_hashes.h"
#include "train/run_options.h"
#include "train/trainer.h"

namespace asr {

// {"data", "pictures", "model", "parser", "taxonomy", "lexicon"}: a hash each. `model` is a file or a folder.
nlohmann::json run_content(const RunOptions& run, const Options& options, const Stream& stream,
                           const std::string& model, ContentHashes& hashes);

// The same with "encoders", where methods of the composition read models beside the base.
nlohmann::json with_encoders(nlohmann::json content, const RunConfig& config, const std::string& composition,
                             ContentHashes& hashes);

// What all runs of an output folder share, and what one of them is.
nlohmann::json shared_fingerprint(const RunConfig& config, const nlohmann::json& content, const std::string& version);
nlohmann::json run_fingerprint(const RunConfig& config, const RunKey& key, const nlohmann::json& content);

std::string fingerprint_text(nlohmann::json fingerprint);  // with a hash of itself
// Nothing where there is no such file. `problem` says where it is damaged, or of an earlier version.
std::optional<nlohmann::json> read_fingerprint(const std::string& path, std::string& problem);

// Fails at the first thing in which `stored` is another than `now`, naming it; returns the options that differ and may
// change when a run goes on from a checkpoint (learning_rate, max_grad_norm). Options that only one of the two has
// count only with `all_options`.
std::vector<std::string> check_same(const nlohmann::json& stored, const nlohmann::json& now, const std::string& folder,
                                    bool all_options = true);

// "key: before -> after" of options that may change.
struct OptionChange {
  std::string key;
  nlohmann::json before, after;
};
// `after` with the values that `before` has for options that may change.
nlohmann::json with_changes_of(const nlohmann::json& before, nlohmann::json after);
std::vector<OptionChange> option_changes(const nlohmann::json& before, const nlohmann::json& after);

}  // namespace asr
