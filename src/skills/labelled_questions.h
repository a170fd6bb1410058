// Questions with the skill they ask for, to train and measure the skill parser: from files of questions that carry
// labels, from data sets that carry none (the rules label those), and from templates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace asr {

struct LabelledQuestion {
  std::string text;
  int skill = 0;                   // index into skill_names()
  std::vector<float> target = {};  // a distribution over the skills to train on; empty: all mass on `skill`
};

// Every question of a file, by its name's ending:
//   .tsv   skill, tab, question; lines that begin with # are comments
//   .csv   with a header that names a column `question` and perhaps `skill` or `type` (NExT-QA's)
//   .json  a document of records with `question` (VQA v2's questions file) and perhaps `skill` or `question_type`
//   else   JSON lines of such records
// Skills are names or aliases. Without one the rules label the question, softly, and `require_skill` refuses it.
// Empty lines are skipped; an error names the line.
std::vector<LabelledQuestion> read_labelled_questions(const std::string& path, bool require_skill = true);

// One question: with the skill that is named, or softly by the rules, which look at its type, too, where it has one.
LabelledQuestion label_question(const std::string& text, const std::string& skill, const std::string& type,
                                const std::string& place);

// Questions made from templates, all skills in turn: data sets hold few that compare numbers, ask for boxes, and so on.
std::vector<LabelledQuestion> templated_questions(int64_t count, uint64_t seed);

// Lower case, words alone: what counts as the same question.
std::string question_key(const std::string& question);

}  // namespace asr
