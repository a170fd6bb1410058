// One function a kind of file in a run's folder. The members of JSON files stand here once, as JSON.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/atomic_file.h"
#include "base/checksums.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/text.h"
#include "io/analysis_file.h"
#include "io/csv.h"
#include "io/resample.h"
#include "io/safetensors_metadata.h"
#include "skills/taxonomy.h"
#include "skills/words.h"
#include "tensor/tensor_io.h"
#include "train/evaluator.h"
#include "train/event_log.h"
#include "train/run_checks.h"
#include "train/run_folder.h"
#include "train/run_identity.h"

namespace asr {
namespace {

using nlohmann::json;

constexpr int64_t kWidest = 1 << 16;  // of an embedding; the model's own width is below
constexpr int64_t kMostHeads = 256;   // of a layer
constexpr int64_t kAnswerBytes = 64;  // a token of an answer has at most
constexpr int64_t kTokensAWord = 4;   // of a large vocabulary

const json& log_shape() {
  static const json shape = json_shape(R"({
    "current_steps": "number", "total_steps": "number", "loss": "number", "lr": "number", "epoch": "number",
    "percentage": "number", "elapsed_time": "number", "remaining_time": "number", "stage": "number",
    "grad_norm": "number", "communication_time": "number", "group": "text", "<term>": "number", "time": "time",
    "note": "text",
    "changed": {"option": "text", "before": "number", "after": "number", "stage": "number", "current_steps": "number"},
    "scores": ["number"], "AP": "number", "skill_accuracy": {"<skill>": "number"},
    "skill_forgetting": {"<skill>": "number"},
    "skill_forgetting_step": {"<skill>": "number"},
    "skill_drift": {"<skill>": "number"}, "parts": {"<part>": {"accuracy": "number", "samples": "number"}}})");
  return shape;
}

const json& metrics_shape() {
  static const json shape = json_shape(R"({
    "label": "text", "method": "text", "seed": "number", "order": "number", "stream": "text", "backbone": "text",
    "held_out": "text",
    "one_stage": "flag", "replay_free": "flag", "head": "text", "tasks": ["task"], "complete": "flag",
    "changes": [{"option": "text", "before": "number", "after": "number", "stage": "number",
                 "current_steps": "number"}],
    "scores": {"zero_shot": "number", "AP": "number", "AF": "number", "AF_vqacl": "number", "Last": "number",
               "Avg": "number", "BWT": "number", "MFT": "number", "AP_novel": "number", "AF_novel": "number",
               "AF_novel_vqacl": "number"},
    "cost": {"step_ms": "number", "steps": "number", "prepare_seconds": "number",
             "train_seconds": "number", "finish_seconds": "number",
             "eval_seconds": "number", "processes": "number", "stored_bytes": "number",
             "adapter_parameters": "number", "passes": "number"},
    "skills": [{"name": "skill", "index": "number", "accuracy": ["number"], "forgetting_best": "number",
                "forgetting_step": "number",
                "forgetting_cumulative": "number"}]})");
  return shape;
}

const json& prediction_shape() {  // texts are compared with the validation sample's
  static const json shape = json_shape(R"({
    "question_id": "anything", "text": "anything", "answer": "anything", "score": "number", "skill": "anything",
    "question": "anything", "references": "anything", "type": "anything", "part": "anything", "slot": "text",
    "slots": "anything"})");
  return shape;
}

// Tensors of stages/AA/analysis.safetensors; the pictures are compared with those of the validation set.
std::vector<StateShape> analysis_shapes(const RunFacts& facts) {
  constexpr auto kind = StateKind::statistics;
  const auto tasks = static_cast<int64_t>(facts.stream->tasks().size());
  const int64_t n = static_cast<int64_t>(facts.names.skills.size()) * tasks;  // a row for a skill and a task
  const int64_t d = facts.sizes.descriptor, m = facts.sizes.angular;
  const int64_t samples = facts.config.run.analysis_samples * tasks, pictures = facts.config.run.overlays;
  const int64_t radial = facts.config.options.spectral.radial_bins;
  return {{"skill", kind, {n}},
          {"task", kind, {n}},
          {"count", kind, {n}},
          {"scored", kind, {n}},
          {"accuracy", kind, {n}},
          {"mean", kind, {n, d}},
          {"variance", kind, {n, d}},
          {"radial", kind, {n, radial}},
          {"angular", kind, {n, m}},
          {"entropy", kind, {n}},
          {"embedding", kind, {n, kWidest}},
          {"sample.skill", kind, {samples}},
          {"sample.task", kind, {samples}},
          {"sample.correct", kind, {samples}},
          {"sample.distance", kind, {samples}},
          {"sample.descriptor", kind, {samples, d}},
          {"sample.heads", kind, {samples, facts.config.run.tap_layers, kMostHeads, d / 2}},
          {"overlay.image", kind, {pictures, kWidest, kWidest, 3}},
          {"overlay.map", kind, {pictures, kWidest, kWidest}}};
}

int64_t longest_answer(const RunFacts& facts, size_t task) {
  return kAnswerBytes * kTokensAWord * facts.stream->tasks()[task].answer_tokens;
}

// The digits after a mark in a file's name: "stage-03-task-01.jsonl".
int64_t number_after(const std::string& name, const std::string& mark) {
  const size_t at = name.rfind(mark);
  int64_t out = 0;
  size_t end = at == std::string::npos ? name.size() : at + mark.size();
  for (; end < name.size() && is_digit(name[end]); ++end) out = out * 10 + (name[end] - '0');
  return out;
}

}  // namespace

void check_config(RunChecks& checks, const std::string& name) {
  const auto content = read_file(checks.path_of(name), 1 << 20);
  checks.text(name, "settings", content);
  const auto options = parse_yaml_options(content, name);
  auto sections = json::object();
  for (const auto& option : options) sections[option.key.substr(0, option.key.find('.'))] = true;
  const auto config = resolve_run(options);
  if (with_checksum_line(yaml_text(config.manifest(methods_with_section(sections)))) != content)
    checks.violation(name + ": is not written as the program writes it");
}

void RunChecks::fingerprint(const json& stored, const std::string& where) {
  match(stored, json_shape(R"({
    "format": "number", "method": "text", "seed": "number", "order": "number", "config": "anything",
    "content": {"data": "anything", "pictures": "text", "model": "hash", "parser": "text", "taxonomy": "text",
                "lexicon": "text", "encoders": "hash"}, "hash": "hash"})"),
        where);
  const JsonFields fields(stored, where);
  fields.object("content");
  const auto content = fields.at("content");
  RunKey key;
  key.composition = facts.method;
  key.seed = facts.seed;
  key.order = facts.order_number;
  auto expected = run_fingerprint(facts.config, key, content);
  expected["config"] = with_changes_of(fields.at("config"), expected["config"]);
  if (stored.contains("hash")) expected["hash"] = self_hash(expected);
  if (expected != stored || content.value("data", json()) != facts.stream->fingerprint())
    violation(where + ": is not what the run's options and data give");
  for (const auto& [name, value] : content.items()) {
    const auto text = value.is_string() ? value.get<std::string>() : std::string();
    const bool hash = text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (name != "data" && !hash && text != "none" && text != "built in")
      violation(cat(where, ": '", printable(name), "' is no hash"));
  }
}

void check_fingerprint(RunChecks& checks, const std::string& name) {
  checks.fingerprint(checks.json_file(name, "anything", 1), name);
}

// The names are those of the run's own files, each with the checksum of what lies there.
void check_checksums(RunChecks& checks, const std::string& name) {
  const auto list = checks.json_file(name, {{"format", "number"}, {"files", "anything"}, {"sha256", "hash"}}, 1);
  const Checksums checksums(checks.facts.folder);
  const auto files = text_files_of_run(checks.facts.folder);
  for (const auto& file : checksums.names()) {
    if (!path_exists(checks.path_of(file))) continue;
    const auto problem = checksums.problem(file, read_file(checks.path_of(file)));
    if (!problem.empty()) checks.violation(file + ": " + problem);
  }
  for (const auto& file : files)
    if (!checksums.lists(file)) checks.violation(file + ": is not in checksums.json: it was added or renamed later");
  for (const auto& [file, entry] : list.at("files").items()) {
    checks.match(entry, {{"sha256", {"hash"}}, {"first_bytes", "number"}}, cat(name, ": '", printable(file), "'"));
    if (!is_run_file(file) || entry.at("sha256").size() > 2)
      checks.violation(cat(name, ": '", printable(file), "' is no entry that a run writes"));
  }
}

void check_log(RunChecks& checks, const std::string& name) {
  const auto path = checks.path_of(name);
  const auto content = read_file(path);
  checks.text(name, "log", content);
  std::string written;
  for_each_json_line(path, [&](const json& line, const std::string& place) {
    written += line.dump() + "\n";
    checks.match(line, log_shape(), place);
  });
  if (written != content) checks.violation(name + ": is not written as the program writes it");
}

// Nothing but the numbers of the log: "events.out.tfevents.SECONDS.PROCESS.0".
void check_events(RunChecks& checks, const std::string& name) {
  const auto content = read_file(checks.path_of(name));
  checks.text(name, "log", content);
  std::vector<std::string> tasks;
  for (const size_t task : checks.facts.order) tasks.push_back(checks.facts.stream->tasks()[task].name);
  constexpr size_t kBeforeSeconds = std::string_view("events.out.tfevents.").size();
  int64_t begun = 0;
  parse_int(name.substr(kBeforeSeconds, name.find('.', kBeforeSeconds) - kBeforeSeconds), begun);
  if (content != event_file_of(read_file(checks.path_of("log.jsonl")), tasks, begun))
    checks.violation(name + ": is not what log.jsonl gives");
}

void check_metrics(RunChecks& checks, const std::string& name) {
  checks.json_file(name, metrics_shape(), 1);
}

struct TableCell {
  size_t line, column;  // from 1 and from 0
  std::string text;
};

// Every cell of a table of results, of which `fits` says whether a run may write it.
template <class Fits>
void check_cells(RunChecks& checks, const std::string& name, const char* what, Fits fits) {
  const auto content = read_file(checks.path_of(name), size_t(64) << 20);
  checks.text(name, "scores", content);
  size_t line = 1;
  for (size_t begin = 0; begin < content.size(); ++line) {
    const size_t end = std::min(content.find('\n', begin), content.size());
    const auto cells = split_csv_line(content.substr(begin, end - begin), cat(name, ":", line));
    begin = end + 1;
    for (size_t i = 0; i < cells.size(); ++i)
      if (!fits(TableCell{line, i, cells[i]}))
        checks.violation(cat(name, ":", line, ": cell '", printable(cells[i]), "' is no ", what, " of this run"));
  }
}

void check_matrix(RunChecks& checks, const std::string& name) {
  check_cells(checks, name, "score", [&](const TableCell& cell) {
    if (cell.line == 1) return cell.column == 0 ? cell.text == "stage" : checks.facts.names.tasks.count(cell.text) > 0;
    double value = 0;
    return cell.text.size() <= 24 && (cell.text.empty() || parse_double(cell.text, value));
  });
}

namespace {

bool names_slot(const RunFacts& facts, const std::string& name) {
  bool out = facts.slots.count(name) > 0 || name == "base";
  for (size_t stage = 1; stage <= facts.order.size(); ++stage) out = out || name == cat("stage-", stage);
  return out;
}

// Which slot answered, and the probability of each: names and numbers that a run may write, nothing else.
bool fits_routing(const RunFacts& facts, const std::string& key, const json& value) {
  if (key == "slot") return value.is_string() && names_slot(facts, value.get<std::string>());
  if (!value.is_object()) return false;
  for (const auto& [slot, probability] : value.items()) {
    if (!names_slot(facts, slot) || !probability.is_number()) return false;
    const auto number = probability.get<double>();
    if (!(number >= 0 && number <= 1) || rounded_probability(number) != number) return false;
  }
  return true;
}

}  // namespace

void check_routing(RunChecks& checks, const std::string& name) {
  check_cells(checks, name, "count", [&](const TableCell& cell) {
    if (cell.line == 1) return cell.column == 0 ? cell.text == "task" : names_slot(checks.facts, cell.text);
    int64_t count = 0;
    return cell.column == 0 ? checks.facts.names.tasks.count(cell.text) > 0 : parse_int(cell.text, count);
  });
}

void check_memory(RunChecks& checks, const std::string& name) {
  const auto file = checks.tensor_file(name, {"asr_memory", "options", "skills", "stages"});
  checks.metadata(file, "asr_memory", "1");
  checks.metadata(file, "options", checks.facts.config.options.manifest().dump());
  checks.metadata(file, "skills", json(skill_names()).dump());
  const auto& tasks = checks.facts.stream->tasks();
  const json stages = metadata_json(file, "stages");
  const bool counted = stages.is_number_unsigned() && stages.get<uint64_t>() <= tasks.size();
  if (!counted) checks.violation(name + ": metadata 'stages' is no number of stages");
  auto shapes = checks.facts.memory;
  for (auto& shape : shapes)
    if (shape.name == "map") shape.most = {shape.most[0], shape.most[1], shape.most[1]};  // a picture a prototype
  for (const auto& view : file.tensors) checks.tensor(file, view, shapes, "", "prototypes");
}

void check_predictions(RunChecks& checks, const std::string& name) {
  const auto& facts = checks.facts;
  const auto position = static_cast<size_t>(number_after(name, "-task-"));
  if (position < 1 || position > facts.order.size()) return checks.violation(name + ": is of no task of the stream");
  const size_t task = facts.order[position - 1];
  const bool novel = name.find("/novel-") != std::string::npos;
  const auto split = novel ? DataSplit::novel : facts.config.run.scored_split();
  const int64_t count = facts.stream->size(task, split);
  const int64_t longest = longest_answer(facts, task);
  std::string written, answers;
  int64_t index = 0;
  for_each_json_line(checks.path_of(name), [&](const json& line, const std::string& place) {
    written += line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    checks.match(line, prediction_shape(), place);
    if (index >= count) return checks.violation(place + ": there are more lines than validation samples");
    const auto sample = facts.stream->text(task, split, index++);
    json expected = {
        {"question_id", sample.id}, {"answer", sample.answer}, {"question", sample.question}, {"skill", sample.skill}};
    if (sample.references.size() > 1) expected["references"] = sample.references;
    if (!sample.type.empty()) expected["type"] = sample.type;
    if (!sample.part.empty()) expected["part"] = sample.part;
    for (const auto& [key, value] : line.items())
      if (key == "slot" || key == "slots") {
        if (!fits_routing(facts, key, value))
          checks.violation(cat(place, ": '", printable(key), "' is no choice of this run's slots"));
      } else if (key != "text" && key != "score" && (!expected.contains(key) || expected[key] != value)) {
        checks.violation(cat(place, ": '", printable(key), "' is not the validation sample's"));
      }
    const auto answer = JsonFields(line, place).text("text");
    if (static_cast<int64_t>(answer.size()) > longest)
      checks.violation(cat(place, ": an answer of ", answer.size(), " bytes, where ", longest, " can be given"));
    answers += answer + "\n";
  });
  checks.text(name + " (answers)", "predictions", answers);
  if (written != read_file(checks.path_of(name))) checks.violation(name + ": is not written as the program writes it");
}

namespace {

// The picture as the analysis keeps it.
Image8 shown_picture(const RunFacts& facts, size_t task, int64_t index, int64_t height, int64_t width) {
  auto sample = facts.stream->sample(task, facts.config.run.scored_split(), index);
  Image8 out{sample.height, sample.width, std::move(sample.pixels)};
  if (out.height != height || out.width != width) out = resize(out, height, width, ResampleFilter::Bilinear);
  return out;
}

// Overlays are the first of the samples measured of the tasks seen, so many of each: picture, question and answer are
// known.
void check_overlays(RunChecks& checks, const Safetensors& file, const std::string& name) {
  const auto& facts = checks.facts;
  const json list = metadata_json(file, "overlay");
  checks.metadata(file, "overlay", list.dump(-1, ' ', false, json::error_handler_t::replace));
  if (!list.is_array()) return checks.violation(name + ": metadata 'overlay' is no list");
  const auto* images = file.find("overlay.image");
  const int64_t kept = images && images->shape.size() == 4 ? images->shape[0] : 0;
  if (kept != static_cast<int64_t>(list.size()))
    return checks.violation(name + ": 'overlay.image' and metadata 'overlay' differ in length");
  std::map<std::string, int64_t> next;
  std::string answers;
  for (size_t i = 0; i < list.size(); ++i) {
    const auto place = cat(name, ": overlay ", i + 1);
    checks.match(list[i],
                 {{"task", "task"},
                  {"question", "anything"},
                  {"answer", "anything"},
                  {"prediction", "anything"},
                  {"functional", {"text"}}},
                 place);
    const JsonFields fields(list[i], place);
    const auto title = fields.text("task");
    size_t task = 0;
    while (task < facts.stream->tasks().size() && facts.stream->tasks()[task].name != title) ++task;
    if (task == facts.stream->tasks().size()) return;  // said above
    const auto split = facts.config.run.scored_split();
    const auto rows = analysed_rows(title, facts.stream->size(task, split), facts.config.run.analysis_samples);
    const auto shown = static_cast<size_t>(next[title]++);
    if (shown >= rows.size()) return checks.violation(place + ": is no measured validation sample");
    const int64_t index = rows[shown];
    const auto sample = facts.stream->text(task, split, index);
    if (fields.text("question") != sample.question || fields.text("answer") != sample.answer)
      checks.violation(place + ": is not the validation sample's question and answer");
    for (const auto& word : fields.texts("functional"))
      if (lower_case(sample.question).find(lower_case(word)) == std::string::npos)
        checks.violation(cat(place, ": '", printable(word), "' is no word of its question"));
    const auto answer = fields.text("prediction");
    if (static_cast<int64_t>(answer.size()) > longest_answer(facts, task))
      checks.violation(cat(place, ": an answer of ", answer.size(), " bytes"));
    answers += answer + "\n";
    const size_t bytes = images->data.size / list.size();
    const auto picture = shown_picture(facts, task, index, images->shape[1], images->shape[2]);
    const bool same =
        picture.rgb.size() == bytes && std::memcmp(picture.rgb.data(), images->data.data + i * bytes, bytes) == 0;
    if (!same) checks.violation(place + ": its picture is not the validation sample's");
  }
  checks.text(name + " (answers)", "analysis", answers);
}

}  // namespace

void check_analysis(RunChecks& checks, const std::string& name) {
  const auto& facts = checks.facts;
  const auto file =
      checks.tensor_file(name, {"asr_analysis", "skill_names", "task_names", "task_samples", "options", "overlay"});
  checks.metadata(file, "asr_analysis", kAnalysisFormat);
  checks.metadata(file, "skill_names", json(skill_names()).dump());
  const auto hashes = metadata_json(file, "task_samples"), names = metadata_json(file, "task_names");
  checks.match(hashes, {"hash"}, name + ": metadata 'task_samples'");
  checks.match(names, {"task"}, name + ": metadata 'task_names'");
  const auto tasks = facts.stream->tasks().size();
  if (hashes.size() > tasks || names.size() > tasks) checks.violation(name + ": names more tasks than there are");
  checks.metadata(file, "task_samples", hashes.dump());
  checks.metadata(file, "task_names", names.dump(-1, ' ', false, json::error_handler_t::replace));
  checks.metadata(file, "options", checks.facts.config.options.manifest().dump());
  check_overlays(checks, file, name);
  const auto shapes = analysis_shapes(checks.facts);
  for (const auto& view : file.tensors)
    if (view.name != "overlay.image") checks.tensor(file, view, shapes, "", "analysis");
}

}  // namespace asr
