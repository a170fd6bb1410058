// Everything a run can be told, from YAML files and --set in that order: the stream, the model, the schedule, the
// method with its options, and the spectral options of docs/maths.md. Unknown keys are errors with the nearest name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/options.h"
#include "methods/method.h"
#include "skills/part_of_speech.h"
#include "spectral/options.h"
#include "streams/stream.h"

namespace asr {

enum class Schedule { cosine, constant };
enum class Head { generate, answers };
enum class QueryRows { query, text };
enum class Recipe { native, asr_paper };
enum class EvalSplit { val, test, tune };
enum class GeometryBatch { micro, global };
enum class LoraSites { usual, all };
enum class ProjectorTraining { adapter, full, frozen };
enum class AnswerMerge { automatic, yes, no };
enum class RunPreset { nothing, native, asr_paper, asr_best };
template <>
struct EnumNames<Schedule> {
  static constexpr const char* names[] = {"cosine", "constant"};
};
template <>
struct EnumNames<Head> {
  static constexpr const char* names[] = {"generate", "answers"};
};

template <>
struct EnumNames<QueryRows> {
  static constexpr const char* names[] = {"query", "text"};
};
template <>
struct EnumNames<EvalSplit> {
  static constexpr const char* names[] = {"val", "test", "tune"};
};
template <>
struct EnumNames<GeometryBatch> {
  static constexpr const char* names[] = {"micro", "global"};
};
template <>
struct EnumNames<LoraSites> {
  static constexpr const char* names[] = {"usual", "all"};
};
template <>
struct EnumNames<ProjectorTraining> {
  static constexpr const char* names[] = {"adapter", "full", "frozen"};
};
template <>
struct EnumNames<AnswerMerge> {
  static constexpr const char* names[] = {"auto", "yes", "no"};
};
template <>
struct EnumNames<RunPreset> {
  static constexpr const char* names[] = {"none", "native", "asr-paper", "asr-best"};
};
template <>
struct EnumNames<Recipe> {
  static constexpr const char* names[] = {"native", "asr-paper"};
};

struct RunOptions {
  // What is run. Several methods, seeds and orders make a run each.
  std::vector<std::string> method = {"asr"};
  std::string label;  // name of the run's folder; empty: the method
  std::vector<int64_t> seeds = {0};
  int64_t orders = 1;  // task orders: the stream's own, then random ones
  std::string model = "tiny-S", output_dir, device = "cpu";
  StreamOptions stream;
  // How it is trained.
  RunPreset preset = RunPreset::nothing;
  double learning_rate = 1e-3, weight_decay = 0.01, max_grad_norm = 1, warmup_ratio = 0, num_train_epochs = 1;
  std::vector<std::string> task_epochs;  // "NAME=NUMBER": passes over the data of single tasks instead
  int64_t max_stage_steps = 0;           // no stage takes more (joint has none); 0: as its epochs say
  int64_t batch = 32, accumulation = 1;
  Schedule schedule = Schedule::cosine;
  int64_t lora_rank = 16;
  double lora_alpha = 32, lora_dropout = 0.05;
  LoraSites lora_sites = LoraSites::usual;
  ProjectorTraining projector = ProjectorTraining::adapter;
  double projector_learning_rate = 2e-5;
  Head head = Head::generate;
  // What is looked at.
  int64_t tap_layers = 4, memory_samples = 0, analysis_samples = 64, overlays = 4;
  Switch analysis_memory = Switch::yes, analysis_premise = Switch::no;
  int64_t eval_batch = 150;
  AnswerMerge answer_merge = AnswerMerge::automatic;
  EvalSplit eval_split = EvalSplit::val;
  BackboneOptions backbone;
  GeometryBatch geometry_batch = GeometryBatch::micro;
  QueryRows query_rows = QueryRows::query;
  Recipe recipe = Recipe::native;
  Switch recompute = Switch::no;
  WeightFormat base_precision = WeightFormat::plain;
  int64_t workers = 2;
  std::string parser, taxonomy;
  LexiconChoice lexicon = LexiconChoice::automatic;
  // Housekeeping; none of it changes a result, but for the last bits.
  std::string data_cache;  // folder of pictures and vision features for later runs; empty: none
  Switch same_bits = Switch::yes;
  std::vector<std::string> report_to;  // what the log is written for besides log.jsonl
  int64_t save_steps = 0, logging_steps = 10, keep_checkpoints = 2;
  double save_minutes = 5;

  void visit(OptionVisitor& visitor);
  BackboneOptions backbone_options() const;
  DataSplit scored_split() const;
  // The file of the skill parser: as given, or the one that ships for the stream. One that is not there is an error
  // that says how to train it.
  std::string parser_path() const;
  bool augments() const { return recipe == Recipe::asr_paper; }  // training pictures; no other recipe does
  double epochs_of(const std::string& task) const;
  // Steps for so many samples, of which a forward pass takes `rows` on average; of a stage, with its limit.
  int64_t all_steps(double epochs, int64_t samples, double rows) const;
  int64_t stage_steps(double epochs, int64_t samples, double rows) const;
};

struct RunConfig {
  RunOptions run;
  Options options;                             // spectral.*, asr.*, memory.shrinkage
  std::vector<Assignment> method_assignments;  // "ewc.lambda" and so on, applied to every fresh method
  std::string preset_note;                     // what a preset set, for the log; empty: nothing

  // All of it, resolved, with the options of the methods that are to run: what others are set to is no matter of
  // theirs, and a method that is new in a later version changes nothing for them. `beside`: of these, too.
  nlohmann::json manifest(const std::vector<std::string>& beside = {}) const;
  nlohmann::json shared_manifest() const;  // what runs that are compared must agree in
};

RunConfig resolve_run(const std::vector<Assignment>& assignments);

// Registered methods that have a section among stored options, whether the run uses them or not: earlier versions wrote
// those of all methods.
std::vector<std::string> methods_with_section(const nlohmann::json& stored);
std::vector<std::string> method_names();

// Options that name tasks must name tasks of the stream.
void check_task_names(const RunOptions& run, const Stream& stream);
// What to say where a step takes more samples than a stage has, so that some come twice in it; empty: nothing.
std::string batch_warning(const RunOptions& run, const Stream& stream);
std::string run_options_help();

// The methods of a composition, with their options set.
std::vector<std::unique_ptr<Method>> make_methods(const std::string& composition,
                                                  const std::vector<Assignment>& assignments);

}  // namespace asr
