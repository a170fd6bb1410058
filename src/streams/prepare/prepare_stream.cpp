// asr prepare as a whole: which stream, whether its options are meant for it, and whether it is there already.
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "streams/prepare/preparation.h"
#include "streams/prepare/stored.h"

namespace asr {
namespace {

using nlohmann::json;

// An option that the stream would not read is a mistake.
void check_meant(const PrepareOptions& options) {
  const PrepareOptions standard;
  const auto only = [&](bool set, const char* option, const char* stream) {
    check(!set || options.stream == stream, option, " belongs to ", stream, "; ", options.stream, " does not read it");
  };
  only(!options.held_out.empty(), "--held-out", "vqacl");
  only(options.imbalance != standard.imbalance, "--imbalance", "clt-vqa");
  only(options.min_count != standard.min_count, "--min-count", "clt-vqa");
  only(options.tune_images != standard.tune_images, "--tune-images", "vqav2-10");
  only(!options.task_field.empty(), "--task-field", "manifest");
}

// What stream.json names must still lie there.
void check_files(const json& index, const std::string& folder) {
  for (const auto& task : index["tasks"])
    for (const auto& file : task["files"]) {
      const auto path = folder + "/" + file["path"].get<std::string>();
      std::error_code error;
      const auto bytes = std::filesystem::file_size(path, error);
      check(!error && static_cast<int64_t>(bytes) == file["bytes"].get<int64_t>(), path,
            error ? ": is missing" : ": has changed since", ", though ", folder,
            "/stream.json says it is complete; remove that folder, then prepare again");
    }
}

}  // namespace

json prepare_stream(const PrepareOptions& asked) {
  const PreparedStreamInfo* info = nullptr;
  std::vector<std::string> names;
  for (const auto& candidate : prepared_stream_infos()) {
    names.push_back(candidate.name);
    if (candidate.name == asked.stream) info = &candidate;
  }
  check(info != nullptr, "stream '", printable(asked.stream), "' cannot be prepared",
        did_you_mean(asked.stream, names));
  check_meant(asked);
  check(!asked.output.empty(), "-o is missing; say where the prepared stream is to be written");
  Preparation preparation(asked);
  auto stored = load_stored(asked.output + kPreparedIndex);
  if (stored.is_object() && stored.contains("options") && stored.contains("sources")) {
    check_prepared_index(stored, asked.output + kPreparedIndex);
    bool same = stored["options"] == preparation.options().to_json();
    for (const auto& source : stored["sources"]) same = same && unchanged(source);
    check(same, asked.output,
          ": holds a stream prepared from other files or with other options; choose another folder");
    check_files(stored, asked.output);
    std::error_code ignored;
    std::filesystem::remove(asked.output + kPreparedState,
                            ignored);  // the process may have been killed just before it did
    stored["already_complete"] = true;
    return stored;
  }
  check(stored.is_null(), asked.output, ": holds a stream.json of another kind; choose another folder");
  info->prepare(preparation);
  return preparation.finish();
}

}  // namespace asr
