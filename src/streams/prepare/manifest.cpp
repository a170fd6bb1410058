// manifest: a user's folder or file, every row checked, as a prepared stream. Also takes JSON documents, CSV and gzip,
// where stream.json names them.
#include "streams/manifest.h"

#include "base/error.h"
#include "base/text.h"
#include "io/task_names.h"
#include "streams/prepare/preparation.h"
#include "streams/row_file.h"

namespace asr {

namespace {

using nlohmann::json;

constexpr size_t kMostTasks = 1000;

struct Use {
  DataSplit split;
  FileShare share;
  ShareRule rule;
};

// One file may serve two splits; it is read once, so that a bad line counts once.
std::map<std::string, std::vector<Use>> uses_of(const ManifestTask& task) {
  std::map<std::string, std::vector<Use>> out;
  for (const auto& [split, file] : task.files) out[file.path].push_back({split, file.share, file.rule});
  return out;
}

// Rows of one task's files, or of all files where a member of the row names its task.
class ManifestReader {
 public:
  ManifestReader(Preparation& preparation, const Manifest& manifest) : preparation_(preparation), manifest_(manifest) {}

  void file_a_task() {
    for (const auto& task : manifest_.tasks)
      preparation_.add_task({task.name, task.metric, task.answer_tokens, {}, task.text_only});
    for (size_t i = 0; i < manifest_.tasks.size(); ++i)
      preparation_.unit(manifest_.tasks[i].name, [&] {
        const auto& task = manifest_.tasks[i];
        if (!task.groups.empty()) preparation_.nest(i, task.groups);
        read(task, [i](const json&) { return static_cast<int>(i); });
      });
  }

  // Tasks come in the order in which the files first name them.
  void field_a_task() {
    preparation_.look([&] {
      for (const auto& file : manifest_.tasks)
        for (const auto& use : uses_of(file))
          preparation_.read(use.first, [&](const FileRecord& record, const RowPlace& place) {
            const auto name = name_of(record.value);
            if (members_.empty() && record.value.is_object())
              for (const auto& member : record.value.items()) members_.push_back(printable(member.key(), 30));
            if (!name_problem(name).empty()) return;
            note_task(name, file, place);
            if (read_rows(record.value, fallback_id(use.first, record.number), rows_).empty())
              rules_[tasks_.at(name)].see(share_key(rows_[0].image, rows_[0].id));
          });
    });
    check(!tasks_.empty(), preparation_.options().source, ": no row has a member '", printable(field()),
          "' (--task-field)", did_you_mean(field(), members_));
    preparation_.unit("all", [&] {
      for (const auto& file : manifest_.tasks)
        read(file, [&](const json& value) {
          const auto found = tasks_.find(name_of(value));
          return found == tasks_.end() ? -1 : static_cast<int>(found->second);
        });
    });
  }

 private:
  const std::string& field() const { return preparation_.options().task_field; }
  std::string name_of(const json& value) const {
    return value.is_object() ? trimmed(text_of(value.value(field(), json()))) : "";
  }
  std::string name_problem(const std::string& name) const {
    if (name.empty()) return cat("has no text '", printable(field()), "', which names its task (--task-field)");
    const bool slash = name.find('/') != std::string::npos;
    const auto problem = slash ? "has a slash" : asr::name_problem(name);
    return problem.empty() ? "" : cat("its task '", printable(name), "' ", problem);
  }
  void note_task(const std::string& name, const ManifestTask& file, const RowPlace& place) {
    if (!tasks_.emplace(name, tasks_.size()).second) return;
    check(tasks_.size() <= kMostTasks, place.path, ":", place.line, ": '", printable(field()), "' names more than ",
          kMostTasks, " tasks; is it the right member?");
    preparation_.add_task({name, file.metric, file.answer_tokens, {}, file.text_only});
    rules_.emplace_back();
  }
  template <class TaskOf>
  void read(const ManifestTask& file, const TaskOf& task_of) {
    for (const auto& use : uses_of(file))
      preparation_.read(use.first, [&](const FileRecord& record, const RowPlace& place) {
        const auto reason = read_rows(record.value, fallback_id(use.first, record.number), rows_);
        if (!reason.empty()) return preparation_.bad(place, rows_[0].id, reason);
        const int task = task_of(record.value);
        if (task < 0) return preparation_.bad(place, rows_[0].id, name_problem(name_of(record.value)));
        const auto key = share_key(rows_[0].image, rows_[0].id);
        for (const auto& [split, share, rule] : use.second)
          if ((rules_.empty() ? rule : rules_[static_cast<size_t>(task)]).holds(share, key))
            for (const auto& row : rows_) preparation_.add(static_cast<size_t>(task), split, row, place);
      });
    if (file.files.at(DataSplit::val).share != FileShare::all)
      preparation_.note("tasks with one file: about every fifth image is for validation, by a hash of its name");
  }

  Preparation& preparation_;
  const Manifest& manifest_;
  std::map<std::string, size_t> tasks_;  // by a field
  std::vector<ShareRule> rules_;         // of these
  std::vector<std::string> members_;     // of the first row, for a message
  std::vector<SampleRow> rows_;
};

}  // namespace

void prepare_manifest(Preparation& preparation) {
  const auto& options = preparation.options();
  const bool folder = options.source == preparation.source_folder();
  const auto manifest = folder ? read_manifest(options.source) : file_manifest(options.source);
  preparation.default_images(manifest.images);
  preparation.frames = manifest.frames;
  ManifestReader reader(preparation, manifest);
  options.task_field.empty() ? reader.file_a_task() : reader.field_a_task();
}

}  // namespace asr
