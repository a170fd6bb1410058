#include "streams/manifest.h"

#include <algorithm>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/random.h"
#include "base/text.h"

namespace asr {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kSplits[kSplitCount] = {"train", "val", "test", "tune", "novel"};

DataSplit split_of(const std::string& name, const std::string& place) {
  for (int i = 0; i < kSplitCount; ++i)
    if (name == kSplits[i]) return static_cast<DataSplit>(i);
  fail(place, ": split '", printable(name), "' is unknown", did_you_mean(name, {kSplits, kSplits + kSplitCount}));
}

std::string text_member(const json& object, const char* name, const std::string& fallback, const std::string& place) {
  if (!object.contains(name)) return fallback;
  check(object[name].is_string(), place, ": '", name, "' is no text");
  return object[name].get<std::string>();
}

int64_t count_member(const json& object, const char* name, int64_t fallback, const std::string& place) {
  if (!object.contains(name)) return fallback;
  check(object[name].is_number_integer() && object[name].get<int64_t>() >= 0, place, ": '", name, "' is no count");
  return object[name].get<int64_t>();
}

ManifestFile read_file_entry(const json& entry, const std::string& folder, const std::string& place) {
  ManifestFile out;
  const bool plain = entry.is_string();
  check(plain || (entry.is_object() && entry.contains("path")), place, ": is neither a path nor an object with one");
  const auto path = plain ? entry.get<std::string>() : text_member(entry, "path", "", place);
  check(!path.empty(), place, ": the path is empty");
  out.path = image_path(folder, path);
  if (plain) return out;
  out.sha256 = text_member(entry, "sha256", "", place);
  out.rows = count_member(entry, "rows", -1, place), out.bytes = count_member(entry, "bytes", -1, place);
  return out;
}

std::vector<std::string> read_groups(const json& entry, const std::string& place) {
  std::vector<std::string> out;
  if (!entry.contains("groups")) return out;
  check(entry["groups"].is_array() && !entry["groups"].empty(), place, ": 'groups' is no list of names");
  for (const auto& group : entry["groups"]) {
    check(group.is_string() && !group.get<std::string>().empty(), place, ": 'groups' holds something else than names");
    const auto name = group.get<std::string>();
    check(std::find(out.begin(), out.end(), name) == out.end(), place, ": group '", printable(name), "' stands twice");
    out.push_back(name);
  }
  return out;
}

ManifestTask read_task(const json& entry, const json& top, const std::string& folder, const std::string& place) {
  ManifestTask task;
  check(entry.is_object(), place, ": is no object");
  task.name = text_member(entry, "name", "", place);
  check(!task.name.empty() && task.name.find('/') == std::string::npos, place, ": needs a 'name' without slashes");
  task.metric = text_member(entry, "metric", text_member(top, "metric", task.metric, place), place);
  const auto all_tasks = count_member(top, "answer_tokens", task.answer_tokens, place);
  task.answer_tokens = count_member(entry, "answer_tokens", all_tasks, place);
  check(task.answer_tokens > 0, place, ": 'answer_tokens' must be above 0");
  check(entry.contains("files") && entry["files"].is_object(), place, ": needs 'files', an object of split and path");
  for (const auto& [split, file] : entry["files"].items())
    task.files[split_of(split, place)] = read_file_entry(file, folder, cat(place, ", file ", printable(split)));
  task.groups = read_groups(entry, place);
  return task;
}

void read_index(const json& top, const std::string& path, Manifest& out) {
  check(top.is_object() && top.contains("tasks") && top["tasks"].is_array(), path, ": needs 'tasks', a list");
  if (top.contains("format"))
    check(top["format"].is_number_integer() && top["format"].get<int64_t>() == kManifestFormat, path, ": has format ",
          top["format"].dump(), ", but this version reads ", kManifestFormat, "; prepare the stream again");
  out.stream = text_member(top, "stream", "manifest", path), out.variant = text_member(top, "variant", "", path);
  out.images = image_path(out.folder, text_member(top, "images", ".", path));
  out.frames = count_member(top, "frames", out.frames, path);
  check(out.frames >= 1 && out.frames <= 64, path, ": 'frames' is outside 1..64");
  out.prepared = top.contains("format");
  for (size_t i = 0; i < top["tasks"].size(); ++i)
    out.tasks.push_back(read_task(top["tasks"][i], top, out.folder, cat(path, ": task ", i + 1)));
}

// NAME.SPLIT.jsonl or NAME.jsonl, in the order of names.
void read_names(Manifest& out) {
  out.stream = "manifest", out.images = out.folder;
  std::map<std::string, ManifestTask> tasks;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(out.folder, error)) {
    if (entry.path().extension() != ".jsonl") continue;
    auto name = entry.path().stem().string();
    auto split = DataSplit::train;
    for (int i = 0; i < kSplitCount; ++i) {
      const auto end = std::string(".") + kSplits[i];
      if (name.size() <= end.size() || name.compare(name.size() - end.size(), end.size(), end) != 0) continue;
      name.resize(name.size() - end.size()), split = static_cast<DataSplit>(i);
      break;
    }
    auto& task = tasks[name];
    task.name = name;
    check(task.files.emplace(split, ManifestFile{entry.path().string(), "", -1, -1, FileShare::all}).second, out.folder,
          ": task '", printable(name), "' has two files for ", split_name(split));
  }
  check(!tasks.empty(), out.folder, ": holds neither stream.json nor *.jsonl files; see docs/streams.md");
  for (auto& [name, task] : tasks) out.tasks.push_back(std::move(task));
}

}  // namespace

const char* split_name(DataSplit split) {
  return kSplits[static_cast<int>(split)];
}

bool share_holds(FileShare share, const std::string& image, const std::string& id) {
  if (share == FileShare::all) return true;
  uint64_t hash = 0;
  for (const unsigned char c : image.empty() ? id : image) hash = Random::mix(hash * 31 + c);
  return (hash % 5 == 0) == (share == FileShare::val);
}

std::string image_path(const std::string& root, const std::string& image) {
  return !image.empty() && image[0] == '/' ? image : root + "/" + image;
}

Manifest read_manifest(const std::string& folder) {
  Manifest out;
  out.folder = folder;
  std::error_code error;
  check(fs::is_directory(folder, error), folder, ": is no folder; stream.path names the folder of a stream");
  const auto index = folder + "/stream.json";
  if (path_exists(index)) {
    const auto top = json::parse(read_file(index, size_t(1) << 28), nullptr, false);
    check(!top.is_discarded(), index, ": is not valid JSON");
    read_index(top, index, out);
  } else {
    read_names(out);
  }
  check(!out.tasks.empty(), folder, ": has no tasks");
  for (auto& task : out.tasks) {
    const auto train = task.files.find(DataSplit::train);
    check(train != task.files.end(), folder, ": task '", printable(task.name), "' has no training file");
    if (task.files.count(DataSplit::val) || out.prepared) continue;
    auto val = train->second;
    train->second.share = FileShare::train, val.share = FileShare::val;
    task.files[DataSplit::val] = val;
  }
  return out;
}

}  // namespace asr
