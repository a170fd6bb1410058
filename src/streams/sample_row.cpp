#include "streams/sample_row.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "streams/conversation.h"
#include "streams/picture_member.h"

namespace asr {
namespace {

using nlohmann::json;

constexpr size_t kLongestId = 1000;

// The first of these members that is there, as text.
std::string first_text(const json& value, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (value.contains(name) && !value[name].is_null()) return trimmed(text_of(value[name]));
  return "";
}

// ["a", "b"], or [{"answer": "a"}, ...] as VQA v2 has it.
std::string read_list(const json& list, const char* name, std::vector<std::string>& out) {
  if (!list.is_array()) return cat("'", name, "' is no list");
  if (list.size() > kMostReferences)
    return cat("'", name, "' has ", list.size(), " entries; at most ", kMostReferences);
  for (const auto& entry : list) {
    const auto text = text_of(entry.is_object() && entry.contains("answer") ? entry["answer"] : entry);
    if (text.empty() && !entry.is_string() && !entry.is_object())
      return cat("'", name, "' holds something else than text");
    out.push_back(trimmed(text));
  }
  return "";
}

std::string members_of(const json& value) {
  std::string out;
  for (const auto& [name, member] : value.items()) out += cat(out.empty() ? "'" : ", '", printable(name, 20), "'");
  return printable(out, 200);
}

// What all answers of a record share.
std::string read_common(const json& value, const std::string& fallback, SampleRow& row) {
  if (!value.is_object()) return cat("is a JSON ", value.type_name(), ", not an object");
  row.id = first_text(value, {"id", "question_id", "qid"});
  if (row.id.empty()) row.id = fallback;
  if (auto reason = read_picture_member(value, row.image); !reason.empty()) return reason;
  row.skill = first_text(value, {"skill"});
  row.type = first_text(value, {"type", "question_type"});
  row.concept_group = first_text(value, {"group"});
  row.part = first_text(value, {"part"});
  row.category = first_text(value, {"category"});
  for (const char* name : {"references", "answers"})
    if (value.contains(name) && row.references.empty())
      if (auto reason = read_list(value[name], name, row.references); !reason.empty()) return reason;
  return "";
}

// A picture that a part of the content names, beside the record's own.
std::string join_pictures(const Conversation& talk, SampleRow& row) {
  for (const auto& path : talk.pictures) {
    if (!row.image.empty() && row.image != path) return "names several pictures; a row has one";
    row.image = path;
  }
  return "";
}

std::string read_exchanges(const json& list, const SampleRow& common, std::vector<SampleRow>& rows) {
  Conversation talk;
  if (auto reason = read_conversation(list, talk); !reason.empty()) return reason;
  auto row = common;
  row.wants_picture = talk.marked;
  if (auto reason = join_pictures(talk, row); !reason.empty()) return reason;
  if (talk.exchanges.size() > 1 && !row.references.empty()) return "has several answers, but references for one";
  for (size_t i = 0; i < talk.exchanges.size(); ++i) {
    rows.push_back(row);
    rows.back().question = talk.exchanges[i].question;
    rows.back().answer = talk.exchanges[i].answer;
    if (i > 0) rows.back().id += cat("#", i + 1);
  }
  return "";
}

size_t characters(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string length_problem(const char* what, const std::string& text) {
  const size_t length = text.size() <= kLongestText ? 0 : characters(text);
  return length <= kLongestText ? "" : cat(what, " has ", length, " characters; at most ", kLongestText);
}

std::string seen(const SampleRow& row) {
  return row.members.empty() ? "" : "; has " + row.members;
}

std::string picture_absence(const SampleRow& row, bool text_only) {
  if (!row.image.empty() || (text_only && !row.wants_picture)) return "";
  return cat(row.wants_picture ? "wants a picture but names none" : "names no picture", seen(row), "; name it 'image'",
             text_only || row.wants_picture ? "" : ", or declare rows of text alone (--text-only, docs/streams.md)");
}

}  // namespace

std::string text_of(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  return value.is_number() ? value.dump() : "";
}

std::string read_rows(const json& value, const std::string& fallback, std::vector<SampleRow>& rows) {
  rows.clear();
  SampleRow common;
  const auto refused = [&](const std::string& reason) {
    rows.assign(1, common);  // for its id
    return reason;
  };
  if (auto reason = read_common(value, fallback, common); !reason.empty()) return refused(reason);
  const char* talk = value.contains("conversations") ? "conversations" : "messages";
  if (value.contains(talk)) {
    const auto reason = read_exchanges(value[talk], common, rows);
    if (!reason.empty()) return refused(cat("'", talk, "' ", reason));
  } else {
    common.question = without_picture_marks(first_text(value, {"question", "text"}), common.wants_picture);
    common.answer = first_text(value, {"answer", "multiple_choice_answer"});
    if (common.answer.empty() && !common.references.empty()) common.answer = common.references[0];
    rows.push_back(std::move(common));
  }
  for (auto& row : rows) {
    if (!row.image.empty() && !row.question.empty() && !row.answer.empty()) continue;
    row.members = members_of(value);
    row.wants_picture = row.wants_picture || (row.image.empty() && !unknown_picture_member(value).empty());
  }
  return "";
}

std::string read_row(const json& value, SampleRow& row) {
  std::vector<SampleRow> rows;
  const auto reason = read_rows(value, "", rows);
  row = std::move(rows[0]);
  if (!reason.empty()) return reason;
  if (rows.size() > 1) return cat("has ", rows.size(), " answers; these files have one, so give each pair its own row");
  return "";
}

std::string row_problem(const SampleRow& row, bool text_only) {
  if (row.id.empty()) return "has no id";
  if (row.id.size() > kLongestId) return cat("the id has ", row.id.size(), " bytes; at most ", kLongestId);
  if (row.question.empty()) return "has no question" + seen(row);
  if (row.answer.empty()) return "has no answer" + seen(row);
  if (auto reason = length_problem("the question", row.question); !reason.empty()) return reason;
  if (auto reason = length_problem("the answer", row.answer); !reason.empty()) return reason;
  for (const auto& text : row.references)
    if (auto reason = length_problem("a reference", text); !reason.empty()) return reason;
  return picture_absence(row, text_only);
}

std::string row_line(const SampleRow& row) {
  nlohmann::ordered_json out;
  out["id"] = row.id;
  const auto put = [&](const char* name, const std::string& text) {
    if (!text.empty()) out[name] = text;
  };
  put("image", row.image);
  put("question", row.question);
  put("answer", row.answer);
  if (!row.references.empty()) out["references"] = row.references;
  put("skill", row.skill);
  put("type", row.type);
  put("group", row.concept_group);
  put("part", row.part);
  put("category", row.category);
  return out.dump();
}

}  // namespace asr
