// Questions with the skill they ask for, to train and measure the skill parser.
#pragma once

#include <string>
#include <vector>

namespace asr {

struct LabelledQuestion {
  std::string text;
  int skill = 0;  // index into skill_names()
};

// JSON lines {"question": "...", "skill": "..."}, other keys ignored; skills by name or alias. Empty lines are skipped;
// an error names the line.
std::vector<LabelledQuestion> read_labelled_questions(const std::string& path);

}  // namespace asr
