#include "streams/manifest.h"

#include <algorithm>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/random.h"
#include "base/text.h"
#include "io/record_file.h"
#include "io/task_names.h"
#include "streams/members.h"
#include "streams/row_file.h"

namespace asr {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr int64_t kMostAnswerTokens = 100'000;
constexpr const char* kSplits[kSplitCount] = {"train", "val", "test", "tune", "novel"};

DataSplit split_of(const std::string& name, const std::string& place) {
  for (int i = 0; i < kSplitCount; ++i)
    if (name == kSplits[i]) return static_cast<DataSplit>(i);
  fail(place, ": split '", printable(name), "' is unknown", did_you_mean(name, {kSplits, kSplits + kSplitCount}));
}

ManifestFile read_file_entry(const json& entry, const std::string& folder, const std::string& place) {
  ManifestFile out;
  const bool plain = entry.is_string();
  check(plain || (entry.is_object() && entry.contains("path")), place, ": is neither a path nor an object with one");
  const auto path = plain ? entry.get<std::string>() : text_member(entry, "path", "", place);
  check(!path.empty(), place, ": the path is empty");
  out.path = image_path(folder, clean_path(path, place));
  if (plain) return out;
  out.sha256 = text_member(entry, "sha256", "", place);
  out.rows = count_member(entry, "rows", -1, place);
  out.bytes = count_member(entry, "bytes", -1, place);
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
  check(task.answer_tokens > 0 && task.answer_tokens <= kMostAnswerTokens, place, ": 'answer_tokens' is outside 1..",
        kMostAnswerTokens);
  task.text_only = truth_member(entry, "text_only", truth_member(top, "text_only", false, place), place);
  check(entry.contains("files") && entry["files"].is_object(), place, ": needs 'files', an object of split and path");
  for (const auto& [split, file] : entry["files"].items())
    task.files[split_of(split, place)] = read_file_entry(file, folder, cat(place, ", file ", printable(split)));
  task.groups = read_groups(entry, place);
  return task;
}

// "colors.val.json" is the task colors and the split val; without a split it is for training.
bool task_and_split(const fs::path& file, std::string& name, DataSplit& split) {
  if (file.extension() != ".jsonl" && file.extension() != ".json") return false;
  name = file.stem().string();
  split = DataSplit::train;
  for (int i = 0; i < kSplitCount; ++i) {
    const auto end = std::string(".") + kSplits[i];
    if (name.size() <= end.size() || !ends_with(name, end)) continue;
    name.resize(name.size() - end.size());
    split = static_cast<DataSplit>(i);
    break;
  }
  return true;
}

// NAME.SPLIT.jsonl, NAME.SPLIT.json or either without a split, in the order of names; `top` says what holds for all.
void read_names(const json& top, const std::string& place, Manifest& out) {
  std::map<std::string, json> files;
  std::string parquet;
  for (const auto& entry : list_folder(out.folder)) {
    std::string name;
    auto split = DataSplit::train;
    if (ends_with(entry, ".parquet")) parquet = out.folder + "/" + entry;
    if (entry == "stream.json" || !task_and_split(entry, name, split)) continue;
    check(entry != "progress.json", out.folder,
          ": is a preparation that was not finished; the same 'asr prepare' goes on");
    auto& task = files[name];
    check(!task.contains(split_name(split)), out.folder, ": task '", printable(name), "' has two files for ",
          split_name(split));
    task[split_name(split)] = entry;
  }
  check(!files.empty() || parquet.empty(), parquet_advice(parquet));
  check(!files.empty(), out.folder,
        ": holds no stream.json and no *.jsonl or *.json files of rows; see docs/streams.md");
  for (const auto& [name, task] : files)
    out.tasks.push_back(
        read_task({{"name", name}, {"files", task}}, top, out.folder, cat(place, ": task ", printable(name))));
}

// Of a prepared stream.
std::string held_out_of(const json& top, const std::string& path) {
  const auto options = top.find("options");
  return options != top.end() && options->is_object() ? text_member(*options, "held_out", "", path) : "";
}

// Folders of CoIN and UCIT that were prepared before `prompt` was written mean their own release's all the same.
PromptStyle read_prompt(const json& top, const std::string& stream, const std::string& path) {
  const bool instructions = stream == "coin" || stream == "ucit";
  const auto name = text_member(top, "prompt", instructions ? "instruction" : "recipe", path);
  check(name == "recipe" || name == "instruction", path, ": 'prompt' is '", printable(name),
        "'; use recipe or instruction");
  return name == "recipe" ? PromptStyle::recipe : PromptStyle::instruction;
}

void read_index(const json& top, const std::string& path, Manifest& out) {
  check(top.is_object(), path, ": is no JSON object");
  check(!top.contains("tasks") || top["tasks"].is_array(), path, ": 'tasks' is no list");
  check(top.contains("tasks") || !top.contains("format"), path, ": needs 'tasks', a list");
  if (top.contains("format"))
    check(top["format"].is_number_integer() && top["format"].get<int64_t>() == kManifestFormat, path, ": has format ",
          printable(top["format"].dump()), ", but this version reads ", kManifestFormat, "; prepare the stream again");
  out.stream = text_member(top, "stream", "manifest", path);
  out.variant = text_member(top, "variant", "", path);
  const auto images = clean_path(text_member(top, "images", ".", path), path);
  out.images = images == "." ? out.folder : image_path(out.folder, images);
  out.frames = count_member(top, "frames", out.frames, path);
  check(out.frames >= 1 && out.frames <= 64, path, ": 'frames' is outside 1..64");
  out.prompt = read_prompt(top, out.stream, path);
  out.prepared = top.contains("format");
  out.held_out = held_out_of(top, path);
  for (const auto* text : {&out.stream, &out.variant, &out.held_out}) {
    const auto problem = text->empty() ? "" : name_problem(*text);
    check(problem.empty(), path, ": '", printable(*text), "' ", problem);
  }
  if (!top.contains("tasks")) return read_names(top, path, out);
  for (size_t i = 0; i < top["tasks"].size(); ++i)
    out.tasks.push_back(read_task(top["tasks"][i], top, out.folder, cat(path, ": task ", i + 1)));
}

}  // namespace

const char* split_name(DataSplit split) {
  return kSplits[static_cast<int>(split)];
}

uint64_t share_key(const std::string& image, const std::string& id) {
  uint64_t hash = 0;
  for (const unsigned char c : image.empty() ? id : image) hash = Random::mix(hash * 31 + c);
  return hash;
}

void ShareRule::see(uint64_t key) {
  several_ = several_ || (seen_ && key != smallest_);
  smallest_ = seen_ ? std::min(smallest_, key) : key;
  seen_ = true;
  fifth_ = fifth_ || key % 5 == 0;
}

bool ShareRule::holds(FileShare share, uint64_t key) const {
  if (share == FileShare::all) return true;
  const bool plain = !several_ || fifth_;
  return (plain ? key % 5 == 0 : key == smallest_) == (share == FileShare::val);
}

std::string image_path(const std::string& root, const std::string& image) {
  return !image.empty() && image[0] == '/' ? image : root + "/" + image;
}

std::string parquet_advice(const std::string& path) {
  const auto name = path.substr(0, path.size() - std::min(path.size(), std::string(".parquet").size()));
  return cat(path, ": parquet is not read; convert it: python3 -c \"import pandas; pandas.read_parquet('", path,
             "').to_json('", name, ".jsonl', orient='records', lines=True)\"");
}

namespace {

// Larger files have images enough.
constexpr int64_t kSmallFile = 1 << 20;

ShareRule rule_of(const std::string& path) {
  ShareRule out;
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  if (error || static_cast<int64_t>(bytes) > kSmallFile) return out;
  std::vector<SampleRow> rows;
  try {
    read_records(
        path,
        [&](const FileRecord& record) {
          if (read_rows(record.value, fallback_id(path, record.number), rows).empty())
            out.see(share_key(rows[0].image, rows[0].id));
        },
        [](size_t, size_t, const std::string&) {});
  } catch (const Error&) {  // whoever reads the rows says it
  }
  return out;
}

// Every task has rows to train on; without a file for val they are shared out.
void complete_tasks(Manifest& out) {
  check(!out.tasks.empty(), out.folder, ": has no tasks");
  std::vector<std::string> names;
  for (const auto& task : out.tasks) names.push_back(task.name);
  check_names(names, out.folder);
  for (auto& task : out.tasks) {
    const auto train = task.files.find(DataSplit::train);
    check(train != task.files.end(), out.folder, ": task '", printable(task.name), "' has no training file");
    if (task.files.count(DataSplit::val) || out.prepared) continue;
    train->second.rule = rule_of(train->second.path);
    auto val = train->second;
    train->second.share = FileShare::train;
    val.share = FileShare::val;
    task.files[DataSplit::val] = val;
  }
}

}  // namespace

Manifest file_manifest(const std::string& path) {
  check(!ends_with(path, ".parquet"), parquet_advice(path));
  Manifest out;
  const fs::path file(path);
  out.folder = out.images = file.parent_path().empty() ? "." : file.parent_path().string();
  out.stream = "manifest";
  ManifestTask task;
  auto split = DataSplit::train;
  if (!task_and_split(file, task.name, split)) task.name = file.stem().string();
  check(split == DataSplit::train, path, ": a single file is for training and validation; give the folder for more");
  task.files[split].path = path;
  out.tasks.push_back(std::move(task));
  complete_tasks(out);
  return out;
}

std::string held_out_group(const StreamOptions& options) {
  const auto index = options.path + "/stream.json";
  if (options.path.empty() || !path_exists(index)) return "";
  const auto top = read_json(index);
  return top.is_object() ? held_out_of(top, index) : "";
}

Manifest read_manifest(const std::string& folder) {
  Manifest out;
  out.folder = folder;
  std::error_code error;
  check(fs::is_directory(folder, error), folder, ": is no folder; stream.path names the folder of a stream");
  const auto index = folder + "/stream.json";
  if (path_exists(index)) {
    read_index(read_json(index), index, out);
  } else {
    read_index(json::object(), folder, out);
  }
  complete_tasks(out);
  return out;
}

}  // namespace asr
