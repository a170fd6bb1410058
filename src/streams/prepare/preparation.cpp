#include "streams/prepare/preparation.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/folders.h"
#include "base/progress.h"
#include "base/text.h"
#include "io/task_names.h"
#include "streams/manifest.h"
#include "streams/picture.h"
#include "streams/prepare/stored.h"

namespace asr {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr size_t kBuffer = 1 << 16;
constexpr int64_t kShownFrom = int64_t(16) << 20;  // bytes of a source from which reading shows its progress

void make_folder(const std::string& path) {
  std::error_code error;
  check(!path_exists(path) || fs::is_directory(path, error), path, ": is a file; -o names a folder");
  make_folders(path);
}

}  // namespace

json PrepareOptions::to_json() const {
  json out = {{"stream", stream},
              {"variant", variant},
              {"source", source},
              {"images", images},
              {"native", native},
              {"skip_bad", skip_bad},
              {"check_images", check_images},
              {"number_rows", number_rows},
              {"seed", seed},
              {"tune_images", tune_images},
              {"held_out", held_out},
              {"imbalance", imbalance},
              {"min_count", min_count}};
  // Only where they are set, so that a folder of before they existed stays complete.
  if (text_only) out["text_only"] = true;
  if (trust_pictures) out["trust_pictures"] = true;
  if (!task_field.empty()) out["task_field"] = task_field;
  return out;
}

struct Preparation::OutputFile {
  OutputFile(const std::string& root, const std::string& file) : name(file), out(root + "/" + file) {}
  void add(const std::string& line) {
    buffer += line;
    buffer += '\n';
    ++rows;
    if (buffer.size() >= kBuffer) flush();
  }
  void flush() {
    hash.update(buffer);
    out.write(buffer);
    bytes += static_cast<int64_t>(buffer.size());
    buffer.clear();
  }
  std::string name, buffer;
  AtomicFile out;
  Sha256 hash;
  int64_t rows = 0, bytes = 0;
  std::unordered_set<std::string> ids;
};

Preparation::Preparation(const PrepareOptions& options) : options_(options) {
  std::error_code error;
  const bool file = options.stream == "manifest" && fs::is_regular_file(options.source, error);
  check(file || fs::is_directory(options.source, error), options.source, ": is no folder; --source names the ",
        options.stream == "manifest" ? "folder or file of rows" : "official files");
  options_.source = fs::canonical(options.source, error).string();
  folder_ = file ? fs::path(options_.source).parent_path().string() : options_.source;
  images_given_ = !options_.images.empty();
  if (!images_given_) options_.images = folder_;
  check(fs::is_directory(options_.images, error), options_.images, ": is no folder; --images names the pictures");
  options_.images = images_ = fs::canonical(options_.images, error).string();
}

Preparation::~Preparation() = default;

void Preparation::default_images(const std::string& folder) {
  if (images_given_) return;
  std::error_code error;
  check(std::filesystem::is_directory(folder, error), folder, ": is no folder; 'images' in stream.json names it");
  images_ = fs::canonical(folder, error).string();
}

const std::string& Preparation::choose_variant(const std::vector<std::string>& known) {
  variant_ = options_.variant.empty() ? known.at(0) : options_.variant;
  check(std::find(known.begin(), known.end(), variant_) != known.end(), options_.stream, " has no variant '",
        printable(variant_), "'", did_you_mean(variant_, known));
  return variant_;
}

void Preparation::add_task(const PreparedTask& task) {
  tasks_.push_back(task);
  std::vector<std::string> names;
  for (const auto& known : tasks_) names.push_back(known.name);
  check_names(names, options_.source);
}

std::string Preparation::find(const std::vector<std::string>& names) const {
  std::error_code error;
  for (const auto& name : names)
    for (const char* end : {"", ".gz"}) {
      const auto path = options_.source + "/" + name + end;
      if (fs::is_regular_file(path, error)) return path;
    }
  return "";
}

std::string Preparation::need(const std::vector<std::string>& names, const std::string& what) const {
  auto path = find(names);
  check(!path.empty(), options_.source, ": holds no ", what, "; expected ", join(names, " or "), ", plain or .gz");
  return path;
}

// Goes on with a preparation of the same options; anything else that lies there is not ours to overwrite.
void Preparation::open_folder() {
  opened_ = true;
  const auto& folder = options_.output;
  make_folder(folder);
  state_ = load_stored(folder + kPreparedState);
  const bool ours = state_.is_object() && state_.contains("options");
  check(ours || is_unused_folder(folder), folder, ": is not empty and no preparation of ours; choose another folder");
  remove_temporaries(folder);  // left by a preparation that was killed
  if (ours && state_["options"] == options_.to_json())
    return check_progress(state_, folder + kPreparedState, tasks_.size());
  state_ = {{"options", options_.to_json()}, {"units", json::object()}};
  write_file_atomically(folder + kPreparedState, state_.dump(1) + "\n");
}

bool Preparation::unit_is_done(const std::string& name) const {
  const auto& units = state_["units"];
  if (!units.contains(name)) return false;
  for (const auto& source : units[name]["sources"])
    if (!unchanged(source)) return false;
  for (const auto& file : units[name]["files"]) {
    std::error_code error;
    const auto path = options_.output + "/" + file["path"].get<std::string>();
    if (static_cast<int64_t>(fs::file_size(path, error)) != file["bytes"].get<int64_t>() || error) return false;
  }
  return true;
}

void Preparation::unit(const std::string& name, const std::function<void()>& body) {
  if (!opened_) open_folder();
  if (unit_is_done(name)) return;
  current_ = {{"sources", json::array()},  {"files", json::object()}, {"skipped", json::object()},
              {"dropped", json::object()}, {"notes", json::array()},  {"details", json::object()},
              {"groups", json::object()}};
  files_.clear();
  skipped_.reset();
  body();
  close_unit(name);
}

void Preparation::close_unit(const std::string& name) {
  for (auto& [key, file] : files_) {
    file->flush();
    file->out.commit();
    current_["files"][cat(key.first, "/", split_name(key.second))] = {
        {"path", file->name}, {"rows", file->rows}, {"bytes", file->bytes}, {"sha256", file->hash.hex()}};
  }
  if (skipped_) skipped_->commit();
  files_.clear();
  skipped_.reset();
  state_["units"][name] = std::move(current_);
  write_file_atomically(options_.output + kPreparedState, state_.dump(1) + "\n");
}

void Preparation::read(const std::string& path, const RecordUse& use) {
  const auto source = source_of(path);
  auto& sources = current_["sources"];
  if (std::find(sources.begin(), sources.end(), source) == sources.end()) sources.push_back(source);
  const auto bytes = source["bytes"].get<int64_t>();
  std::unique_ptr<Progress> progress;
  int64_t shown = 0;
  if (bytes >= kShownFrom)
    progress = std::make_unique<Progress>("read " + fs::path(path).filename().string() + ", MB", bytes >> 20);
  read_records(
      path,
      [&](const FileRecord& record) {
        use(record, {path, record.line, record.column});
      },
      [&](size_t line, size_t column, const std::string& reason) {
        bad({path, line, column}, "", reason);
      },
      [&](int64_t consumed) {
        if (progress) {
          progress->advance((consumed >> 20) - shown);
          shown = consumed >> 20;
        }
      });
  if (progress) progress->finish();
}

void Preparation::look(const std::function<void()>& body) {
  looking_ = true;
  body();
  looking_ = false;
}

std::string Preparation::name_of(size_t task, DataSplit split) const {
  return fmt::format("{:02d}-{}/{}.jsonl", task + 1, folder_part(tasks_.at(task).name), split_name(split));
}

Preparation::OutputFile& Preparation::output(size_t task, DataSplit split) {
  auto& file = files_[{task, split}];
  if (!file) {
    const auto name = name_of(task, split);
    make_folder(fs::path(options_.output + "/" + name).parent_path().string());
    file = std::make_unique<OutputFile>(options_.output, name);
  }
  return *file;
}

void Preparation::add(size_t task, DataSplit split, SampleRow row, const RowPlace& place) {
  auto& file = output(task, split);
  if (options_.number_rows) row.id = fmt::format("{}-{}-{:07d}", tasks_[task].name, split_name(split), file.rows + 1);
  const auto lack = row_problem(row, options_.text_only || tasks_[task].text_only);
  if (!lack.empty()) return bad(place, row.id, lack);
  if (!row.image.empty() && options_.check_images && !seen_images_.count(row.image)) {
    const auto path = image_path(images_, row.image);
    const auto problem = options_.trust_pictures ? missing_picture(path) : picture_problem(path, frames);
    if (!problem.empty())
      return bad(place, row.id,
                 options_.skip_bad ? problem : problem + "; --images names their folder, --no-images does not look");
    seen_images_.insert(row.image);
  }
  if (!file.ids.insert(row.id).second) return bad(place, row.id, "the id stands twice");
  if (row.references.size() == 1 && row.references[0] == row.answer) row.references.clear();
  file.add(row_line(row));
}

void Preparation::bad(const RowPlace& place, const std::string& id, const std::string& reason) {
  const auto where = cat(place.path, ":", place.line, ":", place.column, id.empty() ? "" : ": id '", printable(id),
                         id.empty() ? "" : "'");
  check(options_.skip_bad, where, ": ", reason, "; --skip-bad passes over such rows and lists them");
  if (looking_) return;
  // "there is no image 'X'" counts as one kind, whatever X is; a member's name in front belongs to it.
  const size_t named = reason[0] == '\'' ? reason.find('\'', 1) + 1 : 0;
  const auto kind = reason.substr(0, reason.find_first_of("'0123456789;", named));
  auto& count = current_["skipped"][trimmed(kind)];
  count = count.is_null() ? 1 : count.get<int64_t>() + 1;
  if (!skipped_) {
    make_folder(options_.output + "/skipped");
    const auto name = fmt::format("/skipped/{:02d}.jsonl", state_["units"].size() + 1);
    skipped_ = std::make_unique<AtomicFile>(options_.output + name);
  }
  const json line = {
      {"file", place.path}, {"line", place.line}, {"column", place.column}, {"id", id}, {"reason", reason}};
  skipped_->write(line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
}

void Preparation::drop(const std::string& reason) {
  if (looking_) return;
  auto& count = current_["dropped"][reason];
  count = count.is_null() ? 1 : count.get<int64_t>() + 1;
}

void Preparation::note(const std::string& text) {
  auto& notes = current_["notes"];
  if (std::find(notes.begin(), notes.end(), json(text)) == notes.end()) notes.push_back(text);
}

void Preparation::detail(const std::string& key, json value) {
  current_["details"][key] = std::move(value);
}

void Preparation::nest(size_t task, const std::vector<std::string>& groups) {
  current_["groups"][std::to_string(task)] = groups;
}

json Preparation::index() const {
  json out = {{"format", kManifestFormat},     {"stream", options_.stream}, {"images", images_},
              {"options", options_.to_json()}, {"sources", json::array()},  {"skipped", json::object()},
              {"dropped", json::object()},     {"notes", json::array()},    {"details", json::object()}};
  if (!variant_.empty()) out["variant"] = variant_;
  std::vector<json> files(tasks_.size(), json::object()), groups(tasks_.size());
  for (const auto& unit : state_["units"]) {
    for (const auto& source : unit["sources"])
      if (std::find(out["sources"].begin(), out["sources"].end(), source) == out["sources"].end())
        out["sources"].push_back(source);
    for (const char* key : {"skipped", "dropped"})
      for (const auto& [reason, count] : unit[key].items())
        out[key][reason] = out[key].value(reason, int64_t(0)) + count.get<int64_t>();
    for (const auto& note : unit["notes"])
      if (std::find(out["notes"].begin(), out["notes"].end(), note) == out["notes"].end()) out["notes"].push_back(note);
    for (const auto& [key, value] : unit["details"].items()) out["details"][key] = value;
    for (const auto& [key, order] : unit["groups"].items()) groups[std::stoul(key)] = order;
    for (const auto& [key, file] : unit["files"].items()) {
      const auto slash = key.find('/');
      if (file["rows"].get<int64_t>() > 0) files[std::stoul(key.substr(0, slash))][key.substr(slash + 1)] = file;
    }
  }
  const auto counts = [](const Published& p) { return json{{"train", p.train}, {"val", p.val}, {"tune", p.tune}}; };
  if (prompt != PromptStyle::recipe) out["prompt"] = enum_name(prompt);
  out["frames"] = frames;
  out["published"] = counts(published_total);
  out["tasks"] = json::array();
  for (size_t i = 0; i < tasks_.size(); ++i) {
    out["tasks"].push_back({{"name", tasks_[i].name},
                            {"metric", tasks_[i].metric},
                            {"answer_tokens", tasks_[i].answer_tokens},
                            {"files", files[i]},
                            {"published", counts(tasks_[i].published)}});
    if (options_.text_only || tasks_[i].text_only) out["tasks"].back()["text_only"] = true;
    if (groups[i].is_array()) out["tasks"].back()["groups"] = groups[i];
  }
  return out;
}

// What left a split without rows, and what helps.
std::string Preparation::why_empty(const json& index, const std::string& split) const {
  int64_t skipped = 0;
  for (const auto& count : index["skipped"]) skipped += count.get<int64_t>();
  if (skipped > 0) return cat(skipped, " bad rows were skipped; ", options_.output, "/skipped lists them");
  if (options_.stream != "manifest") return "its source files hold none";
  if (split == "train") return "its file for training holds none";
  return "without a file for val some of its pictures are for it, and here is only one; add NAME.val.json or pictures";
}

json Preparation::finish() {
  auto out = index();
  for (const auto& task : out["tasks"])
    for (const char* split : {"train", "val"})
      check(task["files"].contains(split), options_.source, ": gives no rows for task ",
            printable(task["name"].get<std::string>()), ", split ", split, "; ", why_empty(out, split));
  check(!options_.strict || counts_agree(out), options_.source,
        ": counts differ from the published ones (--strict); run without it to see the table");
  write_file_atomically(options_.output + kPreparedIndex, out.dump(1) + "\n");
  std::error_code error;
  fs::remove(options_.output + kPreparedState, error);
  return out;
}

}  // namespace asr
