// asr parser train | eval: the classifier of questions into skills.
#include <fmt/format.h>

#include <iostream>
#include <unordered_set>

#include "base/error.h"
#include "base/progress.h"
#include "base/text.h"
#include "cli/command.h"
#include "skills/parser/training.h"
#include "skills/taxonomy.h"
#include "streams/world/labelled.h"

namespace asr {
namespace {

using nlohmann::json;
using Questions = std::vector<LabelledQuestion>;

struct Arguments {
  std::string data = "world", size = "small", split = "val", file;
  std::vector<std::string> sets;
  int64_t steps = 0, seed = 1, per_task = 400;
};

struct Data {
  Questions train, held_out;
};

// A file is cut by line number: every tenth question is held out.
Data training_data(const Arguments& a) {
  if (a.data == "world")
    return {world::labelled_questions(world::Split::train, a.per_task),
            world::labelled_questions(world::Split::val, std::max<int64_t>(1, a.per_task / 4))};
  Data out;
  const auto all = read_labelled_questions(a.data);
  for (size_t i = 0; i < all.size(); ++i) (i % 10 == 9 ? out.held_out : out.train).push_back(all[i]);
  return out;
}

ParserOptions resolve(const Arguments& a) {
  check(a.size == "small" || a.size == "full", "--size ", printable(a.size), " is unknown; known: small, full");
  ParserOptions options = a.size == "full" ? ParserOptions::full() : ParserOptions{};
  OptionTable table;
  table.add("parser", options);
  for (const auto& text : a.sets) table.set(parse_assignment(text, "--set"));
  if (a.steps > 0) options.steps = a.steps;
  return options;
}

json to_json(const ParserReport& r) {
  json skills = json::array(), confusions = json::array();
  const auto& names = skill_names();
  for (size_t s = 0; s < r.skills.size(); ++s)
    skills.push_back({{"skill", names[s]},
                      {"count", r.skills[s].count},
                      {"predicted", r.skills[s].predicted},
                      {"correct", r.skills[s].correct}});
  for (const auto& c : r.confusions)
    confusions.push_back({{"label", names[c.label]}, {"answer", names[c.answer]}, {"count", c.count}});
  return {{"questions", r.count},
          {"accuracy", r.accuracy},
          {"log_likelihood", r.log_likelihood},
          {"calibration_error", r.calibration_error},
          {"confidence", r.confidence},
          {"skills", skills},
          {"confusions", confusions}};
}

std::string summary(const ParserReport& r) {
  return fmt::format("{} questions: accuracy {:.2f} %, calibration error {:.4f}, mean confidence {:.4f}", r.count,
                     100 * r.accuracy, r.calibration_error, r.confidence);
}

void print_report(const ParserReport& r) {
  const auto ratio = [](int64_t a, int64_t b) { return b ? number(100.0 * double(a) / double(b), 2) : "-"; };
  const auto& names = skill_names();
  std::vector<std::vector<std::string>> rows = {{"skill", "questions", "recall %", "precision %"}};
  for (size_t s = 0; s < r.skills.size(); ++s)
    if (r.skills[s].count || r.skills[s].predicted)
      rows.push_back({names[s], std::to_string(r.skills[s].count), ratio(r.skills[s].correct, r.skills[s].count),
                      ratio(r.skills[s].correct, r.skills[s].predicted)});
  std::cout << summary(r) << "\n\n" << text_table(rows);
  if (r.confusions.empty()) return;
  rows = {{"label", "answered", "questions"}};
  for (size_t i = 0; i < std::min<size_t>(10, r.confusions.size()); ++i)
    rows.push_back(
        {names[r.confusions[i].label], names[r.confusions[i].answer], std::to_string(r.confusions[i].count)});
  std::cout << "\n" << text_table(rows);
}

// Held-out questions whose text training did not hold; short ones recur in any data.
Questions fresh_questions(const Data& data) {
  std::unordered_set<std::string> seen;
  for (const auto& question : data.train) seen.insert(question.text);
  Questions out;
  for (const auto& question : data.held_out)
    if (!seen.count(question.text)) out.push_back(question);
  return out;
}

void train(const Arguments& a, const Common& common) {
  const auto options = resolve(a);
  const auto data = training_data(a);
  Progress progress("train parser", options.steps);
  const auto parser =
      train_parser(data.train, data.held_out, options, static_cast<uint64_t>(a.seed),
                   [&](int64_t, double loss) { progress.advance(1, fmt::format("loss {:.3f}", loss)); });
  progress.finish();
  const auto& measured = data.held_out.empty() ? data.train : data.held_out;
  const auto report = evaluate_parser(parser, measured);
  const json notes = {{"data", a.data == "world" ? "world" : "file"},
                      {"train_questions", data.train.size()},
                      {"held_out_questions", data.held_out.size()},
                      {"seed", a.seed},
                      {"accuracy", report.accuracy},
                      {"calibration_error", report.calibration_error}};
  parser.save(a.file, {{"training", notes.dump()}});
  const auto fresh = fresh_questions(data);
  if (common.json) {
    json result = to_json(report);
    result["parser"] = a.file, result["temperature"] = parser.temperature, result["training"] = notes;
    if (!fresh.empty()) result["unseen"] = to_json(evaluate_parser(parser, fresh));
    return print_json(result);
  }
  std::cout << data.train.size() << " questions, " << parser.vocabulary().words().size() << " words -> " << a.file
            << "\ntemperature " << number(parser.temperature) << "; "
            << (data.held_out.empty() ? "nothing held out, on training " : "on held-out ") << summary(report) << "\n";
  if (!fresh.empty()) std::cout << "unseen texts among them, " << summary(evaluate_parser(parser, fresh)) << "\n";
}

world::Split split_named(const std::string& name) {
  for (const auto split : {world::Split::val, world::Split::test, world::Split::tune})
    if (name == world::name_of(split)) return split;
  fail("--split ", printable(name), " is unknown; known: val, test, tune");
}

void evaluate(const Arguments& a, const Common& common) {
  const auto split = split_named(a.split);
  const auto parser = SkillParser::load(a.file);
  const auto questions = a.data == "world" ? world::labelled_questions(split, std::max<int64_t>(1, a.per_task / 4))
                                           : read_labelled_questions(a.data);
  const auto report = evaluate_parser(parser, questions);
  if (!common.json) return print_report(report);
  json result = to_json(report);
  result["parser"] = a.file, result["temperature"] = parser.temperature;
  print_json(result);
}

std::string option_help() {
  ParserOptions options;
  OptionTable table;
  table.add("parser", options);
  return "Options for --set, with the defaults of --size small:\n" + table.help();
}

void add_data_options(CLI::App& command, Arguments& a) {
  command.add_option("--data", a.data, "world, or a file of JSON lines with question and skill")->capture_default_str();
  command.add_option("--per-task", a.per_task, "training questions a task of the world; held out: a quarter of it")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
}

}  // namespace

void add_parser_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("parser", "the classifier of questions into skills");
  command->require_subcommand(1);
  auto a = std::make_shared<Arguments>();
  auto* train_command =
      command->add_subcommand("train", "train a parser and fit its temperature on held-out questions");
  add_data_options(*train_command, *a);
  train_command->add_option("--size", a->size, "small | full (the paper's 4 layers, 8 heads, width 512)")
      ->capture_default_str();
  train_command->add_option("--set", a->sets, "one option, e.g. --set parser.layers=3")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
  train_command->add_option("--steps", a->steps, "the same as --set parser.steps=N")->check(CLI::Range(1, 100000000));
  train_command->add_option("--seed", a->seed, "of weights, batches and dropped words")
      ->capture_default_str()
      ->check(CLI::Range(0, 2147483647));
  train_command->add_option("-o,--output", a->file, "parser file to write")->required();
  train_command->footer(option_help());
  train_command->callback([a, &common] { train(*a, common); });
  auto* eval_command = command->add_subcommand("eval", "accuracy, calibration and confusions on held-out questions");
  eval_command->add_option("FILE", a->file, "parser file")->required();
  add_data_options(*eval_command, *a);
  eval_command->add_option("--split", a->split, "of the world: val (the temperature was fitted there), test or tune")
      ->capture_default_str();
  eval_command->callback([a, &common] { evaluate(*a, common); });
}

}  // namespace asr
