// asr skills: what the parser and the rules make of questions.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <numeric>

#include "base/assets.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "io/tokenizer.h"
#include "skills/functional_tokens.h"
#include "skills/parser/parser.h"
#include "skills/part_of_speech.h"
#include "skills/rules.h"
#include "skills/taxonomy.h"

namespace asr {
namespace {

using nlohmann::json;

struct SkillsArguments {
  std::vector<std::string> texts;
  std::string parser, taxonomy, lexicon = "auto", tokenizer;
};

LexiconChoice lexicon_named(const std::string& name) {
  for (const auto choice : {LexiconChoice::automatic, LexiconChoice::wordnet, LexiconChoice::lists})
    if (name == enum_name(choice)) return choice;
  fail("--lexicon ", printable(name), " is unknown; known: auto, wordnet, lists");
}

std::vector<std::string> questions_of(const SkillsArguments& a) {
  if (!a.texts.empty()) return a.texts;
  std::vector<std::string> out;
  for (std::string line; next_line(line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) out.push_back(line);
  }
  check(!out.empty(), "there is no question; give some as arguments or as lines on stdin");
  return out;
}

json words_json(const std::vector<Word>& words) {
  json out = json::array();
  for (const auto& w : words)
    out.push_back(
        {{"text", w.text}, {"begin", w.begin}, {"end", w.end}, {"functional", w.functional}, {"reason", w.reason}});
  return out;
}

// Sub-words with their bytes, and whether they belong to a functional word.
json tokens_json(const Tokenizer& tokenizer, const std::string& question) {
  const auto tokens = tokenizer.encode(question);
  std::vector<std::pair<size_t, size_t>> offsets;
  for (const auto& token : tokens) offsets.emplace_back(token.begin, token.end);
  const auto functional = functional_tokens(question, offsets, question_lexicon());
  json out = json::array();
  for (size_t i = 0; i < tokens.size(); ++i)
    out.push_back({{"text", question.substr(tokens[i].begin, tokens[i].end - tokens[i].begin)},
                   {"id", tokens[i].id},
                   {"begin", tokens[i].begin},
                   {"end", tokens[i].end},
                   {"functional", static_cast<bool>(functional[i])}});
  return out;
}

json to_json(const std::string& question, const std::vector<Word>& words, const float* posterior) {
  const auto& names = skill_names();
  json skills = json::object(), functional = json::array();
  const auto rule = apply_rules(question, vqa_question_type(question));
  for (size_t s = 0; s < names.size(); ++s) skills[names[s]] = posterior[s];
  for (const auto& w : words)
    if (w.functional) functional.push_back(w.text);
  return {{"question", question},
          {"skill", names[std::max_element(posterior, posterior + names.size()) - posterior]},
          {"posterior", skills},
          {"rule", {{"skill", rule.skill}, {"confidence", rule.confidence}, {"pattern", rule.rule}}},
          {"functional", functional},
          {"words", words_json(words)}};
}

// The likeliest skills, down to 1 %, five at most.
void print_bars(const float* posterior) {
  const auto& names = skill_names();
  std::vector<size_t> order(names.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return posterior[a] > posterior[b]; });
  for (size_t i = 0; i < 5 && (i == 0 || posterior[order[i]] >= 0.01); ++i) {
    const double p = posterior[order[i]];
    std::cout << fmt::format("  {:<18}{:>6.1f} %  {}\n", names[order[i]], 100 * p,
                             std::string(static_cast<size_t>(p * 30 + 0.5), '#'));
  }
}

void print_question(const std::string& question, const std::vector<Word>& words, const float* posterior) {
  std::cout << printable(question, 300) << "\n";
  print_bars(posterior);
  const auto rule = apply_rules(question, vqa_question_type(question));
  std::cout << "  rule: " << rule.skill << " (" << rule.rule << ")\n";
  std::vector<std::string> functional;
  for (const auto& w : words)
    if (w.functional) functional.push_back(printable(w.text) + " (" + w.reason + ")");
  std::cout << "  functional: " << (functional.empty() ? "none by rule, so all words" : join(functional, ", ")) << "\n";
}

void print_tokens(const json& tokens) {
  std::vector<std::string> parts;
  for (const auto& token : tokens) {
    const auto text = printable(token["text"].get<std::string>());
    parts.push_back(token["functional"].get<bool>() ? "[" + text + "]" : text);
  }
  std::cout << "  tokens: " << join(parts, "|") << "\n";
}

void show(const SkillsArguments& a, const Common& common) {
  if (!a.taxonomy.empty()) use_taxonomy(read_taxonomy(a.taxonomy));
  use_lexicon(lexicon_named(a.lexicon));
  const bool rules = a.parser == "rules";
  const auto path = a.parser.empty() ? find_asset("parser-small.safetensors") : a.parser;
  const auto questions = questions_of(a);
  const auto posterior = rules ? rule_posteriors(questions) : SkillParser::load(path).posterior(questions);  // [N, S]
  const auto tokenizer = a.tokenizer.empty() ? nullptr : load_tokenizer(a.tokenizer);
  json list = json::array();
  for (size_t i = 0; i < questions.size(); ++i) {
    const auto words = functional_words(questions[i], question_lexicon());
    const float* row = posterior.data_ptr<float>() + static_cast<int64_t>(i) * posterior.size(1);
    const auto tokens = tokenizer ? tokens_json(*tokenizer, questions[i]) : json();
    if (common.json) {
      list.push_back(to_json(questions[i], words, row));
      if (tokenizer) list.back()["tokens"] = tokens;
      continue;
    }
    print_question(questions[i], words, row);
    if (tokenizer) print_tokens(tokens);
  }
  if (common.json) print_json({{"parser", path}, {"questions", list}});
}

}  // namespace

void add_skills_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("skills", "the posterior over skills and the functional words of questions");
  auto a = std::make_shared<SkillsArguments>();
  command->add_option("TEXT", a->texts, "questions; lines of stdin if none is given");
  command->add_option("--parser", a->parser, "parser file, or `rules` (default: the asset parser-small.safetensors)")
      ->type_name("FILE");
  command->add_option("--taxonomy", a->taxonomy, "YAML file of skills and aliases (default: the built-in ones)")
      ->type_name("FILE");
  command->add_option("--lexicon", a->lexicon, "parts of speech: auto (WordNet where installed), wordnet, or lists")
      ->capture_default_str();
  command->add_option("--tokenizer", a->tokenizer, "a model folder, to show which of its tokens are functional")
      ->type_name("DIR");
  command->callback([a, &common] { show(*a, common); });
}

}  // namespace asr
