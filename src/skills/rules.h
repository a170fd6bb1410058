// The skill of a question by rules over its wording: labels for real questions that carry none, and the mode `rule` of
// a run. First match in an ordered table of patterns; where only a weak one fires, the question type of the data set
// decides. docs/skills.md has the guide to the skills that the rules follow.
#pragma once

#include <string>
#include <vector>

namespace asr {

struct RuleAnswer {
  const char* skill = "other";  // a built-in name
  const char* second = "";      // the next likeliest; empty: none in particular
  double confidence = 0;        // that `skill` is right
  const char* rule = "";        // the pattern or question type that decided
};

// `question_type`: one of VQA v2's 65 types, a type of NExT-QA (CW, TN, ...), or empty.
RuleAnswer apply_rules(const std::string& question, const std::string& question_type = "");

// The answer as a distribution over the taxonomy in use: the second skill gets half of what the confidence leaves, the
// rest is spread evenly.
std::vector<float> rule_posterior(const std::string& question, const std::string& question_type = "");

// VQA v2's type of a question, as its annotations have it: the longest of the official openings that the question
// starts with, or "none of the above".
std::string vqa_question_type(const std::string& question);

}  // namespace asr
