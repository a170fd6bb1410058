#include "methods/terms/answer_styles.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/random.h"

namespace asr {
namespace {

constexpr size_t kMostChoices = 4;

// `count` answers of the list other than `answer`, by the generator's order.
std::vector<std::string> others(const std::string& answer, const std::vector<std::string>& list, size_t count,
                                Random& random) {
  std::vector<std::string> rest;
  for (const auto& entry : list)
    if (entry != answer) rest.push_back(entry);
  for (size_t i = 0; i < std::min(count, rest.size()); ++i)
    std::swap(rest[i], rest[i + random.below(static_cast<uint32_t>(rest.size() - i))]);
  rest.resize(std::min(count, rest.size()));
  return rest;
}

StyledText yes_or_no(const StyledText& original, const std::vector<std::string>& list, Random& random) {
  const bool right = random.below(2) == 0;
  const auto named = right ? original.answer : others(original.answer, list, 1, random).at(0);
  return {cat(original.question, " is the answer ", named, " ? yes or no"), right ? "yes" : "no"};
}

StyledText choice(const StyledText& original, const std::vector<std::string>& list, Random& random) {
  auto options = others(original.answer, list, kMostChoices - 1, random);
  const size_t place = random.below(static_cast<uint32_t>(options.size() + 1));
  options.insert(options.begin() + static_cast<int64_t>(place), original.answer);
  std::string text = original.question;
  for (size_t i = 0; i < options.size(); ++i) text += cat(" ", char('A' + i), ". ", options[i]);
  return {text + " answer with the letter", std::string(1, char('A' + place))};
}

StyledText sentence(const StyledText& original) {
  return {original.question + " answer in a sentence", cat("the answer is ", original.answer)};
}

}  // namespace

std::vector<std::string> answer_list(const std::vector<std::string>& answers) {
  const std::set<std::string> different(answers.begin(), answers.end());
  return {different.begin(), different.end()};
}

StyledText restyled(const StyledText& original, const std::vector<std::string>& answers, uint64_t key) {
  Random random({key, 0x57e1});
  const bool others_known =
      answers.size() > (std::binary_search(answers.begin(), answers.end(), original.answer) ? 1 : 0);
  const bool judged = original.answer == "yes" || original.answer == "no";
  if (!others_known || judged) return sentence(original);
  switch (random.below(3)) {
    case 0:
      return yes_or_no(original, answers, random);
    case 1:
      return choice(original, answers, random);
    default:
      return sentence(original);
  }
}

}  // namespace asr
