// A prepared stream, or a user's folder, behind the interface of every stream. Files stay on disk: a row is parsed and
// its picture decoded when it is asked for.
#include <algorithm>
#include <array>
#include <unordered_set>

#include "base/error.h"
#include "base/folders.h"
#include "base/random.h"
#include "base/sha256.h"
#include "base/text.h"
#include "streams/manifest.h"
#include "streams/picture.h"
#include "streams/row_file.h"

namespace asr {
namespace {

constexpr uint64_t kShuffleKey = 0x5eed;  // which samples a limit picks; fixed, so that runs agree
constexpr int64_t kNoPicture = 64;        // pixels a side of the black picture of a sample without one

struct Rows {
  RowFile file;
  std::vector<RowSpot> spots;
};

// Every row of a user's file is looked at before anything is trained.
class RowCheck {
 public:
  RowCheck(const Manifest& manifest, const ManifestTask& task, const RowFile& file)
      : manifest_(manifest), task_(task), file_(file) {}

  void operator()(const SampleRow& row, size_t line) {
    const auto refuse = [&](const std::string& problem) {
      if (!problem.empty()) fail(file_.path(), ":", line, ": id '", printable(row.id), "': ", problem);
    };
    refuse(row_problem(row, task_.text_only));
    if (!ids_.insert(row.id).second) refuse("the id stands twice");
    if (!row.image.empty() && pictures_.insert(row.image).second)
      refuse(picture_problem(image_path(manifest_.images, row.image), manifest_.frames));
  }

 private:
  const Manifest& manifest_;
  const ManifestTask& task_;
  const RowFile& file_;
  std::unordered_set<std::string> ids_, pictures_;
};

void check_hash(const ManifestFile& source, const RowFile& file, Sha256& fingerprint) {
  Sha256 hash;
  hash.update(file.bytes().data, file.bytes().size);
  const auto hex = hash.hex();
  fingerprint.update(hex);
  if (!source.sha256.empty())
    check(hex == source.sha256, source.path, ": has changed since it was prepared; prepare the stream again");
}

// In a line that 'asr prepare' wrote, a picture is a member of its own; inside a text the quotes would be escaped.
bool names_picture(const std::string& line) {
  return line.find(",\"image\":\"") != std::string::npos;
}

Rows open_rows(const ManifestFile& source, const ManifestTask& task, const Manifest& manifest, Sha256& fingerprint) {
  Rows out;
  out.file = RowFile(source.path);
  check_hash(source, out.file, fingerprint);
  RowCheck check_row(manifest, task, out.file);
  out.file.scan([&](RowSpot spot, size_t line) {
    if (!source.sha256.empty()) {  // its rows were checked when it was prepared, but perhaps by looser rules
      check(task.text_only || names_picture(out.file.record_text(spot)), source.path, ":", line,
            ": names no picture, and stream.json declares no rows of text alone; prepare the stream again, or set ",
            "\"text_only\": true there if they are meant");
      out.spots.push_back(spot);
      return;
    }
    const auto rows = out.file.rows_at(spot);
    const bool ours = source.rule.holds(source.share, share_key(rows[0].image, rows[0].id));
    for (; spot.exchange < rows.size(); ++spot.exchange) {
      check_row(rows[spot.exchange], line);
      if (ours) out.spots.push_back(spot);
    }
  });
  check(source.rows < 0 || source.rows == static_cast<int64_t>(out.spots.size()), source.path, ": holds ",
        out.spots.size(), " rows, but stream.json says ", source.rows);
  return out;
}

void limit(std::vector<RowSpot>& spots, int64_t count, uint64_t task, DataSplit split) {
  if (count == 0 || count >= static_cast<int64_t>(spots.size())) return;
  Random({kShuffleKey, task, static_cast<uint64_t>(split)}).shuffle(spots);
  spots.resize(static_cast<size_t>(count));
  spots.shrink_to_fit();
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
        auto rows = open_rows(file, task, manifest_, hash);
        limit(rows.spots, split == DataSplit::train ? options.train : options.val, number, split);
        rows_.back()[static_cast<size_t>(split)] = std::move(rows);
      }
      for (const auto split : {DataSplit::train, DataSplit::val})
        check(size(number, split) > 0, options.path, ": task '", printable(task.name), "' has no rows for ",
              split_name(split));
      tasks_.push_back(
          {task.name, task.metric, size(number, DataSplit::novel) > 0, task.answer_tokens, manifest_.prompt});
      for (const auto& text : {task.name, task.metric, std::to_string(task.answer_tokens)}) {
        hash.update_int(text.size());
        hash.update(text);
      }
    }
    name_ = manifest_.stream + (manifest_.variant.empty() ? "" : ":" + manifest_.variant);
    fingerprint_ =
        cat(name_, ":", hash.hex(), ":", options.train, ":", options.val, ":", options.tasks, ":", manifest_.frames);
    if (manifest_.prompt != PromptStyle::recipe) fingerprint_ += cat(":", enum_name(manifest_.prompt));
    for (size_t task = 0; options.groups == GroupOrder::nested && task < tasks_.size(); ++task) {
      phases_.push_back(group_rows(task));
      for (const auto& phase : phases_.back()) fingerprint_ += cat(":", phase.name);
    }
  }

  const std::string& name() const override { return name_; }
  const std::vector<StreamTask>& tasks() const override { return tasks_; }
  int64_t size(size_t task, DataSplit split) const override {
    return static_cast<int64_t>(rows_.at(task)[static_cast<size_t>(split)].spots.size());
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
  PictureFile picture_file(size_t task, DataSplit split, int64_t index) const override {
    const auto& rows = rows_.at(task)[static_cast<size_t>(split)];
    const auto row = rows.file.row(rows.spots.at(static_cast<size_t>(index)));
    if (row.image.empty()) return {};
    return {image_path(manifest_.images, row.image), manifest_.frames};
  }
  std::vector<std::string> picture_files(size_t task, DataSplit split) const override {
    std::vector<std::string> out;
    std::unordered_set<std::string> seen;
    const auto& rows = rows_.at(task)[static_cast<size_t>(split)];
    for (const auto spot : rows.spots) {
      const auto row = rows.file.row(spot);
      if (row.image.empty() || !seen.insert(row.image).second) continue;
      for (auto& file : asr::picture_files(image_path(manifest_.images, row.image), manifest_.frames))
        out.push_back(std::move(file));
    }
    return out;
  }

 private:
  // A group that a limit or a held-out composition left without rows is passed over.
  std::vector<TrainingPhase> group_rows(size_t task) const {
    std::vector<TrainingPhase> out;
    for (const auto& name : manifest_.tasks[task].groups) out.push_back({name, {}});
    if (out.empty()) return out;
    const auto& rows = rows_[task][static_cast<size_t>(DataSplit::train)];
    for (size_t i = 0; i < rows.spots.size(); ++i) {
      const auto row = rows.file.row(rows.spots[i]);
      const auto found =
          std::find_if(out.begin(), out.end(), [&](const auto& phase) { return phase.name == row.concept_group; });
      if (found == out.end())  // no check(): counting lines for every row would be slow
        fail(rows.file.path(), ":", rows.file.line_of(rows.spots[i]), ": id '", printable(row.id), "' ",
             row.concept_group.empty() ? "has no group" : cat("has group '", printable(row.concept_group), "'"),
             ", but task '", printable(manifest_.tasks[task].name),
             "' trains by groups; correct 'groups' in stream.json or set stream.groups=mixed");
      found->rows.push_back(static_cast<int64_t>(i));
    }
    out.erase(std::remove_if(out.begin(), out.end(), [](const auto& phase) { return phase.rows.empty(); }), out.end());
    return out;
  }
  StreamSample read(size_t task, DataSplit split, int64_t index, bool with_picture) const {
    const auto& rows = rows_.at(task)[static_cast<size_t>(split)];
    auto row = rows.file.row(rows.spots.at(static_cast<size_t>(index)));
    StreamSample out;
    if (with_picture) picture(row, cat(rows.file.path(), ": id '", printable(row.id), "'"), out);
    out.has_picture = !row.image.empty();
    out.id = std::move(row.id);
    out.question = std::move(row.question);
    out.answer = std::move(row.answer);
    out.references = std::move(row.references);
    if (out.references.empty()) out.references.push_back(out.answer);
    out.skill = std::move(row.skill);
    out.type = std::move(row.type);
    out.part = std::move(row.part);
    out.category = std::move(row.category);
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
    check(manifest_.variant == options.name.substr(colon + 1), options.path, ": holds ", printable(manifest_.stream),
          ":", printable(manifest_.variant), ", not ", options.name);
  }
  void picture(const SampleRow& row, const std::string& place, StreamSample& out) const {
    if (row.image.empty()) {  // a question about a text alone
      out.height = out.width = kNoPicture;
      out.pixels.assign(static_cast<size_t>(kNoPicture * kNoPicture * 3), 0);
      return;
    }
    const auto path = image_path(manifest_.images, row.image);
    const auto problem = missing_picture(path);
    check(problem.empty(), place, ": ", problem);
    auto image = read_picture(path, manifest_.frames);
    out.height = image.height;
    out.width = image.width;
    out.pixels = std::move(image.rgb);
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
  const bool own = options.name == "manifest";
  check(own || path_exists(options.path), options.path, ": is not there; write it first: asr prepare ",
        printable(options.name), " --source DIR --images DIR -o ", options.path,
        " (DIR: the benchmark's files and pictures; docs/streams.md)");
  return std::make_unique<ManifestStream>(options);
}

}  // namespace asr
