// coin: eight stages of instruction tuning. RefCOCO, RefCOCO+ and RefCOCOg are one stage, so the paper's ten are eight.
#include "base/error.h"
#include "base/text.h"
#include "streams/prepare/instructions.h"

namespace asr {
namespace {

using nlohmann::json;

const std::vector<InstructionTask>& coin_tasks() {
  static const std::vector<std::string> test = {"test.json", "val.json"}, val = {"val.json", "test.json"};
  static const std::vector<InstructionTask> tasks = {
      {"ScienceQA", {"ScienceQA"}, {"train.json"}, test, "letter", "letter", 8, {}, true},
      {"TextVQA", {"TextVQA"}, {"train.json"}, val, "textvqa", "textvqa", 16, {}},
      {"ImageNet", {"ImageNet"}, {"train.json"}, test, "contains", "contains_coin", 24, {}},
      {"GQA", {"GQA"}, {"train.json"}, test, "gqa", "gqa", 8, {}},
      {"VizWiz", {"VizWiz"}, {"train.json"}, val, "exact", "exact_coin", 16, {}},
      {"Grounding", {"Grounding"}, {"train.json"}, test, "iou50", "iou50_coin", 48, {}},
      {"VQAv2", {"VQAv2"}, {"train.json"}, val, "exact", "exact_coin", 16, {}},
      {"OCR-VQA", {"OCR-VQA", "OCRVQA"}, {"train.json"}, test, "exact_ocrvqa", "exact_ocrvqa", 32, {}}};
  return tasks;
}

// TextVQA's ten answers a question.
void read_textvqa(Preparation& preparation, const std::string& path, InstructionReferences& out) {
  preparation.read(path, [&](const FileRecord& record, const RowPlace& place) {
    if (record.key != "data" || record.in_map) return;
    SampleRow row;
    const auto id = record.value.is_object() ? text_of(record.value.value("question_id", json())) : "";
    const auto reason = read_row(record.value, row);
    if (id.empty() || !reason.empty() || row.references.empty())
      return preparation.bad(place, id, reason.empty() ? "needs question_id and answers" : reason);
    out.by_id[id] = row.references;
  });
}

// ScienceQA's right choice as a letter.
void read_problems(Preparation& preparation, const std::string& path, InstructionReferences& out) {
  preparation.read(path, [&](const FileRecord& record, const RowPlace& place) {
    const auto answer = record.value.is_object() ? record.value.value("answer", json()) : json();
    if (!answer.is_number_integer() || answer.get<int64_t>() < 0 || answer.get<int64_t>() > 25)
      return preparation.bad(place, record.key, "has no answer from 0 to 25");
    out.by_id[record.key] = {std::string(1, static_cast<char>('A' + answer.get<int64_t>()))};
  });
}

InstructionReferences coin_references(Preparation& preparation, const InstructionTask& task, const std::string& root) {
  InstructionReferences out;
  const auto find = [&](const char* file) {
    auto names = instruction_paths(root, task, {file});
    names.push_back(file);
    return preparation.find(names);
  };
  if (task.name == "TextVQA") {
    const auto path = find("TextVQA_0.5.1_val.json");
    if (path.empty())
      preparation.note("no TextVQA_0.5.1_val.json: TextVQA is scored against one answer instead of ten");
    else
      read_textvqa(preparation, path, out);
  }
  if (task.name == "ScienceQA")
    if (const auto path = find("problems.json"); !path.empty()) read_problems(preparation, path, out);
  return out;
}

}  // namespace

void prepare_coin(Preparation& preparation) {
  const auto& variant = preparation.choose_variant({"original", "diverse", "10type"});
  const std::string folder = variant == "original"  ? "Instructions_Original"
                             : variant == "diverse" ? "Instructions_Diverse"
                                                    : "Instructions_10Type";
  prepare_instructions(preparation, coin_tasks(), {folder}, coin_references);
}

}  // namespace asr
