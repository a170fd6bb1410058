#include "cli/stage_samples.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "report/run_files.h"

namespace asr {
namespace {

namespace fs = std::filesystem;

}  // namespace

StageSamples read_stage_samples(const std::string& path, int64_t stage) {
  StageSamples out;
  out.stage = stage;
  out.file = read_analysis_file(path);
  check(!out.file.options.empty(), path, ": metadata 'options' is missing; is this a run's analysis file?");
  out.options =
      resolve_options("sound", manifest_assignments(parse_json(out.file.options, path + ": metadata 'options'"),
                                                    path + " (metadata 'options')"));
  const auto& samples = out.file.samples;
  check(!samples.descriptor.empty() && samples.correct.size() == samples.descriptor.size(), path,
        ": no samples with 'sample.descriptor' and 'sample.correct'; the theorem is checked on single samples");
  check(out.options.spectral.fits(static_cast<int64_t>(samples.descriptor[0].size())), path,
        ": 'sample.descriptor' has ", samples.descriptor[0].size(), " columns; its options make ",
        expected_numbers(out.options.spectral));
  return out;
}

std::vector<int64_t> stages_in(const std::string& folder) {
  Run run;
  run.folder = folder;
  return analysed_stages(run);
}

// The folder itself, or the methods' folders in it.
std::vector<std::string> method_folders(const std::string& path) {
  check(fs::is_directory(path), path, ": no such folder; give a run's folder, or the folder of one of its methods");
  if (!stages_in(path).empty()) return {path};
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(path))
    if (entry.is_directory() && !stages_in(entry.path().string()).empty()) out.push_back(entry.path().string());
  std::sort(out.begin(), out.end());
  check(!out.empty(), path, ": no stages/AA/analysis.safetensors in it or in a folder below; is it a run?");
  return out;
}

}  // namespace asr
