// Sharded checkpoints: the index file names a shard for every tensor; both sides must agree.
#include <sys/stat.h>

#include <set>

#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/text.h"
#include "io/safetensors.h"

namespace asr {
namespace {

bool is_folder(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::map<std::string, std::string> read_weight_map(const std::string& path) {
  const auto root = read_json(path);
  check(root.is_object() && root.contains("weight_map") && root["weight_map"].is_object(), path, ": has no weight_map");
  std::map<std::string, std::string> out;
  for (const auto& [name, shard] : root["weight_map"].items()) {
    check(shard.is_string(), path, ": weight_map entry '", printable(name), "' is not a file name");
    const auto file = shard.get<std::string>();
    // A shard lies beside its index; a path that leads elsewhere is not followed.
    check(!file.empty() && file.find('/') == std::string::npos && file != "..", path, ": shard name '", printable(file),
          "' must be a plain file name");
    out[name] = file;
  }
  check(!out.empty(), path, ": weight_map is empty");
  return out;
}

SafetensorsSet read_indexed(const std::string& index) {
  const size_t slash = index.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : index.substr(0, slash + 1);
  const auto weight_map = read_weight_map(index);
  std::set<std::string> files;
  for (const auto& [name, file] : weight_map) files.insert(file);
  SafetensorsSet set;
  for (const auto& file : files) {
    check(path_exists(folder + file), index, ": shard '", file, "' is missing");
    set.shards.push_back(read_safetensors(folder + file));
  }
  for (const auto& shard : set.shards)
    for (const auto& tensor : shard.tensors) {
      const auto listed = weight_map.find(tensor.name);
      check(listed != weight_map.end() && folder + listed->second == shard.path, shard.path, ": tensor '",
            printable(tensor.name), "' is not listed for this shard in ", index);
      set.tensors[tensor.name] = &tensor;
    }
  for (const auto& [name, file] : weight_map)
    check(set.tensors.count(name), index, ": tensor '", printable(name), "' is not in shard '", file, "'");
  return set;
}

}  // namespace

SafetensorsSet read_safetensors_set(const std::string& path) {
  if (is_folder(path)) {
    const std::string index = path + "/model.safetensors.index.json", single = path + "/model.safetensors";
    if (path_exists(index)) return read_indexed(index);
    check(path_exists(single), path, ": holds neither model.safetensors nor model.safetensors.index.json");
    return read_safetensors_set(single);
  }
  if (ends_with(path, ".index.json")) return read_indexed(path);
  SafetensorsSet set;
  set.shards.push_back(read_safetensors(path));
  for (const auto& tensor : set.shards[0].tensors) set.tensors[tensor.name] = &tensor;
  return set;
}

}  // namespace asr
