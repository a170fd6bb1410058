// asr doctor CONFIG.yaml...: what would stop a run, before any model is loaded.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <optional>
#include <set>

#include "backbones/model_folder.h"
#include "base/assets.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "io/image_processor.h"
#include "io/safetensors.h"
#include "io/tokenizer.h"
#include "metrics/metric.h"
#include "train/runner.h"

namespace asr {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

struct Arguments {
  std::vector<std::string> configs, sets;
  int64_t images = 20;
};

class Table {
 public:
  enum Verdict { ok, warning, failure };
  void add(const std::string& what, Verdict verdict, const std::string& detail) {
    static const char* const kNames[] = {"ok", "WARNING", "FAILS"};
    rows_.push_back({what, kNames[verdict], detail});
    failed_ = failed_ || verdict == failure;
  }
  // A check that may throw: its message is the detail of a failure.
  template <class F>
  bool attempt(const std::string& what, F&& f) {
    try {
      add(what, ok, f());
      return true;
    } catch (const std::exception& error) {
      add(what, failure, error.what());
      return false;
    }
  }
  bool failed() const { return failed_; }
  void print(const Common& common) const {
    if (common.json) {
      json list = json::array();
      for (const auto& row : rows_) list.push_back({{"check", row[0]}, {"verdict", row[1]}, {"detail", row[2]}});
      return print_json({{"passed", !failed_}, {"checks", list}});
    }
    size_t widest = 0;
    for (const auto& row : rows_) widest = std::max(widest, row[0].size());
    for (const auto& row : rows_)
      std::cout << row[0] << std::string(widest + 2 - row[0].size(), ' ') << row[1]
                << std::string(9 - row[1].size(), ' ') << row[2] << "\n";
  }

 private:
  std::vector<std::vector<std::string>> rows_;
  bool failed_ = false;
};

// Headers alone are read: names, types, shapes and the files' lengths.
std::string check_folder(const std::string& path, std::unique_ptr<Tokenizer>& tokenizer, Table& table) {
  const auto folder = read_model_folder(path);
  const auto set = read_safetensors_set(path);
  double bytes = 0;
  for (const auto& [name, view] : set.tensors) bytes += static_cast<double>(view->data.size);
  table.attempt("tokenizer", [&] {
    tokenizer = load_tokenizer(path);
    return cat(tokenizer->size(), " tokens");
  });
  if (folder.config.contains("vision_config"))
    table.attempt("image processor", [&] {
      load_image_processor(path);
      return std::string("found");
    });
  return cat(folder.type, ", ", set.tensors.size(), " tensors in ", set.shards.size(), " files, ", human_bytes(bytes));
}

void check_model(const std::string& path, std::unique_ptr<Tokenizer>& tokenizer, Table& table) {
  table.attempt("model", [&] {
    std::error_code error;
    if (fs::is_directory(path, error)) return check_folder(path, tokenizer, table);
    const auto file = read_safetensors(path);
    verify_checksum(file);
    return cat("built in, ", file.tensors.size(), " tensors, checksum right");
  });
}

struct Counts {
  int64_t rows = 0, pictures = 0, empty = 0;
  std::vector<std::string> bad;  // messages
  int64_t longest_question = 0, longest_answer = 0;
};

// Ids, texts and a sample of pictures of one task and split.
Counts look_through(const Stream& stream, size_t task, DataSplit split, int64_t images, const Tokenizer* tokenizer) {
  constexpr int64_t kRows = 200000;
  Counts out;
  out.rows = stream.size(task, split);
  std::set<std::string> ids;
  const int64_t looked = std::min(out.rows, kRows), step = images > 0 ? std::max<int64_t>(1, out.rows / images) : 0;
  for (int64_t i = 0; i < looked; ++i) try {
      const bool picture = step > 0 && i % step == 0;
      const auto s = picture ? stream.sample(task, split, i) : stream.text(task, split, i);
      out.pictures += picture;
      if (!ids.insert(s.id).second) out.bad.push_back(cat("id '", printable(s.id), "' is there twice"));
      out.empty += trimmed(s.answer).empty() || trimmed(s.question).empty();
      if (!tokenizer) continue;
      if (i % 50 != 0) continue;  // lengths from a sample of the texts
      out.longest_question = std::max(out.longest_question, static_cast<int64_t>(tokenizer->encode(s.question).size()));
      out.longest_answer = std::max(out.longest_answer, static_cast<int64_t>(tokenizer->encode(s.answer).size()));
    } catch (const std::exception& error) {
      out.bad.push_back(error.what());
    }
  return out;
}

void check_task(const Stream& stream, size_t task, const RunOptions& run, int64_t images, const Tokenizer* tokenizer,
                Table& table) {
  const auto& t = stream.tasks()[task];
  const auto metrics = metric_names();
  const auto name = cat("task ", task + 1, " ", printable(t.name, 24));
  if (std::find(metrics.begin(), metrics.end(), t.metric) == metrics.end())
    return table.add(name, Table::failure, cat("metric '", t.metric, "' is unknown", did_you_mean(t.metric, metrics)));
  std::string detail = t.metric;
  std::vector<std::string> bad;
  int64_t empty = 0;
  bool missing = false;
  for (const auto& [split, label] : {std::pair{DataSplit::train, "train"}, {run.scored_split(), "scored"}}) {
    const auto counts = look_through(stream, task, split, images, tokenizer);
    detail += cat("; ", label, " ", counts.rows, ", ", counts.pictures, " pictures decoded");
    if (counts.longest_question)
      detail += cat(", longest question ", counts.longest_question, " and answer ", counts.longest_answer, " tokens");
    bad.insert(bad.end(), counts.bad.begin(), counts.bad.end());
    empty += counts.empty, missing = missing || counts.rows == 0;
  }
  if (missing) return table.add(name, Table::failure, detail + "; a split is empty");
  if (!bad.empty()) return table.add(name, Table::failure, cat(bad.size(), " bad rows, the first: ", bad[0]));
  if (empty) return table.add(name, Table::failure, cat(empty, " rows have no question or no answer"));
  table.add(name, Table::ok, detail);
}

void check_output(const RunOptions& run, Table& table) {
  if (run.output_dir.empty())
    return table.add("output_dir", Table::failure, "is not set; say where the run is written");
  std::error_code error;
  auto place = fs::absolute(run.output_dir, error);
  while (!place.empty() && !fs::exists(place, error) && place.has_parent_path()) place = place.parent_path();
  const auto space = fs::space(place, error);
  const double free = error ? 0 : static_cast<double>(space.available);
  const auto detail = cat(run.output_dir, ", ", human_bytes(free), " free");
  table.add("output_dir", error || free < 2e8 ? Table::failure : free < 2e9 ? Table::warning : Table::ok, detail);
}

void count_work(const Stream& stream, const RunOptions& run, Table& table) {
  double steps = 0, answers = 0;
  const auto tasks = static_cast<double>(stream.tasks().size());
  for (size_t task = 0; task < stream.tasks().size(); ++task) {
    const auto add_steps = [&](double samples) {
      steps += std::ceil(run.num_train_epochs * samples / static_cast<double>(run.batch * run.accumulation));
    };
    const auto phases = stream.phases(task);
    for (const auto& phase : phases) add_steps(static_cast<double>(phase.rows.size()));
    if (phases.empty()) add_steps(static_cast<double>(stream.size(task, DataSplit::train)));
    // Every task is scored before training and after its own stage and every later one.
    answers += static_cast<double>(stream.size(task, run.scored_split())) * (tasks - static_cast<double>(task) + 1);
  }
  const auto runs = static_cast<double>(run.method.size() * run.seeds.size()) * static_cast<double>(run.orders);
  table.add("work", Table::ok,
            cat(number(runs, 0), " runs, each ", number(steps, 0), " steps of ", run.batch * run.accumulation,
                " samples and ", number(answers, 0), " generated answers"));
}

void run(const Arguments& arguments, const Common& common) {
  Table table;
  std::optional<RunConfig> config;
  table.attempt("configuration", [&] {
    std::vector<Assignment> list;
    for (const auto& path : arguments.configs)
      for (auto& a : parse_yaml_options(read_file(path, 1 << 20), path)) list.push_back(std::move(a));
    for (const auto& text : arguments.sets) list.push_back(parse_assignment(text, "--set"));
    config = resolve_run(list);
    return join(config->run.method, ", ") + " on " + config->run.stream.name;
  });
  if (config) {
    const auto& run = config->run;
    check_output(run, table);
    std::unique_ptr<Tokenizer> tokenizer;
    table.attempt("model name", [&] { return find_model(run.model); }) &&
        (check_model(find_model(run.model), tokenizer, table), true);
    table.attempt("skill parser",
                  [&] { return run.parser.find('/') == std::string::npos ? find_asset(run.parser) : run.parser; });
    std::unique_ptr<Stream> stream;
    table.attempt("stream", [&] {
      stream = make_stream(run.stream);
      return cat(stream->name(), ", ", stream->tasks().size(), " tasks");
    });
    if (stream) {
      for (size_t task = 0; task < stream->tasks().size(); ++task)
        check_task(*stream, task, run, arguments.images, tokenizer.get(), table);
      count_work(*stream, run, table);
    }
  }
  table.print(common);
  if (table.failed()) throw Error("the configuration would not run; see the lines marked FAILS", 2);
}

}  // namespace

void add_doctor_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("doctor", "what would stop a run, before any model is loaded");
  auto a = std::make_shared<Arguments>();
  command->add_option("CONFIG", a->configs, "YAML files of options, as for 'asr run'")->required();
  command->add_option("--set", a->sets, "one option, after all files")->type_name("KEY=VALUE")->expected(1)->take_all();
  command->add_option("--images", a->images, "pictures decoded of every task and split; 0: none")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000000000));
  command->callback([a, &common] { run(*a, common); });
}

}  // namespace asr
