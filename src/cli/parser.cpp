// asr parser train | eval: the classifier of questions into skills.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <unordered_set>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "base/random.h"
#include "base/text.h"
#include "cli/command.h"
#include "skills/parser/training.h"
#include "skills/taxonomy.h"
#include "streams/stream.h"
#include "streams/world/labelled.h"
#include "tensor/device.h"

namespace asr {
namespace {

using nlohmann::json;
using Questions = std::vector<LabelledQuestion>;

struct ParserArguments {
  std::string data = "world", size = "small", split = "val", file, device = "cpu", teacher, taxonomy;
  std::vector<std::string> sets, sources, exclude, files;
  int64_t steps = 0, seed = 1, per_task = 400, templates = 15000, limit = 0;
  double epochs = 0;
};

struct Data {
  Questions train, held_out;
};

// The training questions of a prepared stream or of a user's own.
Questions stream_questions(const std::string& folder) {
  StreamOptions options;
  options.name = "manifest";
  options.path = folder;
  const auto stream = make_stream(options);
  Questions out;
  for (size_t task = 0; task < stream->tasks().size(); ++task)
    for (int64_t i = 0; i < stream->size(task, DataSplit::train); ++i) {
      const auto s = stream->text(task, DataSplit::train, i);
      out.push_back(label_question(s.question, s.skill, s.type, cat(folder, ": id '", printable(s.id), "'")));
    }
  return out;
}

Questions source_questions(const ParserArguments& a, const std::string& source) {
  std::error_code error;
  if (std::filesystem::is_directory(source, error)) return stream_questions(source);
  if (source == "world") return world::labelled_questions(world::Split::train, a.per_task);
  if (source == "templates") return templated_questions(a.templates, static_cast<uint64_t>(a.seed));
  return read_labelled_questions(source, /*require_skill=*/false);
}

// Each text once, without those to be left out, in random order; every twentieth is held out.
Data data_of_sources(const ParserArguments& a) {
  std::unordered_set<std::string> seen;
  for (const auto& path : a.exclude)
    for (const auto& question : read_labelled_questions(path, false)) seen.insert(question_key(question.text));
  Questions all;
  for (const auto& source : a.sources)
    for (auto& question : source_questions(a, source))
      if (seen.insert(question_key(question.text)).second) all.push_back(std::move(question));
  Random({static_cast<uint64_t>(a.seed), 4}).shuffle(all);
  if (a.limit > 0 && static_cast<int64_t>(all.size()) > a.limit) all.resize(static_cast<size_t>(a.limit));
  Data out;
  for (size_t i = 0; i < all.size(); ++i) (i % 20 == 19 ? out.held_out : out.train).push_back(std::move(all[i]));
  return out;
}

// A file is cut by line number: every tenth question is held out.
Data training_data(const ParserArguments& a) {
  if (!a.sources.empty()) return data_of_sources(a);
  if (a.data == "world")
    return {world::labelled_questions(world::Split::train, a.per_task),
            world::labelled_questions(world::Split::val, std::max<int64_t>(1, a.per_task / 4))};
  Data out;
  const auto all = read_labelled_questions(a.data);
  for (size_t i = 0; i < all.size(); ++i) (i % 10 == 9 ? out.held_out : out.train).push_back(all[i]);
  return out;
}

ParserOptions resolve(const ParserArguments& a) {
  check(a.size == "small" || a.size == "paper", "--size ", printable(a.size), " is unknown; known: small, paper");
  ParserOptions options = a.size == "paper" ? ParserOptions::paper() : ParserOptions{};
  OptionTable table;
  table.add("parser", options);
  for (const auto& text : a.sets) table.set(parse_assignment(text, "--set"));
  check(a.steps == 0 || a.epochs == 0, "--steps and --epochs exclude each other");
  if (a.steps > 0) {
    options.steps = a.steps;
    options.epochs = 0;
  }
  if (a.epochs > 0) options.epochs = a.epochs;
  return options;
}

at::Device device_of(const ParserArguments& a) {
  const auto device = device_named(a.device);
  allow_fast_products(device);
  return device;
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

json notes_of(const ParserArguments& a, const Data& data, const ParserReport& report) {
  std::vector<std::string> names = a.sources;
  if (names.empty()) names = {a.data == "world" ? "world" : "file"};
  for (auto& name : names) name = name.substr(name.rfind('/') + 1);
  json out = {{"data", join(names, ",")},
              {"train_questions", data.train.size()},
              {"held_out_questions", data.held_out.size()},
              {"seed", a.seed},
              {"accuracy", report.accuracy},
              {"calibration_error", report.calibration_error}};
  if (!a.teacher.empty()) out["distilled_from"] = a.teacher.substr(a.teacher.rfind('/') + 1);
  return out;
}

void train(const ParserArguments& a, const Common& common) {
  const HearSignals hear("saving, then stopping; once more ends it at once");
  if (!a.taxonomy.empty()) use_taxonomy(read_taxonomy(a.taxonomy));
  const auto options = resolve(a);
  const auto device = device_of(a);
  auto data = training_data(a);
  if (!a.teacher.empty()) {
    auto teacher = SkillParser::load(a.teacher);
    teacher.to(device);
    set_targets(data.train, teacher);
  }
  stop_if_interrupted("before training; nothing was written");
  const int64_t steps = training_steps(options, data.train.size());
  Progress progress("train parser", steps);
  int64_t done = 0;
  const auto watch = [&](int64_t step, double loss) {
    done = step + 1;
    progress.advance(1, fmt::format("loss {:.3f}", loss));
  };
  auto parser = train_parser(data.train, data.held_out, options, {static_cast<uint64_t>(a.seed), watch, device});
  if (done < steps) {  // a signal
    parser.save(a.file, {{"training", json{{"stopped_after_steps", done}, {"of", steps}}.dump()}});
    stop_if_interrupted(cat("after step ", done, " of ", steps, "; ", a.file, " holds what was learnt so far"));
  }
  progress.finish();
  parser.to(device);  // to be measured there
  const auto& measured = data.held_out.empty() ? data.train : data.held_out;
  const auto report = evaluate_parser(parser, measured);
  const json notes = notes_of(a, data, report);
  parser.save(a.file, {{"training", notes.dump()}});
  stop_if_interrupted(cat("when ", a.file, " was complete"));
  const auto fresh = a.sources.empty() ? fresh_questions(data) : Questions{};  // of sources all are
  if (common.json) {
    json result = to_json(report);
    result["parser"] = a.file;
    result["temperature"] = parser.temperature;
    result["training"] = notes;
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

// Of a parser file, or of the rules under the name "rules".
json evaluate_one(const std::string& file, const Questions& questions, ParserReport& report) {
  if (file == "rules") {
    std::vector<std::string> texts;
    for (const auto& question : questions) texts.push_back(question.text);
    report = evaluate_posterior(rule_posteriors(texts), questions);
    json result = to_json(report);
    result["parser"] = file;
    return result;
  }
  const auto parser = SkillParser::load(file);
  report = evaluate_parser(parser, questions);
  json result = to_json(report);
  result["parser"] = file;
  result["temperature"] = parser.temperature;
  return result;
}

void evaluate(const ParserArguments& a, const Common& common) {
  if (!a.taxonomy.empty()) use_taxonomy(read_taxonomy(a.taxonomy));
  const auto split = split_named(a.split);
  const auto questions = a.data == "world" ? world::labelled_questions(split, std::max<int64_t>(1, a.per_task / 4))
                                           : read_labelled_questions(a.data);
  json results = json::array();
  std::vector<ParserReport> reports(a.files.size());
  for (size_t i = 0; i < a.files.size(); ++i) results.push_back(evaluate_one(a.files[i], questions, reports[i]));
  if (common.json) return print_json(results.size() == 1 ? results[0] : json{{"parsers", results}});
  for (size_t i = 0; i < reports.size(); ++i) {
    if (reports.size() > 1) std::cout << (i ? "\n" : "") << a.files[i] << "\n";
    print_report(reports[i]);
  }
  if (reports.size() == 1) return;
  std::vector<std::vector<std::string>> rows = {{"parser", "questions", "accuracy %", "calibration error"}};
  for (size_t i = 0; i < reports.size(); ++i)
    rows.push_back({a.files[i], std::to_string(reports[i].count), number(100 * reports[i].accuracy, 2),
                    number(reports[i].calibration_error, 4)});
  std::cout << "\n" << text_table(rows);
}

std::string option_help() {
  ParserOptions options;
  OptionTable table;
  table.add("parser", options);
  return "Options for --set, with the defaults of --size small:\n" + table.help();
}

void add_data_options(CLI::App& command, ParserArguments& a) {
  command
      .add_option("--data", a.data,
                  "world, or a file of questions with skills: JSON lines, or .tsv of skill and question")
      ->capture_default_str();
  command.add_option("--per-task", a.per_task, "training questions a task of the world; held out: a quarter of it")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  command.add_option("--taxonomy", a.taxonomy, "YAML file of skills and aliases (default: the built-in ones)")
      ->type_name("FILE");
}

void add_source_options(CLI::App& command, ParserArguments& a) {
  command
      .add_option("--source", a.sources,
                  "instead of --data, any number of: the folder of a stream (its training questions), a questions file "
                  "(VQA v2 .json, NExT-QA .csv, .tsv, JSON lines), templates, world; questions without a skill are "
                  "labelled by the rules")
      ->type_name("FOLDER|FILE")
      ->expected(1)
      ->take_all();
  command.add_option("--exclude", a.exclude, "with --source: a file whose questions are left out")
      ->type_name("FILE")
      ->expected(1)
      ->take_all();
  command.add_option("--templates", a.templates, "questions that the source `templates` makes")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000000));
  command.add_option("--limit", a.limit, "with --source: use so many questions at most; 0: all")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000000000));
  command.add_option("--distill-from", a.teacher, "a larger parser, whose posteriors are the targets")
      ->type_name("FILE");
}

void add_train_options(CLI::App& command, ParserArguments& a) {
  add_data_options(command, a);
  add_source_options(command, a);
  command.add_option("--size", a.size, "small | paper (4 layers, 8 heads, width 512; 10 epochs at 1e-4)")
      ->capture_default_str();
  command.add_option("--set", a.sets, "one option, e.g. --set parser.layers=3")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
  command.add_option("--steps", a.steps, "the same as --set parser.steps=N, instead of epochs")
      ->check(CLI::Range(1, 100000000));
  command.add_option("--epochs", a.epochs, "the same as --set parser.epochs=N")->check(between(0.0, 100000.0));
  command.add_option("--device", a.device, "cpu or cuda")->capture_default_str()->check(CLI::IsMember({"cpu", "cuda"}));
  command.add_option("--seed", a.seed, "of weights, batches and dropped words")
      ->capture_default_str()
      ->check(CLI::Range(0, 2147483647));
  command.add_option("-o,--output", a.file, "parser file to write")->required();
  command.footer(option_help());
}

}  // namespace

void add_parser_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("parser", "the classifier of questions into skills");
  command->require_subcommand(1);
  auto a = std::make_shared<ParserArguments>();
  auto* train_command =
      command->add_subcommand("train", "train a parser and fit its temperature on held-out questions");
  add_train_options(*train_command, *a);
  train_command->callback([a, &common] { train(*a, common); });
  auto* eval_command = command->add_subcommand("eval", "accuracy, calibration and confusions on held-out questions");
  eval_command->add_option("FILE", a->files, "parser files, and `rules` for the rules")->required();
  add_data_options(*eval_command, *a);
  eval_command->add_option("--split", a->split, "of the world: val (the temperature was fitted there), test or tune")
      ->capture_default_str();
  eval_command->callback([a, &common] { evaluate(*a, common); });
}

}  // namespace asr
