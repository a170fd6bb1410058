#include "streams/sample_row.h"

#include <algorithm>

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

struct Turn {
  std::string role, text;
};

// {"from": "human", "value": ...} of LLaVA, or {"role": "user", "content": ...}.
std::string read_turn(const json& turn, Turn& out) {
  for (const auto& [role, text] : {std::pair("from", "value"), std::pair("role", "content")}) {
    if (!turn.is_object() || !turn.contains(role) || !turn.contains(text) || !turn[text].is_string()) continue;
    out.role = text_of(turn[role]), out.text = without_image_mark(turn[text].get<std::string>());
    if (out.role == "user") out.role = "human";
    if (out.role == "assistant") out.role = "gpt";
    return "";
  }
  return "has a turn without from and value";
}

// One question and one answer. What a system turn says stands before the question, so that no text is lost.
std::string read_conversation(const json& list, SampleRow& row) {
  if (!list.is_array()) return "is no list of turns";
  std::vector<Turn> turns;
  for (const auto& entry : list) {
    turns.emplace_back();
    if (auto reason = read_turn(entry, turns.back()); !reason.empty()) return reason;
  }
  std::string before;
  if (!turns.empty() && turns[0].role == "system") {
    if (!turns[0].text.empty()) before = turns[0].text + "\n";
    turns.erase(turns.begin());
  }
  if (turns.size() != 2)
    return cat("has ", turns.size(), " turns; one question and one answer make a row, so give each pair its own");
  if (turns[0].role != "human" || turns[1].role != "gpt")
    return cat("is not human, then gpt, but ", printable(turns[0].role), ", then ", printable(turns[1].role));
  row.question = before + turns[0].text, row.answer = turns[1].text;
  return "";
}

// A path, or a list of one. Anything else would silently leave a question without its picture.
std::string read_picture_member(const json& value, SampleRow& row) {
  for (const char* name : {"image", "video"}) {
    if (!value.contains(name) || value[name].is_null()) continue;
    const auto& member = value[name];
    const bool listed = member.is_array();
    if (listed && member.size() > 1) return cat("'", name, "' names ", member.size(), " pictures; a row has one");
    if (listed && member.empty()) return "";
    const auto& path = listed ? member[0] : member;
    if (!path.is_string() && !path.is_number()) return cat("'", name, "' is a JSON ", path.type_name(), ", not a path");
    row.image = trimmed(text_of(path));
    std::replace(row.image.begin(), row.image.end(), '\\', '/');
    return "";
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
  if (auto reason = read_picture_member(value, row); !reason.empty()) return reason;
  row.skill = first_text(value, {"skill"}), row.type = first_text(value, {"type", "question_type"});
  row.concept_group = first_text(value, {"group"}), row.part = first_text(value, {"part"});
  for (const char* name : {"references", "answers"})
    if (value.contains(name) && row.references.empty())
      if (auto reason = read_list(value[name], name, row.references); !reason.empty()) return reason;
  const char* talk = value.contains("conversations") ? "conversations" : "messages";
  if (value.contains(talk)) {
    if (auto reason = read_conversation(value[talk], row); !reason.empty()) return cat("'", talk, "' ", reason);
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
