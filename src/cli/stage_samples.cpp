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

// The rows of one skill in these tasks: task by task, and within each in the order of the file, which is the same at
// every stage.
std::vector<size_t> rows_of(const AnalysisFile& file, int64_t skill, const std::set<std::string>& tasks) {
  std::vector<size_t> out;
  for (const auto& task : tasks)
    for (size_t i = 0; i < file.samples.skill.size(); ++i) {
      const bool wanted = file.task_names[static_cast<size_t>(file.samples.task[i])] == task;
      if (wanted && file.samples.skill[i] == skill) out.push_back(i);
    }
  return out;
}

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
  check(static_cast<int64_t>(samples.descriptor[0].size()) == out.options.spectral.dim(), path,
        ": 'sample.descriptor' has ", samples.descriptor[0].size(), " columns; its options make ",
        out.options.spectral.dim());
  return out;
}

PairedSamples paired_samples(const AnalysisFile& before, const AnalysisFile& after, int64_t skill,
                             const std::set<std::string>& tasks) {
  const auto old_rows = rows_of(before, skill, tasks), new_rows = rows_of(after, skill, tasks);
  check(old_rows.size() == new_rows.size(), after.path, ": ", new_rows.size(), " samples of skill '",
        printable(after.skill_name(skill)), "' in the tasks shared with ", before.path, ", which has ", old_rows.size(),
        "; the same samples must be measured at every stage");
  PairedSamples out;
  for (size_t i = 0; i < old_rows.size(); ++i) {
    out.old_rows.push_back(before.samples.descriptor[old_rows[i]]);
    out.new_rows.push_back(after.samples.descriptor[new_rows[i]]);
    out.old_score.push_back(before.samples.correct[old_rows[i]]);
    out.new_score.push_back(after.samples.correct[new_rows[i]]);
  }
  return out;
}

double separation_or_nan(const std::vector<Vector>& rows, const std::vector<int64_t>& group) {
  const std::set<int64_t> groups(group.begin(), group.end());
  const bool differ = std::any_of(rows.begin(), rows.end(), [&](const Vector& row) { return row != rows[0]; });
  return groups.size() > 1 && differ ? separation(rows, group) : NAN;
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
