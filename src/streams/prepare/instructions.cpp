#include "streams/prepare/instructions.h"

#include <filesystem>

#include "base/error.h"
#include "base/text.h"

namespace asr {
namespace {

using nlohmann::json;

// "./VizWiz/train/x.jpg" and "datasets/..." are written relative to where training is started.
std::string plain_image_path(std::string path) {
  while (path.compare(0, 2, "./") == 0) path.erase(0, 2);
  return path;
}

void read_file(Preparation& preparation, size_t task, DataSplit split, const std::string& path,
               const InstructionReferences& references) {
  int64_t position = 0;
  preparation.read(path, [&](const FileRecord& record, const RowPlace& place) {
    ++position;
    SampleRow row;
    const auto reason = read_row(record.value, row);
    if (!reason.empty()) return preparation.bad(place, row.id, reason);
    row.image = plain_image_path(row.image);
    row.type.clear();
    if (split == DataSplit::val) {
      const auto by_id = references.by_id.find(row.id);
      const auto by_position = references.by_position.find(position);
      if (by_id != references.by_id.end()) row.references = by_id->second;
      if (by_position != references.by_position.end()) row.references = by_position->second;
      if (record.value.contains("answer_bbox")) row.references = {text_of(record.value["answer_bbox"])};
      if (row.answer.empty() && !row.references.empty()) row.answer = row.references[0];
    }
    if (row.id.empty()) row.id = std::to_string(position);
    preparation.add(task, split, std::move(row), place);
  });
}

}  // namespace

std::vector<std::string> instruction_paths(const std::string& root, const InstructionTask& task,
                                           const std::vector<std::string>& files) {
  std::vector<std::string> out;
  for (const auto& folder : task.folders)
    for (const auto& file : files) out.push_back((root.empty() ? "" : root + "/") + folder + "/" + file);
  return out;
}

void prepare_instructions(Preparation& preparation, const std::vector<InstructionTask>& tasks,
                          const std::vector<std::string>& roots, ReferenceReader references) {
  preparation.prompt = PromptStyle::instruction;
  std::string root;  // the first that is there; else the tasks lie in the source itself
  std::error_code error;
  for (const auto& candidate : roots)
    if (root.empty() && std::filesystem::is_directory(preparation.options().source + "/" + candidate, error))
      root = candidate;
  for (const auto& task : tasks)
    preparation.add_task({task.name, preparation.options().native ? task.native_metric : task.metric,
                          task.answer_tokens, task.published, task.text_only});
  for (size_t i = 0; i < tasks.size(); ++i)
    preparation.unit(tasks[i].name, [&] {
      const auto& task = tasks[i];
      const auto train = preparation.need(instruction_paths(root, task, task.train), "training rows of " + task.name);
      const auto test = preparation.need(instruction_paths(root, task, task.test), "test rows of " + task.name);
      const auto extra = references(preparation, task, root);
      read_file(preparation, i, DataSplit::train, train, extra);
      read_file(preparation, i, DataSplit::val, test, extra);
    });
}

}  // namespace asr
