// Patterns over the words of a question, for the table of rules. Elements stand apart by spaces:
//   word        this word            a|b         one of them           *        any words, also none
//   ^  (first)  from the first word  $  (last)   up to the last word   <class>  a word of a class, see the list in the
//   .cpp
// Without ^ a pattern may begin at any word.
#pragma once

#include <string>
#include <vector>

namespace asr {

class QuestionPattern {
 public:
  explicit QuestionPattern(const std::string& text);
  bool matches(const std::vector<std::string>& words) const;  // lower-cased

 private:
  struct Element {
    bool gap = false;                  // "*"
    std::vector<std::string> options;  // words and "<class>"es
  };
  bool match_from(size_t element, const std::vector<std::string>& words, size_t at) const;

  bool start_ = false, end_ = false;
  std::vector<Element> elements_;
};

}  // namespace asr
