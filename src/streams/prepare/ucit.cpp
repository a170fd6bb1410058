// ucit: six stages that LLaVA-1.5 has not seen. 3,000 test rows a task; captions have several references, joined by
// the position of the row, as the benchmark's scorer numbers them.
#include "base/error.h"
#include "streams/prepare/instructions.h"

namespace asr {
namespace {

using nlohmann::json;

const std::vector<InstructionTask>& ucit_tasks() {
  static const std::vector<std::string> test = {"test_3000.json", "test.json"};
  static const std::vector<InstructionTask> tasks = {
      {"ImageNet-R", {"ImageNet-R"}, {"train.json"}, test, "exact", "exact_coin", 24, {-1, 3000, -1}},
      {"ArxivQA", {"ArxivQA"}, {"train_4w.json", "train.json"}, test, "exact", "exact_coin", 16, {40000, 3000, -1}},
      {"VizWiz-caption",
       {"VizWiz", "VizWiz-caption"},
       {"train.json"},
       test,
       "caption7",
       "caption7",
       64,
       {-1, 3000, -1}},
      {"IconQA", {"IconQA"}, {"train.json"}, test, "exact", "exact_coin", 16, {-1, 3000, -1}},
      {"CLEVR-Math",
       {"CLEVR", "CLEVR-Math"},
       {"train_4w.json", "train.json"},
       test,
       "exact",
       "exact_coin",
       8,
       {40000, 3000, -1}},
      {"Flickr30k",
       {"Flickr30k"},
       {"train_brief_4w.json", "train.json"},
       test,
       "caption7",
       "caption7",
       64,
       {40000, 3000, -1}}};
  return tasks;
}

InstructionReferences ucit_references(Preparation& preparation, const InstructionTask& task, const std::string& root) {
  InstructionReferences out;
  if (task.metric != "caption7") return out;
  const auto path = preparation.find(instruction_paths(root, task, {"val_coco_type_3000.json"}));
  if (path.empty()) {
    preparation.note("no val_coco_type_3000.json of " + task.name + ": captions are scored against one reference");
    return out;
  }
  preparation.read(path, [&](const FileRecord& record, const RowPlace& place) {
    if (record.key != "annotations" || record.in_map) return;
    const auto& value = record.value;
    if (!value.is_object() || !value.value("image_id", json()).is_number_integer() ||
        !value.value("caption", json()).is_string())
      return preparation.bad(place, "", "needs image_id and caption");
    out.by_position[value["image_id"].get<int64_t>()].push_back(value["caption"].get<std::string>());
  });
  return out;
}

}  // namespace

void prepare_ucit(Preparation& preparation) {
  prepare_instructions(preparation, ucit_tasks(), {"instructions"}, ucit_references);
}

}  // namespace asr
