// asr world export: the built-in world as files in the formats that real benchmarks come in.
#include <fmt/format.h>

#include <iostream>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/progress.h"
#include "cli/command.h"
#include "io/png.h"
#include "streams/stream.h"
#include "streams/world/world.h"

namespace asr {
namespace {

using nlohmann::json;
using namespace world;

struct WorldArguments {
  std::string stream = "world-10", folder;
  int train = 200, val = 100, test = 0, tune = 0, size = 64, seed = 0;
};

const char* answer_type(const std::string& answer) {
  if (answer == "yes" || answer == "no") return "yes/no";
  return answer.find_first_not_of("0123456789") == std::string::npos ? "number" : "other";
}

// One task and split in all formats; ids count up over the whole export.
class Exporter {
 public:
  Exporter(const world::Stream& stream, const WorldArguments& arguments, Progress& progress)
      : stream_(stream), arguments_(arguments), progress_(progress) {
    make_folders(arguments.folder + "/images");
  }

  static std::string name_of_file(const world::Stream& stream, size_t task, Split split, bool novel) {
    return fmt::format("{:02d}_{}_{}{}", task + 1, stream.tasks[task].name, name_of(split), novel ? "_novel" : "");
  }

  int64_t write(size_t task, Split split, int count, bool novel) {
    const world::Task& spec = stream_.tasks[task];
    json questions = json::array(), annotations = json::array(), conversations = json::array();
    std::string rows;
    for (int i = 0; i < count; ++i) {
      const auto sample = world::sample(
          stream_, task, {split, static_cast<uint64_t>(i), novel, static_cast<uint64_t>(arguments_.seed)});
      const int64_t id = ++next_id_;
      const auto file = fmt::format("images/{:012d}.png", id);
      const auto image = picture_of(sample, arguments_.size);
      write_file_atomically(arguments_.folder + "/" + file, encode_png(image.pixels.data(), image.size, image.size));
      const auto& q = sample.question;
      questions.push_back({{"image_id", id}, {"question", q.text}, {"question_id", id}});
      annotations.push_back({{"image_id", id},
                             {"question_id", id},
                             {"question_type", spec.name},
                             {"answer_type", answer_type(q.answer)},
                             {"multiple_choice_answer", q.answer},
                             {"answers", ten_answers(q)}});
      conversations.push_back(
          {{"id", std::to_string(id)},
           {"image", file},
           {"conversations",
            {{{"from", "human"}, {"value", "<image>\n" + q.text}}, {{"from", "gpt"}, {"value", q.answer}}}}});
      json row = {{"question_id", id},  {"image", file},    {"text", q.text},
                  {"answer", q.answer}, {"skill", q.skill}, {"concept", name_of(q.concept_shape)}};
      if (!q.references.empty()) row["references"] = q.references;
      rows += row.dump() + "\n";
      progress_.advance();
    }
    const auto name = name_of_file(stream_, task, split, novel);
    const json info = {{"description", "ASR built-in world, " + stream_.name}, {"version", "1"}};
    save("questions_" + name + ".json", json{{"info", info}, {"questions", questions}}.dump());
    save("annotations_" + name + ".json", json{{"info", info}, {"annotations", annotations}}.dump());
    save("llava_" + name + ".json", conversations.dump());
    save("rows_" + name + ".jsonl", rows);
    return count;
  }

 private:
  static json ten_answers(const Question& q) {
    json list = json::array();
    for (int i = 1; i <= 10; ++i)
      list.push_back({{"answer", q.answer}, {"answer_confidence", "yes"}, {"answer_id", i}});
    return list;
  }
  void save(const std::string& name, const std::string& text) {
    write_file_atomically(arguments_.folder + "/" + name, text);
  }

  const world::Stream& stream_;
  const WorldArguments& arguments_;
  Progress& progress_;
  int64_t next_id_ = 0;
};

void export_world(const WorldArguments& arguments, const Common& common) {
  const world::Stream& chosen = world::stream(arguments.stream);
  const int counts[kSplits] = {arguments.train, arguments.val, arguments.test, arguments.tune};
  int64_t total = 0;
  for (const auto& task : chosen.tasks)
    for (int s = 0; s < kSplits; ++s) total += counts[s] + (s == 1 && task.held_group >= 0 ? counts[s] : 0);
  check(total > 0, "nothing to export: all counts are 0");
  check(is_unused_folder(arguments.folder), arguments.folder, ": is not empty; name a folder of its own");
  Progress progress("export " + chosen.name, total);
  Exporter exporter(chosen, arguments, progress);
  json tasks = json::array();
  StreamOptions named;
  named.name = chosen.name;
  const auto described = make_stream(named);
  for (size_t t = 0; t < chosen.tasks.size(); ++t) {
    json sizes = json::object(), files = json::object();
    const auto add = [&](Split split, bool novel, const char* size_name, const char* file_name) {
      const int count = counts[static_cast<int>(split)];
      if (count == 0) return;
      sizes[size_name] = exporter.write(t, split, count, novel);
      files[file_name] = "rows_" + Exporter::name_of_file(chosen, t, split, novel) + ".jsonl";
    };
    for (int s = 0; s < kSplits; ++s)
      add(static_cast<Split>(s), false, name_of(static_cast<Split>(s)), name_of(static_cast<Split>(s)));
    if (chosen.tasks[t].held_group >= 0) add(Split::val, true, "val_novel", "novel");
    tasks.push_back({{"name", chosen.tasks[t].name},
                     {"metric", chosen.tasks[t].metric()},
                     {"answer_tokens", described->tasks()[t].answer_tokens},
                     {"domain", name_of(chosen.tasks[t].domain)},
                     {"samples", sizes},
                     {"files", files}});
  }
  progress.finish();
  const json index = {
      {"stream", chosen.name}, {"seed", arguments.seed}, {"image_size", arguments.size}, {"tasks", tasks}};
  write_file_atomically(arguments.folder + "/stream.json", index.dump(2) + "\n");
  if (common.json) return print_json(index);
  std::cout << total << " samples of " << chosen.name << " in " << arguments.folder << "\n";
}

void list_streams(const Common& common) {
  json result = json::array();
  std::vector<std::vector<std::string>> rows = {{"stream", "tasks", "what"}};
  for (const auto& s : streams()) {
    json names = json::array();
    for (const auto& task : s.tasks) names.push_back(task.name);
    result.push_back({{"name", s.name}, {"summary", s.summary}, {"tasks", names}});
    rows.push_back({s.name, std::to_string(s.tasks.size()), s.summary});
  }
  if (common.json) return print_json({{"streams", result}});
  for (const auto& row : rows) std::cout << fmt::format("{:<14}{:>5}  {}\n", row[0], row[1], row[2]);
}

}  // namespace

void add_world_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("world", "the built-in procedural world of images and questions");
  command->require_subcommand(1);
  auto arguments = std::make_shared<WorldArguments>();
  auto* write =
      command->add_subcommand("export", "write a stream as VQA JSON, LLaVA conversations, JSON lines and PNG images");
  write->add_option("--stream", arguments->stream, "which one; 'asr world streams' lists them")->capture_default_str();
  write->add_option("-o,--output", arguments->folder, "folder to write into; created if absent")->required();
  const auto count = [&](const char* flag, int& value, const char* help) {
    write->add_option(flag, value, help)->capture_default_str()->check(CLI::Range(0, 1000000));
  };
  count("--train", arguments->train, "training samples a task");
  count("--val", arguments->val, "validation samples a task");
  count("--test", arguments->test, "test samples a task");
  count("--tune", arguments->tune, "tuning samples a task");
  write->add_option("--seed", arguments->seed, "which samples are drawn, as stream.seed of a run")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000000));
  write->add_option("--size", arguments->size, "pixels a side")->capture_default_str()->check(CLI::Range(16, 1024));
  write->callback([arguments, &common] { export_world(*arguments, common); });
  auto* list = command->add_subcommand("streams", "the ready streams");
  list->callback([&common] { list_streams(common); });
}

}  // namespace asr
