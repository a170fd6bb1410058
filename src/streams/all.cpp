// The list in streams.def and the built-in world as one table.
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

std::unique_ptr<Stream> make_stream(const StreamOptions& options) {
  check(options.train >= 0 && options.val >= 0, "stream.train and stream.val cannot be negative");
  const auto base = options.name.substr(0, options.name.find(':'));
  std::vector<std::string> known;
  for (const auto& info : stream_infos()) {
    known.push_back(info.name);
    if (info.built_in && info.name == options.name) return make_world_stream(options);
    if (!info.built_in && info.name == base) return make_manifest_stream(options);
  }
  fail("stream.name: '", printable(options.name), "' is unknown", did_you_mean(base, known));
}

}  // namespace asr
