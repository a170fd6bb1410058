// One sample as a row of a file: what a prepared stream stores, and what a user's row or an instruction row of LLaVA's
// form is read into.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace asr {

// Characters of a question with the turns before it, and of an answer. Longer ones would only be met as a want of
// memory, hours later; LLaVA's 4,096 positions hold some 12,000 characters with a picture.
inline constexpr size_t kLongestText = 10'000;
inline constexpr size_t kMostReferences = 1000;

struct SampleRow {
  std::string id;
  std::string image;  // relative to the stream's folder of images; a folder holds frames of a video; empty: no picture
  std::string question, answer;
  std::vector<std::string> references;  // every right answer, or what each annotator said; empty: `answer` alone
  std::string skill;                    // only where the stream knows it
  std::string type;                     // of the question, where the metric depends on it
  std::string concept_group;            // of VQACL
  std::string part;                     // head, medium, tail or unseen
  std::string category = {};            // of the object that the picture shows
  bool wants_picture = false;  // says <image>, or has a member that looks like a picture though it is not called so
  std::string members = {};    // "'a', 'b'", of a row that lacks a question, an answer or a picture: for the message
};

// The rows of a record, one for each answer of its conversation (`messages` or `conversations`); further answers have
// the id with #2, #3, ... and all turns before them in their question. `fallback` is the id of a record without one.
// Returns "", or the reason why the record is none, with one row that has its id. Taken are: id, question_id or qid; a
// picture (picture_member.h); question or text; answer, or the first of answers or references.
std::string read_rows(const nlohmann::json& value, const std::string& fallback, std::vector<SampleRow>& rows);

// The same for files that have one answer a record.
std::string read_row(const nlohmann::json& value, SampleRow& row);

// What a sample cannot do without: an id, a question, an answer, and a picture unless rows of text alone are declared;
// and what is too long. "" where all is well.
std::string row_problem(const SampleRow& row, bool text_only);

std::string row_line(const SampleRow& row);  // JSON without a line end; empty members are left out

// Text of a JSON string, number or truth value (yes, no); empty for anything else.
std::string text_of(const nlohmann::json& value);

}  // namespace asr
