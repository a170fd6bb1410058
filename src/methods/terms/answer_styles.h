// A training sample asked in another style: yes or no, a choice between letters, an answer in a sentence. Templates
// made of the stage's own answers; which sample becomes what depends on a key alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace asr {

struct StyledText {
  std::string question, answer;
};

// The different answers of a stage, sorted: other answers are drawn from them.
std::vector<std::string> answer_list(const std::vector<std::string>& answers);

// Where fewer than two answers are known, or the answer is yes or no itself, only the sentence is left.
StyledText restyled(const StyledText& original, const std::vector<std::string>& answers, uint64_t key);

}  // namespace asr
