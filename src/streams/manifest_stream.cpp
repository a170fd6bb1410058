// A prepared stream, or a user's folder, behind the interface of every stream. Files stay on disk: in memory are 8
// bytes a row; a row is parsed and its picture decoded when it is asked for.
#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_set>

#include "base/error.h"
#include "base/random.h"
#include "base/sha256.h"
#include "base/text.h"
#include "io/json_records.h"
#include "io/mapped_file.h"
#include "streams/manifest.h"
#include "streams/picture.h"
#include "streams/sample_row.h"

namespace asr {
namespace {

using nlohmann::json;

constexpr uint64_t kShuffleKey = 0x5eed;  // which samples a limit picks; fixed, so that runs agree
constexpr int64_t kNoPicture = 64;        // pixels a side of the black picture of a sample without one

struct Rows {
  std::shared_ptr<MappedFile> file;
  std::string path;
  std::vector<uint64_t> starts;  // first byte of a row
};

std::string line_at(const Rows& rows, uint64_t start) {
  const auto bytes = rows.file->bytes();
  const auto* begin = reinterpret_cast<const char*>(bytes.data) + start;
  const void* found = std::memchr(begin, '\n', bytes.size - start);
  return {begin, found ? static_cast<const char*>(found) : begin + (bytes.size - start)};
}

size_t line_number(const Rows& rows, uint64_t start) {
  const auto* begin = reinterpret_cast<const char*>(rows.file->bytes().data);
  return 1 + static_cast<size_t>(std::count(begin, begin + start, '\n'));
}

SampleRow parse_row(const std::string& line, const std::string& place) {
  SampleRow row;
  json value;
  try {
    value = json::parse(line);
  } catch (const json::exception&) {
    fail(place, ": not valid JSON; 'asr prepare manifest' says where, and --skip-bad passes over it");
  }
  const auto reason = read_row(value, row);
  check(reason.empty(), place, ": ", reason);
  return row;
}

// Every row of a user's file is looked at before anything is trained.
void check_row(const SampleRow& row, const Manifest& manifest, std::unordered_set<std::string>& ids,
               const std::string& place) {
  const auto named = row.id.empty() ? place : cat(place, ": id '", printable(row.id), "'");
  auto problem = row_problem(row);
  check(problem.empty(), named, ": ", problem);
  check(ids.insert(row.id).second, named, ": the id stands twice");
  if (!row.image.empty()) problem = picture_problem(image_path(manifest.images, row.image));
  check(problem.empty(), named, ": ", problem);
}

Rows open_rows(const ManifestFile& source, const Manifest& manifest, Sha256& fingerprint) {
  Rows out;
  out.path = source.path, out.file = MappedFile::open(source.path);
  const auto bytes = out.file->bytes();
  Sha256 hash;
  hash.update(bytes.data, bytes.size);
  const auto hex = hash.hex();
  fingerprint.update(hex);
  if (!source.sha256.empty())
    check(hex == source.sha256, source.path, ": has changed since it was prepared; prepare the stream again");
  const bool trusted = !source.sha256.empty();
  const auto* begin = reinterpret_cast<const char*>(bytes.data);
  const size_t mark = bytes.size - skip_mark(bytes).size;
  std::unordered_set<std::string> ids;
  size_t number = 0;
  for (size_t at = mark; at < bytes.size;) {
    const void* found = std::memchr(begin + at, '\n', bytes.size - at);
    const size_t end = found ? static_cast<size_t>(static_cast<const char*>(found) - begin) : bytes.size;
    ++number;
    const auto line = trusted ? std::string() : trimmed(std::string(begin + at, begin + end));
    if (trusted) {
      out.starts.push_back(at);
    } else if (!line.empty()) {
      const auto place = cat(source.path, ":", number);
      const auto row = parse_row(line, place);
      check_row(row, manifest, ids, place);
      if (share_holds(source.share, row.image, row.id)) out.starts.push_back(at);
    }
    at = end + 1;
  }
  check(source.rows < 0 || source.rows == static_cast<int64_t>(out.starts.size()), source.path, ": holds ",
        out.starts.size(), " rows, but stream.json says ", source.rows);
  return out;
}

void limit(std::vector<uint64_t>& starts, int64_t count, uint64_t task, DataSplit split) {
  if (count == 0 || count >= static_cast<int64_t>(starts.size())) return;
  Random({kShuffleKey, task, static_cast<uint64_t>(split)}).shuffle(starts);
  starts.resize(static_cast<size_t>(count)), starts.shrink_to_fit();
}

class ManifestStream final : public Stream {
 public:
  explicit ManifestStream(const StreamOptions& options) : manifest_(read_manifest(options.path)) {
    check_name(options);
    check(options.tasks <= static_cast<int64_t>(manifest_.tasks.size()), "stream.tasks=", options.tasks, " but ",
          options.path, " has ", manifest_.tasks.size());
    Sha256 hash;
    for (const auto& task : manifest_.tasks) {
      const size_t number = tasks_.size();
      if (options.tasks > 0 && static_cast<int64_t>(number) == options.tasks) break;
      rows_.emplace_back();
      for (const auto& [split, file] : task.files) {
        auto rows = open_rows(file, manifest_, hash);
        limit(rows.starts, split == DataSplit::train ? options.train : options.val, number, split);
        rows_.back()[static_cast<size_t>(split)] = std::move(rows);
      }
      for (const auto split : {DataSplit::train, DataSplit::val})
        check(size(number, split) > 0, options.path, ": task '", printable(task.name), "' has no rows for ",
              split_name(split));
      tasks_.push_back({task.name, task.metric, size(number, DataSplit::novel) > 0, task.answer_tokens});
    }
    name_ = manifest_.stream + (manifest_.variant.empty() ? "" : ":" + manifest_.variant);
    fingerprint_ =
        cat(name_, ":", hash.hex(), ":", options.train, ":", options.val, ":", options.tasks, ":", manifest_.frames);
    for (size_t task = 0; options.groups == GroupOrder::nested && task < tasks_.size(); ++task) {
      phases_.push_back(group_rows(task));
      for (const auto& phase : phases_.back()) fingerprint_ += cat(":", phase.name);
    }
  }

  const std::string& name() const override { return name_; }
  const std::vector<StreamTask>& tasks() const override { return tasks_; }
  int64_t size(size_t task, DataSplit split) const override {
    return static_cast<int64_t>(rows_.at(task)[static_cast<size_t>(split)].starts.size());
  }
  StreamSample sample(size_t task, DataSplit split, int64_t index) const override {
    return read(task, split, index, /*with_picture=*/true);
  }
  StreamSample text(size_t task, DataSplit split, int64_t index) const override {
    return read(task, split, index, /*with_picture=*/false);
  }
  std::vector<TrainingPhase> phases(size_t task) const override {
    return phases_.empty() ? std::vector<TrainingPhase>() : phases_.at(task);
  }
  std::string fingerprint() const override { return fingerprint_; }

 private:
  // A group that a limit or a held-out composition left without rows is passed over.
  std::vector<TrainingPhase> group_rows(size_t task) const {
    std::vector<TrainingPhase> out;
    for (const auto& name : manifest_.tasks[task].groups) out.push_back({name, {}});
    if (out.empty()) return out;
    const auto& rows = rows_[task][static_cast<size_t>(DataSplit::train)];
    for (size_t i = 0; i < rows.starts.size(); ++i) {
      const auto row = row_at(rows, rows.starts[i]);
      const auto found =
          std::find_if(out.begin(), out.end(), [&](const auto& phase) { return phase.name == row.concept_group; });
      check(found != out.end(), rows.path, ":", line_number(rows, rows.starts[i]), ": id '", printable(row.id), "' ",
            row.concept_group.empty() ? "has no group" : cat("has group '", printable(row.concept_group), "'"),
            ", but task '", printable(manifest_.tasks[task].name),
            "' trains by groups; correct 'groups' in stream.json or set stream.groups=mixed");
      found->rows.push_back(static_cast<int64_t>(i));
    }
    out.erase(std::remove_if(out.begin(), out.end(), [](const auto& phase) { return phase.rows.empty(); }), out.end());
    return out;
  }
  static SampleRow row_at(const Rows& rows, uint64_t start) {
    SampleRow row;
    const auto value = json::parse(line_at(rows, start), nullptr, false);
    const auto reason = value.is_discarded() ? "is not valid JSON" : read_row(value, row);
    check(reason.empty(), rows.path, ":", line_number(rows, start), ": ", reason);
    return row;
  }
  StreamSample read(size_t task, DataSplit split, int64_t index, bool with_picture) const {
    const auto& rows = rows_.at(task)[static_cast<size_t>(split)];
    auto row = row_at(rows, rows.starts.at(static_cast<size_t>(index)));
    StreamSample out;
    if (with_picture) picture(row, cat(rows.path, ": id '", row.id, "'"), out);
    out.id = std::move(row.id), out.question = std::move(row.question), out.answer = std::move(row.answer);
    out.references = std::move(row.references);
    if (out.references.empty()) out.references.push_back(out.answer);
    out.skill = std::move(row.skill), out.type = std::move(row.type), out.part = std::move(row.part);
    return out;
  }
  // A benchmark asked for by name must be the one that lies there.
  void check_name(const StreamOptions& options) const {
    if (options.name == "manifest") return;
    const auto colon = options.name.find(':');
    const auto base = options.name.substr(0, colon);
    check(manifest_.prepared && manifest_.stream == base, options.path, ": is no prepared ", base,
          manifest_.prepared ? cat(" but ", printable(manifest_.stream)) : std::string(), "; use 'asr prepare ", base,
          " --source DIR -o DIR' first");
    if (colon == std::string::npos) return;
    check(manifest_.variant == options.name.substr(colon + 1), options.path, ": holds ", manifest_.stream, ":",
          manifest_.variant, ", not ", options.name);
  }
  void picture(const SampleRow& row, const std::string& place, StreamSample& out) const {
    if (row.image.empty()) {  // a question about a text alone
      out.height = out.width = kNoPicture;
      out.pixels.assign(static_cast<size_t>(kNoPicture * kNoPicture * 3), 0);
      return;
    }
    const auto path = image_path(manifest_.images, row.image);
    const auto problem = picture_problem(path);
    check(problem.empty(), place, ": ", problem);
    auto image = read_picture(path, manifest_.frames);
    out.height = image.height, out.width = image.width, out.pixels = std::move(image.rgb);
  }

  Manifest manifest_;
  std::string name_, fingerprint_;
  std::vector<StreamTask> tasks_;
  std::vector<std::array<Rows, kSplitCount>> rows_;  // by task and split
  std::vector<std::vector<TrainingPhase>> phases_;   // by task; none where groups are mixed
};

}  // namespace

std::unique_ptr<Stream> make_manifest_stream(const StreamOptions& options) {
  check(!options.path.empty(), "stream.path is not set; ", options.name,
        " reads a folder that 'asr prepare' wrote, or your own (docs/streams.md)");
  return std::make_unique<ManifestStream>(options);
}

}  // namespace asr
