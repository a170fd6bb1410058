#include "backbones/merge.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <vector>

#include "backbones/adapter_file.h"
#include "backbones/pretrained.h"
#include "base/error.h"
#include "base/folders.h"
#include "io/safetensors_stream.h"

namespace asr {
namespace {

namespace fs = std::filesystem;

// The folder that becomes the output; without keep() it goes again.
class NewFolder {
 public:
  explicit NewFolder(const std::string& path) : path_(path), temporary_(path + kTemporary + std::to_string(getpid())) {
    remove_older();
    make_folders(temporary_);
  }
  ~NewFolder() {
    std::error_code ignored;
    if (!kept_) fs::remove_all(temporary_, ignored);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::string& path() const { return temporary_; }
  void keep() {
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
      fail_system(path_, ": cannot be put in place (", std::strerror(errno), ")");
    kept_ = true;
  }

 private:
  // What killed processes left of the same output: it may be as large as the model.
  void remove_older() const {
    std::error_code error;
    const auto begin = fs::path(path_ + kTemporary).filename().string();
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(fs::absolute(path_, error).parent_path(), error)) {
      const auto name = entry.path().filename().string();  // a user's own folder may begin the same way
      const bool numbered =
          name.size() > begin.size() && name.find_first_not_of("0123456789", begin.size()) == std::string::npos;
      if (name.rfind(begin, 0) == 0 && numbered) found.push_back(entry.path());
    }
    for (const auto& path : found) fs::remove_all(path, error);
  }

  static constexpr const char* kTemporary = ".tmp-";
  std::string path_, temporary_;
  bool kept_ = false;
};

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

void check_output(const std::string& output, const std::string& model) {
  std::error_code error;
  check(!output.empty(), "the output folder has no name");
  check(!path_exists(output) || fs::is_directory(output, error), output, ": is a file; name a new folder");
  check(!path_exists(output) || fs::is_empty(output, error), output,
        ": is not empty; a merged checkpoint needs a new folder");
  const auto inner = fs::weakly_canonical(output, error), outer = fs::weakly_canonical(model, error);
  const auto relative = inner.lexically_relative(outer);
  check(relative.empty() || *relative.begin() == "..", output, ": lies inside the model's folder; name another place");
}

// Weights in any format, which the merged ones replace; index files of the safetensors stay true and are copied.
bool holds_weights(const fs::path& file) {
  static const std::set<std::string> endings = {".safetensors", ".bin",     ".pt",   ".pth",  ".ckpt",
                                                ".h5",          ".msgpack", ".onnx", ".gguf", ".npz"};
  const auto name = file.filename().string();
  return endings.count(file.extension().string()) > 0 || name == "pytorch_model.bin.index.json";
}

// Configuration, tokenizer and the like, those in folders such as qformer_tokenizer too; no adapters, nothing hidden.
int64_t copy_others(const fs::path& from, const fs::path& to) {
  int64_t count = 0;
  std::error_code error;
  if (path_exists(from / "adapter_config.json")) return 0;
  for (const auto& entry : fs::directory_iterator(from, error)) {
    const auto name = entry.path().filename();
    if (name.string().front() == '.') continue;
    if (entry.is_directory(error)) {
      count += copy_others(entry.path(), to / name);
    } else if (entry.is_regular_file(error) && !holds_weights(name)) {
      fs::create_directories(to, error);
      if (!error) fs::copy_file(entry.path(), to / name, error);
      if (error) fail_system(entry.path().string(), ": cannot be copied (", error.message(), ")");
      ++count;
    }
  }
  if (error) fail_system(from.string(), ": cannot be read (", error.message(), ")");
  return count;
}

using Changes = std::map<std::string, const Linear*>;  // by the model's name of the weight

// A merge under way.
struct Merging {
  const PretrainedBackbone& model;
  double sign;   // -1: the adapter is taken off
  Changes left;  // weights that no shard has held yet
  MergeResult result;

  void write_shard(const Safetensors& from, const std::string& to);
};

// Tensor by tensor: as it is in the source, or with the adapter added.
void Merging::write_shard(const Safetensors& from, const std::string& to) {
  auto metadata = from.metadata;
  metadata.erase("sha256");  // of other content
  metadata.emplace("format", "pt");
  SafetensorsStream out(to, from.tensors, metadata);
  for (const auto& view : from.tensors) {
    const auto place = left.find(model.current_name(view.name));
    ++result.tensors;
    result.bytes += static_cast<int64_t>(view.data.size);
    if (place == left.end()) {
      out.write(view.data);
      continue;
    }
    const auto merged = merged_weight(*place->second, ~uint64_t(0), sign).contiguous();
    out.write({static_cast<const uint8_t*>(merged.data_ptr()), static_cast<size_t>(merged.nbytes())});
    left.erase(place);
    ++result.changed;
  }
  out.commit();
}

}  // namespace

MergeResult merge_adapter(const MergeRequest& request) {
  const auto output = without_slash(request.output);
  check_output(output, request.model);
  const auto model = load_pretrained(request.model);  // mapped, not read
  load_adapter(*model, request.adapter);
  Merging merging{*model, request.unmerge ? -1.0 : 1.0, {}, {}};
  for (const auto& site : model->adaptable())
    if (!site.linear->slots.empty()) merging.left[site.name + ".weight"] = site.linear;

  NewFolder folder(output);
  auto& result = merging.result;
  result.files = copy_others(request.model, folder.path());
  for (const auto& shard : read_safetensors_set(request.model).shards) {
    const auto name = fs::path(shard.path).filename().string();
    merging.write_shard(shard, folder.path() + "/" + name);
    ++result.files;
  }
  const auto& left = merging.left;
  check(left.empty(), request.model, ": no file holds '", left.empty() ? "" : left.begin()->first,
        "', which the adapter changes");
  folder.keep();
  return result;
}

}  // namespace asr
