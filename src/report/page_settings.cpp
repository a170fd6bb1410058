// How the runs were made, folded at the end of the page: the commands that repeat them, their options, their
// fingerprints.
#include <map>
#include <set>

#include "base/atomic_file.h"
#include "base/checksums.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"
#include "report/markup.h"
#include "report/page_parts.h"

namespace asr {
namespace {

using nlohmann::json;

// A path as a shell takes it.
std::string quoted(const std::string& path) {
  const std::string plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:@%";
  if (!path.empty() && path.find_first_not_of(plain) == std::string::npos) return path;
  std::string out = "'";
  for (char c : path) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string fingerprint_html(const std::string& root) {
  const std::string path = root + "/fingerprint.json";
  if (!path_exists(path)) return missing("No fingerprint: " + path + " does not exist.");
  const json content = read_json(path);
  check(content.is_object(), path, ": is not a JSON object");
  if (content.contains("format"))  // earlier versions hashed otherwise
    check(content.contains("hash") && content["hash"] == self_hash(content), path,
          ": is damaged; 'asr run --resume' writes it again");
  std::string out = "<details><summary>" + escaped(root) + "</summary><dl class=\"facts\">";
  for (const auto& [key, value] : content.items())
    out += "<dt>" + escaped(key) + "</dt><dd><code>" +
           escaped(value.is_string() ? value.get<std::string>() : value.dump()) + "</code></dd>";
  return out + "</dl></details>\n";
}

// Earlier versions, whose fingerprint names no format, wrote no checksum into it.
std::string config_text(const std::string& path, bool has_checksum) {
  const auto text = read_file(path, 1 << 20);
  return has_checksum ? checked_by_line(text, path) : text;
}

// One configuration a call of asr run: runs of the same folder may come from several. By content, so that the file in
// the output folder, which the last call wrote, stands for all runs of that call.
std::map<std::string, std::string> configurations(const std::string& root, const std::vector<Run>& runs) {
  std::map<std::string, std::string> out;  // path by content
  std::vector<std::string> paths = {root + "/config.yaml"};
  for (const auto& run : runs)
    if (run.root == root) paths.push_back(run.folder + "/config.yaml");
  const bool has_checksums =
      path_exists(root + "/fingerprint.json") && read_json(root + "/fingerprint.json").contains("format");
  for (const auto& path : paths)
    if (path_exists(path)) out.emplace(config_text(path, has_checksums), path);
  return out;
}

// Into a folder of its own: asr run does not write over runs that are there.
std::string reproduce_html(const std::string& root, const std::vector<Run>& runs) {
  const auto configs = configurations(root, runs);
  if (configs.empty()) return missing("No command can be given: " + root + "/config.yaml does not exist.");
  const std::string again = root + "-again";
  std::string commands, texts;
  for (const auto& [text, path] : configs) {
    const char* leave_done = configs.size() > 1 ? " --resume" : "";  // what two of them share is run once
    commands += "asr run " + quoted(path) + leave_done + " --set " + quoted("output_dir=" + again) + "\n";
    texts +=
        "<details><summary>" + escaped(path) + "</summary><pre><code>" + escaped(text) + "</code></pre></details>\n";
  }
  commands += "asr compare " + quoted(root) + " " + quoted(again);
  return "<pre><code>" + escaped(commands) +
         "</code></pre>\n<p class=\"note\">In the folder in which the runs were "
         "started: relative paths are meant from there.</p>\n" +
         texts;
}

}  // namespace

std::string settings_html(const RunSet& set, std::vector<std::string>& unread) {
  const auto readable = [&unread](const auto& make) {
    try {
      return make();
    } catch (const Error& error) {
      unread.emplace_back(error.what());
      return missing(error.what());
    }
  };
  std::set<std::string> roots;
  for (const auto& run : set.runs)
    if (!run.from_table()) roots.insert(run.root);
  if (roots.empty()) return missing("No command can be given: these runs are rows of a table.");
  std::string out = "<details id=\"reproduce\"><summary>To reproduce</summary>\n";
  for (const auto& root : roots) out += readable([&] { return reproduce_html(root, set.runs); });
  out += "</details>\n<details id=\"settings\"><summary>Settings and fingerprints</summary>\n";
  for (const auto& root : roots) out += readable([&] { return fingerprint_html(root); });
  return out + "</details>\n";
}

}  // namespace asr
