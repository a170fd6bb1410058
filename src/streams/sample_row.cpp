#include "streams/sample_row.h"

#include "base/error.h"
#include "base/text.h"

namespace asr {
namespace {

using nlohmann::json;

// The first of these members that is there, as text.
std::string first_text(const json& value, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (value.contains(name) && !value[name].is_null()) return trimmed(text_of(value[name]));
  return "";
}

// ["a", "b"], or [{"answer": "a"}, ...] as VQA v2 has it.
std::string read_list(const json& list, const char* name, std::vector<std::string>& out) {
  if (!list.is_array()) return cat("'", name, "' is no list");
  for (const auto& entry : list) {
    const auto text = text_of(entry.is_object() && entry.contains("answer") ? entry["answer"] : entry);
    if (text.empty() && !entry.is_string() && !entry.is_object())
      return cat("'", name, "' holds something else than text");
    out.push_back(trimmed(text));
  }
  return "";
}

std::string without_image_mark(std::string text) {
  static const std::string mark = "<image>";
  for (size_t at; (at = text.find(mark)) != std::string::npos;) text.erase(at, mark.size());
  return trimmed(text);
}

std::string read_conversation(const json& turns, SampleRow& row) {
  if (!turns.is_array() || turns.size() != 2) return "'conversations' is not one question and one answer";
  for (size_t i = 0; i < 2; ++i) {
    const auto& turn = turns[i];
    if (!turn.is_object() || !turn.contains("from") || !turn.contains("value") || !turn["value"].is_string())
      return "'conversations' holds a turn without from and value";
    if (text_of(turn["from"]) != (i == 0 ? "human" : "gpt")) return "'conversations' is not human, then gpt";
    auto& text = i == 0 ? row.question : row.answer;
    text = without_image_mark(turn["value"].get<std::string>());
  }
  return "";
}

}  // namespace

std::string text_of(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  return value.is_number() ? value.dump() : "";
}

std::string read_row(const json& value, SampleRow& row) {
  if (!value.is_object()) return cat("is a JSON ", value.type_name(), ", not an object");
  row = {};
  row.id = first_text(value, {"id", "question_id", "qid"});
  row.image = first_text(value, {"image", "video"});
  row.skill = first_text(value, {"skill"}), row.type = first_text(value, {"type", "question_type"});
  row.concept_group = first_text(value, {"group"}), row.part = first_text(value, {"part"});
  for (const char* name : {"references", "answers"})
    if (value.contains(name) && row.references.empty())
      if (auto reason = read_list(value[name], name, row.references); !reason.empty()) return reason;
  if (value.contains("conversations")) {
    if (auto reason = read_conversation(value["conversations"], row); !reason.empty()) return reason;
  } else {
    row.question = without_image_mark(first_text(value, {"question", "text"}));
    row.answer = first_text(value, {"answer", "multiple_choice_answer"});
    if (row.answer.empty() && !row.references.empty()) row.answer = row.references[0];
  }
  return "";
}

std::string row_problem(const SampleRow& row) {
  if (row.id.empty()) return "has no id";
  if (row.question.empty()) return "has no question";
  if (row.answer.empty()) return "has no answer";
  return "";
}

std::string row_line(const SampleRow& row) {
  nlohmann::ordered_json out;
  out["id"] = row.id;
  const auto put = [&](const char* name, const std::string& text) {
    if (!text.empty()) out[name] = text;
  };
  put("image", row.image), put("question", row.question), put("answer", row.answer);
  if (!row.references.empty()) out["references"] = row.references;
  put("skill", row.skill), put("type", row.type), put("group", row.concept_group), put("part", row.part);
  return out.dump();
}

}  // namespace asr
