// A stream as a folder of JSON lines, one file a task and split: the format that `asr prepare` writes and `asr run`
// reads (docs/streams.md). A user's folder needs only the files, or a short stream.json that names them.
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

// Where one file serves training and validation, every fifth image or so is for validation, by a hash of its name.
enum class FileShare { all, train, val };
bool share_holds(FileShare share, const std::string& image, const std::string& id);

struct ManifestFile {
  std::string path;               // of the file itself
  std::string sha256;             // empty: a user's file, checked row by row when it is opened
  int64_t rows = -1, bytes = -1;  // of a prepared file
  FileShare share = FileShare::all;
};

struct ManifestTask {
  std::string name, metric = "exact";
  int64_t answer_tokens = 16;
  std::map<DataSplit, ManifestFile> files;
  std::vector<std::string> groups;  // of its training rows, in the order in which they are trained; empty: all together
};

struct Manifest {
  std::string folder, stream, variant;
  std::string images;  // folder that the rows' images are relative to
  int64_t frames = 4;  // of a video, side by side in one picture
  bool prepared = false;
  std::vector<ManifestTask> tasks;
};

Manifest read_manifest(const std::string& folder);

// root/image, or image where it is absolute.
std::string image_path(const std::string& root, const std::string& image);

}  // namespace asr
