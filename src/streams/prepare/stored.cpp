#include "streams/prepare/stored.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/text.h"
#include "streams/manifest.h"
#include "streams/members.h"

namespace asr {
namespace {

using nlohmann::json;

void check_counts(const json& object, const char* name, const std::string& place) {
  for (const auto& [reason, count] : object_member(object, name, place).items())
    check(is_count(count), place, ": '", name, "' has no count for '", printable(reason), "'");
}

void check_texts(const json& list, const char* name, const std::string& place) {
  for (const auto& text : list) check(text.is_string(), place, ": '", name, "' holds something else than text");
}

void check_sources(const json& object, const std::string& place) {
  for (const auto& source : list_member(object, "sources", place)) {
    const auto where = place + ": sources";
    clean_path(text_member(source, "path", where), where);
    count_member(source, "bytes", where);
    text_member(source, "changed", where);
  }
}

void check_file(const json& file, const std::string& place) {
  check(!clean_path(text_member(file, "path", place), place).empty(), place, ": the path is empty");
  count_member(file, "rows", place);
  count_member(file, "bytes", place);
  text_member(file, "sha256", place);
}

// What a unit of progress.json and the whole stream.json have in common.
void check_findings(const json& object, const std::string& place) {
  check_sources(object, place);
  check_counts(object, "skipped", place);
  check_counts(object, "dropped", place);
  check_texts(list_member(object, "notes", place), "notes", place);
  object_member(object, "details", place);
}

void check_published(const json& object, const std::string& place) {
  const auto& published = object_member(object, "published", place);
  for (const char* split : {"train", "val", "tune"}) {
    const bool none = published.contains(split) && published[split] == json(-1);
    if (!none) count_member(published, split, place + ": published");
  }
}

bool is_split(const std::string& name) {
  for (int i = 0; i < kSplitCount; ++i)
    if (name == split_name(static_cast<DataSplit>(i))) return true;
  return false;
}

void check_task(const json& task, const std::string& place) {
  text_member(task, "name", place);
  text_member(task, "metric", place);
  count_member(task, "answer_tokens", place);
  truth_member(task, "text_only", false, place);
  check_published(task, place);
  for (const auto& [split, file] : object_member(task, "files", place).items()) {
    check(is_split(split), place, ": '", printable(split), "' is no split");
    check_file(file, cat(place, ", file ", split));
  }
  if (task.contains("groups")) check_texts(list_member(task, "groups", place), "groups", place);
}

// "3" of `tasks`.
void check_task_number(const std::string& text, size_t tasks, const std::string& place) {
  int64_t number = 0;
  const bool good = parse_int(text, number) && number >= 0 && number < static_cast<int64_t>(tasks);
  check(good, place, ": '", printable(text), "' is no number of a task below ", tasks);
}

void check_unit(const json& unit, const std::string& place, size_t tasks) {
  check_findings(unit, place);
  for (const auto& [key, file] : object_member(unit, "files", place).items()) {
    const auto slash = key.find('/');
    check_task_number(key.substr(0, slash), tasks, place + ": files");
    check(slash != std::string::npos && is_split(key.substr(slash + 1)), place, ": '", printable(key),
          "' is no task with its split");
    check_file(file, cat(place, ", file ", printable(key)));
  }
  for (const auto& [key, groups] : object_member(unit, "groups", place).items()) {
    check_task_number(key, tasks, place + ": groups");
    check(groups.is_array(), place, ": 'groups' holds something else than lists");
    check_texts(groups, "groups", place);
  }
}

// A complaint, and what to do about it.
template <class F>
void with_remedy(const std::string& path, F&& f) {
  try {
    f();
  } catch (const Error& error) {
    fail(error.what(), "; it is damaged: remove ", std::filesystem::path(path).parent_path().string(),
         " and prepare again");
  }
}

}  // namespace

json load_stored(const std::string& path) {
  if (!path_exists(path)) return json();
  json out;
  with_remedy(path, [&] { out = read_json_object(path); });
  return out;
}

void check_prepared_index(const json& index, const std::string& path) {
  with_remedy(path, [&] {
    check(count_member(index, "format", path) == kManifestFormat, path, ": 'format' is not ", kManifestFormat);
    text_member(index, "stream", path);
    text_member(index, "variant", "", path);
    clean_path(text_member(index, "images", path), path);
    const auto frames = count_member(index, "frames", 4, path);
    check(frames >= 1 && frames <= 64, path, ": 'frames' is outside 1..64");
    object_member(index, "options", path);
    check_findings(index, path);
    check_published(index, path);
    const auto& tasks = list_member(index, "tasks", path);
    check(!tasks.empty(), path, ": has no tasks");
    for (size_t i = 0; i < tasks.size(); ++i) check_task(tasks[i], cat(path, ": task ", i + 1));
  });
}

void check_progress(const json& state, const std::string& path, size_t tasks) {
  with_remedy(path, [&] {
    object_member(state, "options", path);
    for (const auto& [name, unit] : object_member(state, "units", path).items())
      check_unit(unit, cat(path, ": unit '", printable(name), "'"), tasks);
  });
}

json source_of(const std::string& path) {
  struct stat info = {};
  check(stat(path.c_str(), &info) == 0, path, ": is not there any more");
  return {{"path", path},
          {"bytes", static_cast<int64_t>(info.st_size)},
          {"changed", fmt::format("{}.{:09d}", info.st_mtim.tv_sec, info.st_mtim.tv_nsec)}};
}

bool unchanged(const json& source) {
  const auto path = source.value("path", std::string());
  return path_exists(path) && source_of(path) == source;
}

}  // namespace asr
