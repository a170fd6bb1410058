// What one run is made of: a method, a seed and a task order over a stream. The loop trains it, the recorder writes
// down what comes of it, and checkpoints store it; all three look at the same parts.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "methods/method.h"
#include "spectral/memory.h"
#include "train/data.h"
#include "train/run_options.h"
#include "train/stage_phases.h"

namespace asr {

struct RunKey {
  std::string composition, label;
  int64_t seed = 0, order = 0;
  std::string folder;                    // of this run
  nlohmann::json fingerprint = nullptr;  // what it is made of (train/run_identity.h); only process 0 knows it
};

// How far the run is; all of it is in a checkpoint.
struct Position {
  int stage = 0;                      // 0: before the zero-shot row
  int64_t step = 0, global_step = 0;  // steps done in the stage, in all
  int64_t phase = 0, phase_step = 0;  // which phase of the stage, and the steps done before it
  bool trained = false;               // the stage's steps are done, its evaluation is not
  double prepare_seconds = 0, train_seconds = 0, eval_seconds = 0, finish_seconds = 0;
  int64_t most_parameters = 0;             // that a phase could train
  int64_t model_steps = 0, samples = 0;    // steps that ran the model, and the samples that it learnt from in all steps
  double other_seconds = 0;                // of training: steps of what a method trains beside the model
  std::vector<std::vector<double>> rows;   // scores, row 0 is zero-shot
  std::vector<std::vector<double>> novel;  // on unseen compositions, from stage 1
  std::vector<std::vector<double>> outside;                          // TaskScore::outside, for each of `rows`
  std::map<std::string, std::vector<std::optional<double>>> skills;  // accuracy after every stage
  nlohmann::json changes = nlohmann::json::array();                  // of options, when it was resumed

  int64_t in_phase() const { return step - phase_step; }
};

class RunParts {
 public:
  // `model` is the base; the run's adapters go with this object.
  RunParts(const RunConfig& run_config, const RunKey& run_key, Backbone& base, Data& run_data, const Team& processes);

  const RunConfig& config;
  const RunKey key;
  Backbone& model;
  Data& data;
  const Team& team;
  const std::vector<size_t> order;  // tasks in the order trained
  const std::vector<std::string> method_names;
  std::vector<std::unique_ptr<Method>> methods;
  AdapterBank bank;
  std::unique_ptr<Objective> objective;
  bool own_objective = false;       // a method brought it
  PrototypeMemory analysis_memory;  // measured for every method, for analysis; not part of any method's state
  Position at;

  uint64_t seed() const { return static_cast<uint64_t>(key.seed); }
  bool joint() const;
  int stages() const;
  Needs needs() const;
  double replay_share(int stage) const;  // of all methods
  double rows_a_pass(int stage) const;   // of the stage's own samples, on average
  std::vector<Phase> phases(int stage) const;
  int64_t planned_steps() const;  // of all stages
  const SampleSet& stage_data(bool reference);
  // What its steps take instead, where a method has chosen; with references if they are asked for. Null: nobody has.
  std::shared_ptr<SampleSet> chosen_data(const SampleSet& set, bool reference);
  std::string stage_title() const;
  std::vector<std::string> task_names() const;  // in the order trained
  int64_t answers_after(int stage) const;       // samples of the evaluation after a stage; 0: the zero-shot row

  void make_slots(int stage);                  // those that the stage needs and that are not there yet
  std::vector<ParameterGroup> groups() const;  // everything that may be trained now
  NamedParameters trained() const;             // the same, in one list
  RoutedPass pass_for(const SampleBatch& batch, bool answering);
  PassFor answering();
  StageContext stage_context(const SampleSet& set, const NamedParameters& parameters,
                             std::function<const StageMoments&()> moments);

 private:
  PlannedRun planned() const;  // as far as it is known without the model

  std::shared_ptr<SampleSet> union_;  // of joint training
};

// What the options say of adapters: one on the run's sites, of its rank and scale, and what becomes of the projector.
struct PlainLayout {
  SlotLayout slot;
  ProjectorTraining projector = ProjectorTraining::adapter;
  double projector_learning_rate = 0;
};
PlainLayout plain_layout(const std::vector<AdapterSite>& all, const RunOptions& run);
// What the methods lay out in a stage; two that do are an error. A projector that has no adapter leaves their slots;
// one that is trained whole is a slot of its own, the same in all stages.
AdapterLayout stage_layout(const std::vector<std::unique_ptr<Method>>& methods, const std::vector<std::string>& names,
                           const std::vector<AdapterSite>& sites, const PlainLayout& plain, int stage);

// The objective that one of the methods brings; null: none does. Two that do are an error.
std::unique_ptr<Objective> methods_objective(const std::vector<std::unique_ptr<Method>>& methods,
                                             const std::vector<std::string>& names, const ObjectiveContext& run);
// What the option `head` says is learnt.
std::unique_ptr<Objective> usual_objective(const RunOptions& run, const ObjectiveContext& context);

// The part of the name that sets phases of one stage apart in random draws.
uint64_t phase_key(int stage, const Phase& phase);

}  // namespace asr
