// The list in streams.def and the built-in world as one table.
#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "base/text.h"
#include "streams/prepare/preparation.h"
#include "streams/stream.h"
#include "streams/world/world.h"

namespace asr {

#define STREAM(name, text, summary) void prepare_##name(Preparation& preparation);
#include "streams/streams.def"
#undef STREAM

const std::vector<PreparedStreamInfo>& prepared_stream_infos() {
  static const std::vector<PreparedStreamInfo> list = {
#define STREAM(name, text, summary) {text, summary, prepare_##name},
#include "streams/streams.def"
#undef STREAM
  };
  return list;
}

std::vector<StreamInfo> stream_infos() {
  std::vector<StreamInfo> out;
  for (const auto& s : world::streams()) out.push_back({s.name, s.summary, true});
  for (const auto& s : prepared_stream_infos()) out.push_back({s.name, s.summary, false});
  return out;
}

double questions_a_picture(const Stream& stream, size_t task, DataSplit split) {
  const int64_t rows = stream.size(task, split);
  std::unordered_set<std::string> files;
  int64_t alone = 0;
  for (int64_t i = 0; i < rows; ++i) {
    const auto file = stream.picture_file(task, split, i);
    if (file.path.empty())
      ++alone;
    else
      files.insert(file.path);
  }
  const auto pictures = static_cast<int64_t>(files.size()) + alone;
  return pictures == 0 ? 1 : static_cast<double>(rows) / static_cast<double>(pictures);
}

bool has_pictures(const Stream& stream, size_t task, DataSplit split) {
  for (int64_t i = 0; i < stream.size(task, split); ++i)
    if (stream.text(task, split, i).has_picture) return true;
  return false;
}

bool has_categories(const Stream& stream, size_t task, DataSplit split) {
  for (int64_t i = 0; i < stream.size(task, split); ++i)
    if (!stream.text(task, split, i).category.empty()) return true;
  return false;
}

StreamOptions with_run_seed(StreamOptions options, int64_t run_seed) {
  const auto& built_in = world::streams();
  const bool drawn =
      std::any_of(built_in.begin(), built_in.end(), [&](const auto& s) { return s.name == options.name; });
  if (drawn && options.seed == StreamOptions::kRunSeed) options.seed = run_seed;
  return options;
}

std::unique_ptr<Stream> make_stream(const StreamOptions& options) {
  check(options.train >= 0 && options.val >= 0, "stream.train and stream.val cannot be negative");
  check(options.seed == StreamOptions::kRunSeed || options.seed >= 0, "stream.seed=", options.seed,
        ": use a number from 0, or -1 for the run's own seed");
  const auto base = options.name.substr(0, options.name.find(':'));
  std::vector<std::string> known;
  for (const auto& info : stream_infos()) {
    known.push_back(info.name);
    if (info.built_in && info.name == options.name) return make_world_stream(options);
    if (info.built_in || info.name != base) continue;
    check(options.seed == StreamOptions::kRunSeed, "stream.seed: ", options.name,
          " is read from files, which no seed redraws; leave it out");
    return make_manifest_stream(options);
  }
  fail("stream.name: '", printable(options.name), "' is unknown", did_you_mean(base, known));
}

}  // namespace asr
