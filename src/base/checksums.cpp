#include "base/checksums.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/sha256.h"

namespace asr {
namespace {

using nlohmann::json;

constexpr const char* kList = "checksums.json";
constexpr int kFormat = 1;
constexpr const char* kLineMark = "# sha256 of the rest: ";
constexpr int kLevels = 3;  // a run's files lie at most so many folders deep: stages/01/kept.json

[[noreturn]] void damaged_list(const std::string& path) {
  fail(path, ": is damaged; restore it from a copy, or delete it to have the run's files read unchecked");
}

}  // namespace

std::string sha256_of(const std::string& content) {
  Sha256 hash;
  hash.update(content);
  return hash.hex();
}

Checksums::Checksums(std::string folder) : folder_(std::move(folder)) {
  const auto path = folder_ + "/" + kList;
  if (!path_exists(path)) return;
  json stored;
  JsonProblem ignored;
  const bool whole = try_parse_json(read_file(path), stored, ignored) && stored.is_object() &&
                     stored.contains("files") && stored["files"].is_object() && stored.contains("sha256") &&
                     stored["sha256"].is_string() &&
                     stored["sha256"].get<std::string>() == sha256_of(stored["files"].dump());
  if (!whole) damaged_list(path);
  check(stored.contains("format") && stored["format"] == kFormat, path, ": was written by another version of asr");
  try {
    for (const auto& [name, value] : stored["files"].items()) {
      files_[name].accepted = value.at("sha256").get<std::vector<std::string>>();
      files_[name].first_bytes = value.value("first_bytes", int64_t{-1});
    }
  } catch (const json::exception&) {  // a list that somebody made up
    damaged_list(path);
  }
  on_disk_ = true;
}

std::vector<std::string> Checksums::names() const {
  std::vector<std::string> out;
  for (const auto& [name, entry] : files_) out.push_back(name);
  return out;
}

std::string Checksums::problem(const std::string& name, const std::string& content) const {
  const auto place = files_.find(name);
  if (place == files_.end()) return "is not in checksums.json: it was added or renamed later";
  const auto& entry = place->second;
  const bool grows = entry.first_bytes >= 0;
  if (grows && static_cast<int64_t>(content.size()) < entry.first_bytes)
    return cat("has ", content.size(), " bytes where checksums.json counts ", entry.first_bytes);
  const auto hash = sha256_of(grows ? content.substr(0, static_cast<size_t>(entry.first_bytes)) : content);
  const bool good = std::find(entry.accepted.begin(), entry.accepted.end(), hash) != entry.accepted.end();
  return good ? "" : "does not match its checksum: it was damaged or edited";
}

void Checksums::stage(const std::string& name, std::string content) {
  for (auto& [known, text] : staged_)
    if (known == name) {
      text = std::move(content);
      return;
    }
  staged_.emplace_back(name, std::move(content));
}

void Checksums::commit() {
  if (staged_.empty()) return;
  for (const auto& [name, content] : staged_) {
    auto& entry = files_[name];
    entry.first_bytes = -1;
    const auto hash = sha256_of(content);
    if (std::find(entry.accepted.begin(), entry.accepted.end(), hash) == entry.accepted.end())
      entry.accepted.push_back(hash);
  }
  save();
  for (const auto& [name, content] : staged_) {
    write_file_atomically(folder_ + "/" + name, content);
    files_[name].accepted = {sha256_of(content)};  // on disk with the next save
  }
  staged_.clear();
}

void Checksums::cover_beginning(const std::string& name, int64_t bytes, const std::string& sha256) {
  files_[name] = {{sha256}, bytes};
}

void Checksums::cover_whole(const std::string& name, const std::string& sha256) {
  files_[name] = {{sha256}, -1};
}

void Checksums::adopt(const std::vector<std::string>& names) {
  for (const auto& name : names)
    if (path_exists(folder_ + "/" + name)) cover_whole(name, sha256_of(read_file(folder_ + "/" + name)));
}

bool Checksums::settle() {
  bool changed = false;
  for (auto& [name, entry] : files_) {
    if (entry.accepted.size() < 2 || !path_exists(folder_ + "/" + name)) continue;
    const auto hash = sha256_of(read_file(folder_ + "/" + name));
    if (std::find(entry.accepted.begin(), entry.accepted.end(), hash) == entry.accepted.end()) continue;
    entry.accepted = {hash};
    changed = true;
  }
  return changed;
}

void Checksums::save() {
  auto files = json::object();
  for (const auto& [name, entry] : files_) {
    files[name] = {{"sha256", entry.accepted}};
    if (entry.first_bytes >= 0) files[name]["first_bytes"] = entry.first_bytes;
  }
  const json list = {{"format", kFormat}, {"files", files}, {"sha256", sha256_of(files.dump())}};
  write_file_atomically(folder_ + "/" + kList, list.dump(1) + "\n");
  on_disk_ = true;
}

std::pair<std::string, std::string> listed_place(const std::string& path) {
  auto folder = std::filesystem::absolute(path).lexically_normal();
  std::string name;
  for (int level = 0; level < kLevels; ++level) {
    name = folder.filename().string() + (name.empty() ? "" : "/" + name);
    folder = folder.parent_path();
    if (path_exists(folder / kList)) return {folder.string(), name};
  }
  return {};
}

void check_as_written(const std::string& path, const std::string& content) {
  const auto [folder, name] = listed_place(path);
  if (folder.empty()) return;
  const auto problem = Checksums(folder).problem(name, content);
  check(problem.empty(), path, ": ", problem,
        "; restore it from a copy, or delete it: 'asr run --resume' writes matrices, metrics and adapter again, and "
        "names what stays missing");
}

std::string read_as_written(const std::string& path, size_t limit) {
  auto content = read_file(path, limit);
  check_as_written(path, content);
  return content;
}

void check_if_listed(const std::string& path) {
  const auto [folder, name] = listed_place(path);
  if (!folder.empty() && Checksums(folder).lists(name)) read_as_written(path);
}

std::string self_hash(json object) {
  object.erase("hash");
  return sha256_of(object.dump(-1, ' ', false, json::error_handler_t::replace));
}

std::string with_checksum_line(const std::string& text) {
  return cat(kLineMark, sha256_of(text), "\n", text);
}

std::string checked_by_line(const std::string& text, const std::string& path) {
  const size_t mark = std::string(kLineMark).size(), begin = mark + 65;  // 64 digits and the line's end
  const bool marked = text.compare(0, mark, kLineMark) == 0 && text.size() >= begin && text[begin - 1] == '\n';
  check(
      marked && text.substr(mark, 64) == sha256_of(text.substr(begin)), path,
      ": does not match the checksum in its first line: it was damaged or edited; 'asr run --resume' writes it again");
  return text.substr(begin);
}

}  // namespace asr
