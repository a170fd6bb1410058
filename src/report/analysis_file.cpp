// stages/AA/analysis.safetensors of a run: spectra of its skills and example images with their attention.
#include <filesystem>

#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/text.h"
#include "io/analysis_file.h"
#include "io/number_table.h"
#include "io/safetensors.h"
#include "io/safetensors_metadata.h"
#include "report/run_files.h"

namespace asr {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json metadata_list(const Safetensors& file, const char* key) {
  json list = metadata_json(file, key);
  check(list.is_array(), file.path, ": metadata '", key, "' is not a JSON list");
  return list;
}

void read_overlays(const Safetensors& file, StageAnalysis& out) {
  const auto* images = file.find("overlay.image");
  if (!images || !file.find("overlay.map")) return;
  const auto maps = read_table(file, "overlay.map", 3);
  check(images->dtype == Dtype::U8 && images->shape.size() == 4 && images->shape[3] == 3, file.path,
        ": 'overlay.image' must be U8 [n, height, width, 3]");
  const json words = metadata_list(file, "overlay");
  const int64_t n = images->shape[0];
  check(maps.shape[0] == n && words.size() == static_cast<size_t>(n), file.path,
        ": 'overlay.image', 'overlay.map' and metadata 'overlay' differ in length");
  const size_t pixels = n ? images->data.size / static_cast<size_t>(n) : 0;
  const size_t cells = n ? maps.values.size() / static_cast<size_t>(n) : 0;
  if (pixels == 0 || cells == 0) return;
  for (size_t i = 0; i < words.size(); ++i) {
    const JsonFields fields(words[i], cat(file.path, ": metadata 'overlay'[", i, "]"));
    Overlay o;
    o.question = fields.text("question");
    o.answer = fields.text("answer");
    o.prediction = fields.text("prediction");
    o.task = fields.text("task");
    o.functional = fields.texts("functional");
    o.height = static_cast<int>(images->shape[1]);
    o.width = static_cast<int>(images->shape[2]);
    o.map_height = static_cast<int>(maps.shape[1]);
    o.map_width = static_cast<int>(maps.shape[2]);
    o.image.assign(images->data.data + i * pixels, images->data.data + (i + 1) * pixels);
    o.map.assign(maps.values.begin() + static_cast<ptrdiff_t>(i * cells),
                 maps.values.begin() + static_cast<ptrdiff_t>((i + 1) * cells));
    out.overlays.push_back(std::move(o));
  }
}

std::map<int64_t, fs::path> analysis_files(const Run& run) {
  std::map<int64_t, fs::path> out;
  const fs::path folder = fs::path(run.folder) / "stages";
  if (!fs::is_directory(folder)) return out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    int64_t stage = 0;
    const auto file = entry.path() / "analysis.safetensors";
    const bool trained = parse_int(entry.path().filename().string(), stage) && stage > 0;  // 00 is the base
    if (trained && path_exists(file)) out[stage] = file;
  }
  return out;
}

}  // namespace

std::vector<int64_t> analysed_stages(const Run& run) {
  std::vector<int64_t> out;
  for (const auto& [stage, path] : analysis_files(run)) out.push_back(stage);
  return out;
}

StageAnalysis read_analysis(const Run& run, int64_t stage, bool with_overlays) {
  const auto file = read_safetensors(analysis_files(run).at(stage).string());
  StageAnalysis out;
  out.stage = stage;
  if (pools_all_tasks(file))
    verify_checksum(file);
  else
    out.spectra = read_analysis_file(file);
  if (with_overlays) read_overlays(file, out);
  return out;
}

}  // namespace asr
