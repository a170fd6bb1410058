#include "metrics/answer_files.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"
#include "io/csv.h"
#include "io/json_records.h"

namespace asr {
namespace {

using nlohmann::json;

struct Row {
  std::string id, place, text;  // text: of a prediction
  std::vector<std::string> references;
  std::string type;
};

// Rows in file order, findable by id.
struct Rows {
  std::string path;
  std::vector<Row> rows;
  std::unordered_map<std::string, size_t> by_id;
  bool captions = false;  // COCO style: several records an id, which is an image's

  void add(Row row) {
    const auto [place, added] = by_id.emplace(row.id, rows.size());
    if (added) return rows.push_back(std::move(row));
    auto& first = rows[place->second];
    check(captions, row.place, ": question_id '", printable(row.id), "' stands twice, first at ", first.place);
    first.references.push_back(row.references[0]);
  }
};

std::string text_of(const json& value, const std::string& place, const std::string& field) {
  if (value.is_number_integer()) return value.dump();
  check(value.is_string(), place, ": '", field, "' must be a string, found ", value.type_name());
  return value.get<std::string>();
}

std::string id_of(const JsonRecord& record, const char* fallback = nullptr) {
  for (const char* field : {"question_id", "questionId", fallback})
    if (field && record.value.contains(field)) return text_of(record.value.at(field), record.place, field);
  check(record.in_map, record.place, ": has no 'question_id'");
  return record.key;
}

std::vector<std::string> list_of(const json& value, const std::string& place, const std::string& field) {
  check(value.is_array(), place, ": '", field, "' must be a list, found ", value.type_name());
  std::vector<std::string> out;
  for (const auto& item : value) {
    const bool annotated = item.is_object() && item.contains("answer");  // VQA: {"answer": ..., "answer_id": ...}
    out.push_back(text_of(annotated ? item.at("answer") : item, place, field));
  }
  return out;
}

std::vector<std::string> references_of(const JsonRecord& record) {
  const auto& value = record.value;
  if (value.contains("answer_bbox")) return {text_of(value.at("answer_bbox"), record.place, "answer_bbox")};
  for (const char* field : {"references", "answers"})
    if (value.contains(field)) {
      auto out = list_of(value.at(field), record.place, field);
      if (!out.empty() || !value.contains("answer")) return out;
    }
  for (const char* field : {"answer", "caption"})
    if (value.contains(field)) return {text_of(value.at(field), record.place, field)};
  return {};
}

void add_reference(const JsonRecord& record, Rows& out) {
  const auto& value = record.value;
  if (record.key == "images" || record.key == "info" || record.key == "licenses" || record.key == "license") return;
  const bool caption = value.contains("caption") && value.contains("image_id") && !value.contains("question_id");
  out.captions |= caption;
  Row row{id_of(record, caption ? "image_id" : nullptr), record.place, "", references_of(record), ""};
  check(!row.references.empty(), record.place, ": question_id '", printable(row.id),
        "' has no reference; give 'answer', 'answers' or 'references'");
  for (const char* field : {"question_type", "type"})
    if (value.contains(field) && value.at(field).is_string()) row.type = value.at(field).get<std::string>();
  out.add(std::move(row));
}

void add_prediction(const JsonRecord& record, Rows& out) {
  const auto& value = record.value;
  const bool answer = value.contains("answer") && !value.contains("text");
  if (record.in_map && !answer && !value.contains("text")) {  // NExT-QA: the map of one video
    for (const auto& [qid, text] : value.items())
      out.add({record.key + "_" + qid, record.place, text_of(text, record.place, qid), {}, ""});
    return;
  }
  const auto id = id_of(record);
  check(answer || value.contains("text"), record.place, ": question_id '", printable(id), "' has no 'text'");
  const char* field = answer ? "answer" : "text";
  out.add({id, record.place, text_of(value.at(field), record.place, field), {}, ""});
}

// NExT-QA: a header with video, qid, answer and type; the question's id is "video_qid".
void read_nextqa_csv(ByteSpan bytes, Rows& out) {
  const char* const names[] = {"video", "qid", "answer", "type"};
  size_t width = 0, column[4] = {};
  read_lines(bytes, [&](const std::string& line, size_t number) {
    const std::string place = cat(out.path, ":", number);
    const auto fields = split_csv_line(line, place);
    if (width > 0) {
      check(fields.size() == width, place, ": has ", fields.size(), " fields but the header has ", width);
      return out.add({fields[column[0]] + "_" + fields[column[1]], place, "", {fields[column[2]]}, fields[column[3]]});
    }
    width = fields.size();
    for (size_t i = 0; i < 4; ++i) {
      column[i] = static_cast<size_t>(std::find(fields.begin(), fields.end(), names[i]) - fields.begin());
      check(column[i] < width, place, ": has no column '", names[i],
            "'; expected JSON lines or a CSV file with video, qid, answer and type");
    }
  });
}

Rows read_rows(const std::string& path, bool are_references) {
  Rows out;
  out.path = path;
  const auto file = MappedFile::open(path);
  const auto bytes = skip_mark(file->bytes());
  const char* wanted = are_references ? "references" : "predictions (JSON lines with question_id and text)";
  check(bytes.size > 0, path, ": is empty; expected ", wanted);
  const auto first = std::find_if(bytes.data, bytes.data + bytes.size, [](uint8_t c) { return c > ' '; });
  const bool is_json = first != bytes.data + bytes.size && (*first == '{' || *first == '[');
  if (are_references && !is_json)
    read_nextqa_csv(bytes, out);
  else
    read_json_records(bytes, path, [&](const JsonRecord& record) {
      are_references ? add_reference(record, out) : add_prediction(record, out);
    });
  check(!out.rows.empty(), path, ": holds no ", wanted);
  return out;
}

}  // namespace

std::vector<Answered> load_answered(const std::string& predictions, const std::string& references) {
  const auto said = read_rows(predictions, false);
  const auto truth = read_rows(references, true);
  const bool by_row = truth.captions && !truth.by_id.count(said.rows[0].id);
  check(!by_row || said.rows.size() == truth.rows.size(), predictions, ": ", said.rows.size(), " predictions for ",
        truth.rows.size(), " images in ", references, "; their ids differ, so they must match row by row");
  std::vector<Answered> out;
  for (size_t i = 0; i < said.rows.size(); ++i) {
    const auto& row = said.rows[i];
    const auto found = truth.by_id.find(row.id);
    check(by_row || found != truth.by_id.end(), row.place, ": question_id '", printable(row.id),
          "' has no reference in ", references);
    const auto& match = truth.rows[by_row ? i : found->second];
    out.push_back({row.id, row.text, match.references, match.type});
  }
  if (!by_row)
    for (const auto& row : truth.rows)
      check(said.by_id.count(row.id) > 0, row.place, ": question_id '", printable(row.id), "' has no prediction in ",
            predictions);
  return out;
}

}  // namespace asr
