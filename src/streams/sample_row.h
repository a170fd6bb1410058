// One sample as a row of a file: what a prepared stream stores, and what a user's row or an instruction row of LLaVA's
// form is read into.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace asr {

struct SampleRow {
  std::string id;
  std::string image;  // relative to the stream's folder of images; a folder holds frames of a video; empty: no picture
  std::string question, answer;
  std::vector<std::string> references;  // every right answer, or what each annotator said; empty: `answer` alone
  std::string skill;                    // only where the stream knows it
  std::string type;                     // of the question, where the metric depends on it
  std::string concept_group;            // of VQACL
  std::string part;                     // head, medium, tail or unseen
};

// Fills `row` from an object and returns "", or the reason why it is none. Taken are: id, question_id or qid; image or
// video (also a list of one; backslashes become slashes); question or text; answer, or the first of answers or
// references; conversations or messages (one question, one answer, perhaps after a turn of the system).
std::string read_row(const nlohmann::json& value, SampleRow& row);

// What a sample cannot do without: an id, a question, an answer. "" where all of it is there.
std::string row_problem(const SampleRow& row);

std::string row_line(const SampleRow& row);  // JSON without a line end; empty members are left out

// Text of a JSON string, number or truth value (yes, no); empty for anything else.
std::string text_of(const nlohmann::json& value);

}  // namespace asr
