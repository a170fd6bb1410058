#include "io/analysis_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "io/number_table.h"

namespace asr {
namespace {

using nlohmann::json;

std::string metadata_of(const Safetensors& file, const char* key) {
  const auto place = file.metadata.find(key);
  return place == file.metadata.end() ? "" : place->second;
}

std::vector<std::string> metadata_names(const Safetensors& file, const char* key, bool required) {
  const auto text = metadata_of(file, key);
  if (text.empty() && !required) return {};
  check(!text.empty(), file.path, ": metadata '", key, "' is missing");
  const json list = parse_json(text, cat(file.path, ": metadata '", key, "'"));
  check(list.is_array(), file.path, ": metadata '", key, "' is not a JSON list");
  std::vector<std::string> out;
  for (const auto& name : list) {
    check(name.is_string(), file.path, ": metadata '", key, "' must be a list of texts");
    out.push_back(name.get<std::string>());
  }
  return out;
}

// Adds `from`, whose weight among all samples is `weight`.
void add_weighted(std::vector<double>& into, const std::vector<double>& from, double weight) {
  if (into.empty()) into.assign(from.size(), 0);
  check(into.size() == from.size(), "moments of ", from.size(), " and of ", into.size(), " entries cannot be pooled");
  for (size_t i = 0; i < from.size(); ++i) into[i] += weight * from[i];
}

std::vector<double> pooled_variance(const std::vector<const SpectraMoments*>& parts, const SpectraMoments& all) {
  std::vector<double> out(all.mean.size(), 0);
  if (all.count < 2) return out;
  const double freedom = static_cast<double>(all.count - 1);
  for (const auto* part : parts)
    for (size_t i = 0; i < out.size(); ++i) {
      const double gap = part->mean[i] - all.mean[i];
      const double n = static_cast<double>(part->count);
      out[i] += ((n - 1) * part->variance[i] + n * gap * gap) / freedom;
    }
  return out;
}

void check_rows(const Safetensors& file, const char* name, size_t found, size_t wanted) {
  check(found == wanted, file.path, ": '", name, "' has ", found, " rows for ", wanted, " of 'skill'");
}

void check_indices(const AnalysisFile& out, const std::vector<int64_t>& skill, const std::vector<int64_t>& task) {
  const auto tasks = static_cast<int64_t>(out.task_names.size());
  for (const int64_t index : skill)
    check(index >= 0 && (out.skill_names.empty() || index < static_cast<int64_t>(out.skill_names.size())), out.path,
          ": skill ", index, " has no name in metadata 'skill_names'");
  for (const int64_t index : task)
    check(index >= 0 && index < tasks, out.path, ": task ", index, " has no name in metadata 'task_names'");
}

// Reads the tables whose rows are skills and tasks.
class RowReader {
 public:
  RowReader(const Safetensors& file, size_t rows) : file_(file), rows_(rows) {}

  std::vector<double> numbers(const char* name, bool required) const {
    if (!required && !file_.find(name)) return {};
    auto out = read_table(file_, name, 1).values;
    check_rows(file_, name, out.size(), rows_);
    return out;
  }

  std::vector<int64_t> counts(const char* name, bool required) const {
    if (!required && !file_.find(name)) return std::vector<int64_t>(rows_, 0);
    auto out = read_integers(file_, name);
    check_rows(file_, name, out.size(), rows_);
    for (const int64_t count : out)
      check(count >= 0 && count < (int64_t(1) << 40), file_.path, ": '", name, "' holds ", count);
    return out;
  }

  NumberTable table(const char* name, bool required, bool positive) const {
    if (!required && !file_.find(name)) return {};
    auto out = read_table(file_, name, 2);
    check_rows(file_, name, static_cast<size_t>(out.shape[0]), rows_);
    if (positive)
      for (const double value : out.values) check(value >= 0, file_.path, ": '", name, "' must be >= 0");
    return out;
  }

 private:
  const Safetensors& file_;
  size_t rows_;
};

void read_rows(const Safetensors& file, AnalysisFile& out) {
  const bool tasked = file.find("task") != nullptr;
  const auto skill = read_integers(file, "skill");
  const RowReader rows(file, skill.size());
  const auto task = rows.counts("task", tasked);
  const auto count = rows.counts("count", tasked), scored = rows.counts("scored", false);
  const auto accuracy = rows.numbers("accuracy", false), entropy = rows.numbers("entropy", false);
  const auto mean = rows.table("mean", true, false), variance = rows.table("variance", true, true),
             radial = rows.table("radial", true, true), angular = rows.table("angular", true, true),
             embedding = rows.table("embedding", false, false);
  check(mean.shape == variance.shape, file.path, ": 'variance' must be shaped as 'mean'");
  check_indices(out, skill, task);
  std::set<std::pair<int64_t, int64_t>> known;
  for (size_t i = 0; i < skill.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    check(known.insert({skill[i], task[i]}).second, file.path, ": skill ", skill[i], " of task '",
          printable(out.task_names[static_cast<size_t>(task[i])]), "' stands twice");
    check(!tasked || count[i] > 0, file.path, ": row ", i, " of 'count' is 0; a row without samples says nothing");
    AnalysisRow row{skill[i], task[i], {}};
    auto& m = row.moments;
    m.count = count[i];
    m.scored = scored[i];
    if (!accuracy.empty()) m.accuracy = accuracy[i];
    if (!entropy.empty()) m.entropy = entropy[i];
    m.mean = mean.row(at);
    m.variance = variance.row(at);
    m.radial = radial.row(at);
    m.angular = angular.row(at);
    if (!embedding.shape.empty()) m.embedding = embedding.row(at);
    out.rows.push_back(std::move(row));
  }
}

void read_samples(const Safetensors& file, AnalysisFile& out) {
  if (!file.find("sample.skill")) return;
  auto& s = out.samples;
  s.skill = read_integers(file, "sample.skill");
  const size_t n = s.skill.size();
  const auto same = [&](const char* name, size_t rows) {
    check(rows == n, file.path, ": '", name, "' has ", rows, " rows for ", n, " of 'sample.skill'");
  };
  if (file.find("sample.task"))
    s.task = read_integers(file, "sample.task");
  else
    s.task.assign(n, 0);
  same("sample.task", s.task.size());
  check_indices(out, s.skill, s.task);
  if (file.find("sample.correct")) {
    s.correct = read_table(file, "sample.correct", 1).values;
    same("sample.correct", s.correct.size());
  }
  if (file.find("sample.distance")) {
    s.distance = read_table(file, "sample.distance", 1, NotNumbers::allowed).values;
    same("sample.distance", s.distance.size());
  }
  if (!file.find("sample.descriptor")) return;
  const auto descriptor = read_table(file, "sample.descriptor", 2);
  same("sample.descriptor", static_cast<size_t>(descriptor.shape[0]));
  const size_t entries = out.rows.empty() ? 0 : out.rows[0].moments.mean.size();
  check(n == 0 || static_cast<size_t>(descriptor.shape[1]) == entries, file.path, ": 'sample.descriptor' has ",
        descriptor.shape[1], " entries a sample, 'mean' has ", entries);
  for (size_t i = 0; i < n; ++i) s.descriptor.push_back(descriptor.row(static_cast<int64_t>(i)));
  if (!file.find("sample.heads")) return;
  const auto heads = read_table(file, "sample.heads", 4);
  same("sample.heads", static_cast<size_t>(heads.shape[0]));
  s.layers = heads.shape[1];
  s.layer_heads = heads.shape[2];
  check(s.head_count() > 0, file.path, ": 'sample.heads' has ", s.layers, " layers of ", s.layer_heads,
        " heads; expected at least one head");
  // Mean and second moment over heads, and with spectral.heads=kept those of every head.
  const auto own = static_cast<size_t>(heads.shape[3]);
  check(own > 0 && (2 * own == entries || (2 + s.head_count()) * own == entries), file.path, ": 'sample.heads' has ",
        own, " entries a head; expected half of the descriptor's ", entries);
  const size_t each = n == 0 ? 0 : heads.values.size() / n;
  for (size_t i = 0; i < n; ++i)
    s.heads.emplace_back(heads.values.begin() + static_cast<int64_t>(i * each),
                         heads.values.begin() + static_cast<int64_t>((i + 1) * each));
}

int64_t index_of(const AnalysisFile& file, const std::string& task) {
  const auto place = std::find(file.task_names.begin(), file.task_names.end(), task);
  return place == file.task_names.end() ? -1 : place - file.task_names.begin();
}

const AnalysisRow* row_of_task(const AnalysisFile& file, int64_t skill, const std::string& task) {
  const int64_t index = index_of(file, task);
  for (const auto& row : file.rows)
    if (row.skill == skill && row.task == index) return &row;
  return nullptr;
}

std::string sample_hash(const AnalysisFile& file, const std::string& task) {
  return file.task_samples.empty() ? "" : file.task_samples[static_cast<size_t>(index_of(file, task))];
}

}  // namespace

SpectraMoments pool_moments(const std::vector<const SpectraMoments*>& parts) {
  check(!parts.empty(), "no moments to pool");
  if (parts.size() == 1) return *parts[0];
  SpectraMoments out;
  for (const auto* part : parts) {
    out.count += part->count;
    out.scored += part->scored;
  }
  check(out.count > 0, "moments without counts cannot be pooled");
  out.entropy = 0;
  if (out.scored > 0) out.accuracy = 0;
  for (const auto* part : parts) {
    const double weight = static_cast<double>(part->count) / static_cast<double>(out.count);
    add_weighted(out.mean, part->mean, weight);
    add_weighted(out.radial, part->radial, weight);
    add_weighted(out.angular, part->angular, weight);
    add_weighted(out.embedding, part->embedding, weight);
    out.entropy += weight * part->entropy;
    if (out.scored > 0)
      out.accuracy += static_cast<double>(part->scored) / static_cast<double>(out.scored) * part->accuracy;
  }
  out.variance = pooled_variance(parts, out);
  return out;
}

std::vector<std::vector<double>> AnalysisSamples::of_head(int64_t index) const {
  std::vector<std::vector<double>> out;
  for (const auto& row : heads) {
    const auto width = static_cast<int64_t>(row.size()) / head_count();
    out.emplace_back(row.begin() + index * width, row.begin() + (index + 1) * width);
  }
  return out;
}

std::string AnalysisFile::skill_name(int64_t skill) const {
  return skill_names.empty() ? cat("skill", skill) : skill_names.at(static_cast<size_t>(skill));
}

std::set<int64_t> AnalysisFile::skills() const {
  std::set<int64_t> out;
  for (const auto& row : rows) out.insert(row.skill);
  return out;
}

std::set<std::string> AnalysisFile::tasks(int64_t skill) const {
  std::set<std::string> out;
  for (const auto& row : rows)
    if (row.skill == skill) out.insert(task_names[static_cast<size_t>(row.task)]);
  return out;
}

SpectraMoments AnalysisFile::moments(int64_t skill, const std::set<std::string>& tasks) const {
  std::vector<const SpectraMoments*> parts;
  for (const auto& row : rows)
    if (row.skill == skill && tasks.count(task_names[static_cast<size_t>(row.task)])) parts.push_back(&row.moments);
  check(!parts.empty(), path, ": has no samples of skill '", printable(skill_name(skill)), "' in the tasks asked for");
  return pool_moments(parts);
}

bool pools_all_tasks(const Safetensors& file) {
  return !file.find("task") && file.find("sample.task");
}

AnalysisFile read_analysis_file(const Safetensors& file) {
  AnalysisFile out;
  out.path = file.path;
  const auto format = metadata_of(file, "asr_analysis");
  check(format.empty() || format == kAnalysisFormat, file.path, ": analysis format ", printable(format),
        " is not known to this version");
  if (!format.empty() || file.metadata.count("sha256")) verify_checksum(file);
  check(!pools_all_tasks(file), file.path,
        ": pools all tasks, as an older version wrote it; drift is measured task by ",
        "task, so run that method again");
  const bool tasked = file.find("task") != nullptr;
  out.options = metadata_of(file, "options");
  out.skill_names = metadata_names(file, "skill_names", tasked);
  out.task_names = tasked ? metadata_names(file, "task_names", true) : std::vector<std::string>{""};
  out.task_samples = metadata_names(file, "task_samples", false);
  check(out.task_samples.empty() || out.task_samples.size() == out.task_names.size(), file.path,
        ": metadata 'task_samples' and 'task_names' differ in length");
  const std::set<std::string> different(out.task_names.begin(), out.task_names.end());
  check(different.size() == out.task_names.size(), file.path, ": metadata 'task_names' names a task twice");
  read_rows(file, out);
  read_samples(file, out);
  return out;
}

AnalysisFile read_analysis_file(const std::string& path) {
  return read_analysis_file(read_safetensors(path));
}

std::set<std::string> shared_tasks(const AnalysisFile& a, const AnalysisFile& b, int64_t skill) {
  check(a.skill_names.empty() || b.skill_names.empty() || !b.skills().count(skill) ||
            a.skill_name(skill) == b.skill_name(skill),
        b.path, ": skill ", skill, " is '", printable(b.skill_names.empty() ? "" : b.skill_name(skill)), "', but '",
        printable(a.skill_name(skill)), "' in ", a.path, "; both need the same taxonomy");
  std::set<std::string> out;
  for (const auto& task : a.tasks(skill)) {
    const auto* old = row_of_task(a, skill, task);
    const auto* now = row_of_task(b, skill, task);
    if (!now) continue;
    const auto x = sample_hash(a, task), y = sample_hash(b, task);
    // A file without tasks need not count its samples.
    const bool same_count = task.empty() || old->moments.count == now->moments.count;
    check(same_count && (x.empty() || y.empty() || x == y), b.path, ": task '", printable(task),
          "' was measured on other samples than in ", a.path,
          "; both need the same data, eval_split and analysis.samples");
    out.insert(task);
  }
  return out;
}

}  // namespace asr
