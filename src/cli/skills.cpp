// asr skills: what the parser and the rules make of questions.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <numeric>

#include "base/assets.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "skills/functional_tokens.h"
#include "skills/parser/parser.h"
#include "skills/taxonomy.h"

namespace asr {
namespace {

using nlohmann::json;

struct Arguments {
  std::vector<std::string> texts;
  std::string parser;
};

std::vector<std::string> questions_of(const Arguments& a) {
  if (!a.texts.empty()) return a.texts;
  std::vector<std::string> out;
  for (std::string line; std::getline(std::cin, line);) {
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

json to_json(const std::string& question, const std::vector<Word>& words, const float* posterior) {
  const auto& names = skill_names();
  json skills = json::object(), functional = json::array();
  for (size_t s = 0; s < names.size(); ++s) skills[names[s]] = posterior[s];
  for (const auto& w : words)
    if (w.functional) functional.push_back(w.text);
  return {{"question", question},
          {"skill", names[std::max_element(posterior, posterior + names.size()) - posterior]},
          {"posterior", skills},
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
  std::vector<std::string> functional;
  for (const auto& w : words)
    if (w.functional) functional.push_back(printable(w.text) + " (" + w.reason + ")");
  std::cout << "  functional: " << (functional.empty() ? "none by rule, so all words" : join(functional, ", ")) << "\n";
}

void show(const Arguments& a, const Common& common) {
  const auto path = a.parser.empty() ? find_asset("parser-world.safetensors") : a.parser;
  const auto parser = SkillParser::load(path);
  const auto questions = questions_of(a);
  const auto posterior = parser.posterior(questions);  // [N, S]
  json list = json::array();
  for (size_t i = 0; i < questions.size(); ++i) {
    const auto words = functional_words(questions[i]);
    const float* row = posterior.data_ptr<float>() + static_cast<int64_t>(i) * posterior.size(1);
    if (common.json)
      list.push_back(to_json(questions[i], words, row));
    else
      print_question(questions[i], words, row);
  }
  if (common.json) print_json({{"parser", path}, {"questions", list}});
}

}  // namespace

void add_skills_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("skills", "the posterior over skills and the functional words of questions");
  auto a = std::make_shared<Arguments>();
  command->add_option("TEXT", a->texts, "questions; lines of stdin if none is given");
  command->add_option("--parser", a->parser, "parser file (default: the asset parser-world.safetensors)")
      ->type_name("FILE");
  command->callback([a, &common] { show(*a, common); });
}

}  // namespace asr
