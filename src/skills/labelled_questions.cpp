#include "skills/labelled_questions.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "io/csv.h"
#include "io/json_records.h"
#include "io/mapped_file.h"
#include "skills/rules.h"
#include "skills/taxonomy.h"
#include "skills/words.h"

namespace asr {
namespace {

LabelledQuestion labelled(const std::string& text, const std::string& skill, const std::string& place) {
  try {
    return {text, skill_index(skill), {}};
  } catch (const Error& error) {
    fail(place, ": ", error.what());
  }
}

LabelledQuestion ruled(const std::string& text, const std::string& type) {
  LabelledQuestion out{text, 0, rule_posterior(text, type.empty() ? vqa_question_type(text) : type)};
  out.skill = static_cast<int>(std::max_element(out.target.begin(), out.target.end()) - out.target.begin());
  return out;
}

class Collector {
 public:
  explicit Collector(bool require_skill) : require_skill_(require_skill) {}

  void add(const std::string& text, const std::string& skill, const std::string& type, const std::string& place) {
    check(!skill.empty() || !require_skill_, place, ": lacks the text 'skill'");
    questions.push_back(label_question(text, skill, type, place));
  }
  std::vector<LabelledQuestion> questions;

 private:
  bool require_skill_;
};

void read_tsv(ByteSpan bytes, const std::string& path, Collector& out) {
  read_lines(bytes, [&](const std::string& line, size_t number) {
    if (line[0] == '#') return;
    const size_t tab = line.find('\t');
    check(tab != std::string::npos && tab > 0, path, ":", number, ": has no tab; expected a skill, a tab, a question");
    out.add(line.substr(tab + 1), line.substr(0, tab), "", cat(path, ":", number));
  });
}

void read_csv(ByteSpan bytes, const std::string& path, Collector& out) {
  std::vector<std::string> header;
  const auto column = [&](const char* name) {
    return static_cast<size_t>(std::find(header.begin(), header.end(), name) - header.begin());
  };
  read_lines(bytes, [&](const std::string& line, size_t number) {
    const auto place = cat(path, ":", number);
    const auto fields = split_csv_line(line, place);
    if (header.empty()) {
      header = fields;
      check(column("question") < header.size(), place, ": the header has no column 'question'");
      return;
    }
    check(fields.size() == header.size(), place, ": has ", fields.size(), " fields; the header has ", header.size());
    const auto field = [&](const char* name) { return column(name) < fields.size() ? fields[column(name)] : ""; };
    out.add(field("question"), field("skill"), field("type"), place);
  });
}

void add_record(const nlohmann::json& row, const std::string& place, Collector& out) {
  const auto text = [&](const char* key) -> std::string {
    const auto found = row.find(key);
    if (found == row.end()) return "";
    check(found->is_string(), place, ": '", key, "' is no text");
    return found->get<std::string>();
  };
  check(row.contains("question"), place, ": lacks the text 'question'");
  out.add(text("question"), text("skill"), text("question_type"), place);
}

void read_document(ByteSpan bytes, const std::string& path, Collector& out) {
  read_json_records(bytes, path, [&](const JsonRecord& record) {
    if (!record.in_map) add_record(record.value, record.place, out);  // VQA v2's files have maps `info`, `license`
  });
}

void read_json_lines(ByteSpan bytes, const std::string& path, Collector& out) {
  read_lines(bytes, [&](const std::string& line, size_t number) {
    const auto row = parse_json(line, path, number);
    const auto place = cat(path, ":", number);
    check(row.is_object(), place, ": is no JSON object; expected {\"question\": \"...\", \"skill\": \"...\"}");
    add_record(row, place, out);
  });
}

}  // namespace

std::vector<LabelledQuestion> read_labelled_questions(const std::string& path, bool require_skill) {
  const auto file = MappedFile::open(path);
  const auto bytes = skip_mark(file->bytes());
  Collector out(require_skill);
  if (ends_with(path, ".tsv"))
    read_tsv(bytes, path, out);
  else if (ends_with(path, ".csv"))
    read_csv(bytes, path, out);
  else if (ends_with(path, ".json"))
    read_document(bytes, path, out);
  else
    read_json_lines(bytes, path, out);
  check(!out.questions.empty(), path, ": holds no questions");
  return std::move(out.questions);
}

LabelledQuestion label_question(const std::string& text, const std::string& skill, const std::string& type,
                                const std::string& place) {
  return skill.empty() ? ruled(text, type) : labelled(text, skill, place);
}

std::string question_key(const std::string& question) {
  std::string out;
  for (const auto& piece : split_text(question))
    if (piece.word) out += lower_case(piece.text) + " ";
  return out;
}

}  // namespace asr
