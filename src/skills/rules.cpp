#include "skills/rules.h"

#include <algorithm>
#include <map>

#include "skills/functional_tokens.h"
#include "skills/question_pattern.h"
#include "skills/taxonomy.h"
#include "skills/words.h"

namespace asr {
namespace {

// How often a pattern of each kind is right, estimated by reading training questions (docs/skills.md).
constexpr double kSure = 0.97, kFair = 0.75, kWeak = 0.4;

struct Rule {
  const char *pattern, *skill, *second;
  double confidence;
};

// In order of precedence: what names its skill in so many words comes first, sentence forms later, openings last.
constexpr Rule kRules[] = {
#include "skills/rules.inc"
};

struct TypeRule {
  const char *type, *skill;
};

// Skills of question types, where one fits nearly all questions of the type; others are left to the text.
constexpr TypeRule kVqaTypes[] = {{"how many", "count"},
                                  {"is the", ""},
                                  {"what", "object"},
                                  {"what is the", "object"},
                                  {"what color is the", "color"},
                                  {"is this", ""},
                                  {"is this a", "object"},
                                  {"none of the above", ""},
                                  {"how many people are", "count"},
                                  {"are the", ""},
                                  {"is there a", "existence"},
                                  {"what is", "object"},
                                  {"what kind of", "fine-grained"},
                                  {"is it", "attribute"},
                                  {"how", "other"},
                                  {"is there", "existence"},
                                  {"is", ""},
                                  {"what type of", "fine-grained"},
                                  {"how many people are in", "count"},
                                  {"what time", "read"},
                                  {"does the", ""},
                                  {"what are the", "object"},
                                  {"are there", "existence"},
                                  {"are these", "object"},
                                  {"where is the", "location"},
                                  {"which", "grounding"},
                                  {"is the man", ""},
                                  {"what number is", "read"},
                                  {"are", ""},
                                  {"what color are the", "color"},
                                  {"does this", ""},
                                  {"what is the man", "relation"},
                                  {"what does the", "read"},
                                  {"what is this", "object"},
                                  {"what is in the", "relation"},
                                  {"what is on the", "relation"},
                                  {"are they", ""},
                                  {"are there any", "existence"},
                                  {"do", "other"},
                                  {"why", "other"},
                                  {"what are", "object"},
                                  {"is he", ""},
                                  {"what color", "color"},
                                  {"is this an", "object"},
                                  {"do you", "existence"},
                                  {"where are the", "location"},
                                  {"what color is", "color"},
                                  {"is the woman", ""},
                                  {"can you", "existence"},
                                  {"is this person", ""},
                                  {"what animal is", "object"},
                                  {"who is", "object"},
                                  {"was", ""},
                                  {"is the person", ""},
                                  {"what sport is", "activity"},
                                  {"has", ""},
                                  {"could", "other"},
                                  {"is that a", "object"},
                                  {"what is the person", "relation"},
                                  {"what brand", "read"},
                                  {"what room is", "location"},
                                  {"what is the woman", "relation"},
                                  {"what is the color of the", "color"},
                                  {"why is the", "other"},
                                  {"what is the name", "read"}};

constexpr TypeRule kNextTypes[] = {{"CW", "other"},    {"CH", "other"},    {"TN", "activity"},
                                   {"TC", "activity"}, {"TP", "activity"}, {"DL", "location"},
                                   {"DC", "count"},    {"DB", ""},         {"DO", ""}};

const std::vector<QuestionPattern>& patterns() {
  static const auto built = [] {
    std::vector<QuestionPattern> out;
    for (const auto& rule : kRules) out.emplace_back(rule.pattern);
    return out;
  }();
  return built;
}

// "what's" is "what is".
std::vector<std::string> without_contraction(const std::string& word) {
  for (const char* opening : {"what", "who", "where", "how", "which", "there"})
    if (word == std::string(opening) + "'s") return {opening, "is"};
  return {word};
}

// The words that ask: without instructions on the answer's form, options and tags. All words if nothing remains.
std::vector<std::string> asking_words(const std::string& question) {
  constexpr size_t kMost = 64;  // patterns with gaps cost more than linear time
  std::vector<std::string> all, out;
  for (const auto& word : functional_words(question)) {
    const std::string reason = word.reason;
    const bool asks = reason != "instruction" && reason != "option" && reason != "format";
    for (const auto& part : without_contraction(lower_case(word.text))) {
      all.push_back(part);
      if (asks) out.push_back(part);
    }
  }
  if (out.empty()) out = all;
  if (out.size() > kMost) out.resize(kMost);
  return out;
}

const char* skill_of_type(const std::string& type) {
  for (const auto& row : kNextTypes)
    if (type == row.type) return row.skill;
  for (const auto& row : kVqaTypes)
    if (type == row.type) return row.skill;
  return "";
}

}  // namespace

RuleAnswer apply_rules(const std::string& question, const std::string& question_type) {
  const auto words = asking_words(question);
  RuleAnswer out{"other", "object", kWeak, "no rule"};
  for (size_t i = 0; i < patterns().size(); ++i)
    if (patterns()[i].matches(words)) {
      out = {kRules[i].skill, kRules[i].second, kRules[i].confidence, kRules[i].pattern};
      break;
    }
  const std::string typed = skill_of_type(question_type);
  if (typed.empty() || out.confidence >= kSure || typed == out.skill) return out;
  const bool next = std::any_of(std::begin(kNextTypes), std::end(kNextTypes),
                                [&](const TypeRule& row) { return question_type == row.type; });
  if (!next && out.confidence > kWeak) return out;  // VQA's types are openings, which the patterns have read already
  return {skill_of_type(question_type), out.skill, next ? kFair : kWeak, "question type"};
}

std::vector<float> rule_posterior(const std::string& question, const std::string& question_type) {
  const auto answer = apply_rules(question, question_type);
  const auto count = skill_names().size();
  const std::string second = answer.second;
  double left = 1 - answer.confidence;
  std::vector<float> out(count);
  out[skill_or_other(answer.skill)] += static_cast<float>(answer.confidence);
  if (!second.empty()) {
    out[skill_or_other(second)] += static_cast<float>(left / 2);
    left /= 2;
  }
  for (auto& p : out) p += static_cast<float>(left / static_cast<double>(count));
  return out;
}

std::string vqa_question_type(const std::string& question) {
  std::string words;
  for (const auto& piece : split_text(question))
    if (piece.word) words += lower_case(piece.text) + " ";
  std::string best = "none of the above";
  size_t longest = 0;
  for (const auto& row : kVqaTypes) {
    const std::string opening = std::string(row.type) + " ";
    if (opening.size() > longest && words.compare(0, opening.size(), opening) == 0) {
      best = row.type;
      longest = opening.size();
    }
  }
  return best;
}

}  // namespace asr
