// A stream as a folder of files, one a task and split: JSON lines, the format that `asr prepare` writes, or JSON lists
// of rows (docs/streams.md). A user's folder needs only the files, or a short stream.json that says more of them.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "streams/stream.h"

namespace asr {

inline constexpr int kManifestFormat = 1;
inline constexpr int kSplitCount = 5;
const char* split_name(DataSplit split);  // train, val, test, tune, novel

// Where one file serves training and validation, every fifth image or so is for validation, by a hash of its name (of
// the id without one). A small file may have no such image; then the one with the smallest hash is.
enum class FileShare { all, train, val };
uint64_t share_key(const std::string& image, const std::string& id);
class ShareRule {
 public:
  void see(uint64_t key);  // of every image; without any, the plain rule holds
  bool holds(FileShare share, uint64_t key) const;

 private:
  bool seen_ = false, several_ = false, fifth_ = false;
  uint64_t smallest_ = 0;
};

struct ManifestFile {
  std::string path;               // of the file itself
  std::string sha256;             // empty: a user's file, checked row by row when it is opened
  int64_t rows = -1, bytes = -1;  // of a prepared file
  FileShare share = FileShare::all;
  ShareRule rule = {};
};

struct ManifestTask {
  std::string name, metric = "exact";
  int64_t answer_tokens = 16;
  std::map<DataSplit, ManifestFile> files;
  bool text_only = false;           // rows without a picture are meant; without it they are refused
  std::vector<std::string> groups;  // of its training rows, in the order in which they are trained; empty: all together
};

struct Manifest {
  std::string folder, stream, variant;
  std::string held_out;  // concept group that training leaves out, such as "G3"; empty: none
  std::string images;    // folder that the rows' images are relative to
  int64_t frames = 4;    // of a video, side by side in one picture
  PromptStyle prompt = PromptStyle::recipe;
  bool prepared = false;
  std::vector<ManifestTask> tasks;
};

Manifest read_manifest(const std::string& folder);

// A file of rows as a stream of one task, named after it.
Manifest file_manifest(const std::string& path);

// Files of parquet are not read; the message has the line that converts `path`.
std::string parquet_advice(const std::string& path);

// The concept group that the stream's training leaves out, such as "G3" (VQACL's novel composition); empty: none, or
// another for every task (world-sc).
std::string held_out_group(const StreamOptions& options);

// root/image, or image where it is absolute.
std::string image_path(const std::string& root, const std::string& image);

}  // namespace asr
