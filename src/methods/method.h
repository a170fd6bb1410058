// A continual-learning method: adapters and how they are weighed, extra losses, replay, phases of its own, statistics
// after a stage, and the state it keeps between stages. The trainer owns the loop: zero_grad, backward, sums over
// processes, clipping, steps, checkpoints and evaluation; a method returns losses, edits gradients and its own state,
// and never steps an optimizer.
#pragma once

#include <torch/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adapters/bank.h"
#include "backbones/backbone.h"
#include "base/options.h"
#include "data/objective.h"
#include "data/sample_batch.h"
#include "data/sample_set.h"
#include "methods/costs.h"
#include "methods/state_shapes.h"
#include "parallel/team.h"
#include "spectral/moments.h"
#include "spectral/options.h"
#include "tensor/state.h"

namespace asr {

// What a method may keep between stages; the audit holds it to this.
enum class Keeps { statistics, teacher, samples };

// What a method wants computed in a training step.
struct Needs {
  bool tap = false, pooled = false, logits = false;
  bool reference = false;  // embeddings of the base model, in SampleBatch::reference_*
};

// Embeddings of all samples of a step, where a term reaches over its passes (geometry.batch=global).
struct StepEmbeddings {
  torch::Tensor image, text, reference_image, reference_text;  // [N, width], without gradient
};

// Parameters with a rate and a decay of their own.
struct ParameterGroup {
  std::string name;  // phases choose by it; "adapters" and "task" are the trainer's
  NamedParameters parameters;
  double learning_rate = 0;  // peak; 0: the phase's
  double weight_decay = -1;  // below 0: the run's
};

// A stretch of a stage with one optimizer and one schedule. By default a stage has one, or one a group of its task.
struct Phase {
  std::string name;                 // empty: the stage's own training
  std::vector<int64_t> rows;        // of the stage's data; empty: all
  int64_t number = 0;               // 0: the stage has no groups; else counted from 1, phases of methods on from there
  int64_t samples = 0;              // that an epoch goes through
  int64_t first = 0, steps = 0;     // steps of the stage before it, and its own
  std::vector<std::string> trains;  // names of parameter groups; empty: all
  double task_weight = 1;           // of the objective's loss; 0: the methods' terms alone
  double learning_rate = 0;         // peak; 0: the run's
  bool constant_rate = false;
  int64_t batch = 0;       // samples a pass; 0: the run's
  bool runs_model = true;  // false: no pass; terms are made of what the method has stored by row
  std::string of_method;   // whose phase it is; only that method's terms count. Empty: the trainer's
  int64_t end() const { return first + steps; }
};

// What is known before a run begins.
struct PhasePlan {
  int stage = 1;
  int64_t samples = 0, batch = 0;
  std::function<int64_t(double epochs, int64_t samples)> steps;  // as the run's options count them
  int stages = 1;                                                // of the run
  double learning_rate = 0;                                      // the run's peak
  std::string task = {};                                         // of the stream; empty: all of it
  std::function<bool()> pictured = {};                           // whether a sample of it has a picture; null: yes
  bool closed_head = false;      // answers are chosen by parameters of the objective, not written
  bool whole_projector = false;  // the projector's weights are trained, with no adapter
  int64_t layers = 0;            // of the language model; 0: not known
  // Tasks of the stream of whose samples none names its object category; null: none.
  std::function<std::vector<std::string>()> uncategorised = {};
  // Told what would run but is hardly meant; null: nobody listens.
  std::function<void(const std::string&)> warn = {};
};

// What a training pass takes of a stage's data, and the key under which its pictures are changed.
struct ScheduledRows {
  std::vector<int64_t> rows;
  std::optional<uint64_t> augment;
};

struct StageContext {
  int stage = 1;  // from 1
  uint64_t seed = 0;
  int64_t batch_size = 0;
  Backbone& model;
  AdapterBank& bank;
  const Objective& objective;
  NamedParameters parameters;                    // all that is trained, in the optimizer's order
  const SampleSet& data;                         // of this stage, gone afterwards
  std::function<const StageMoments&()> moments;  // spectral moments of the stage's data, measured once when asked for
  PassFor answering;                             // as evaluation answers
  const Team& team;                              // all of its processes must end in the same state
  PassFor training = {};                         // as training passes a batch, without dropout
  int64_t tap_layers = 0;                        // as training taps
  std::function<std::vector<ScheduledRows>()> schedule = {};  // of all passes that train the stage's task
};

struct RouteContext {
  const Backbone& model;
  const AdapterBank& bank;
  const SampleBatch& batch;
  int stage = 0;  // in training the one being trained, in answering the last one trained
  bool answering = false;
  uint64_t& slots;                              // which take part
  GivenWeights& given;                          // weights of their experts, by slot number
  std::vector<RouteChoice>* choices = nullptr;  // of every row, for a method that chooses; null: nobody looks
  torch::Tensor* inserted = nullptr;            // [B, n, width] after the visual tokens; null: nobody looks
};

struct StepContext {
  const NamedParameters& parameters;
  Backbone& model;
  AdapterBank& bank;
  const Objective& objective;
  const Phase& phase;
  const SampleBatch& batch;
  // Of the stage's data that `batch` begins with; where all of a pass is replayed, one that stands in.
  const std::vector<int64_t>& rows;
  const Share& share;  // how much of the whole batch this is: losses are this part's summand
  const Output& output;
  // Of the objective under other adapters, by its parameters as they were then; none: as they are.
  std::function<torch::Tensor(const Pass&, const std::vector<torch::Tensor>& objective_parameters)> logits;
  std::map<std::string, torch::Tensor>& log;              // named scalars for the log, "<name>_loss" among them
  std::vector<std::pair<torch::Tensor, double>>& losses;  // what is minimised is their weighted sum
  // After whole_step: where this part's samples begin in the step, and the passes whose mean is the step's loss.
  int64_t first = -1, passes = 1;

  void add(const std::string& name, const torch::Tensor& term, double weight = 1) {
    log[name] = weight == 1 ? term.detach() : term.detach() * weight;
    losses.emplace_back(term, weight);
  }
};

// After the sum over the processes, before clipping: gradients may be edited in place.
struct GradientContext {
  int stage = 1;
  int64_t step = 0;  // of the phase
  const Phase& phase;
  AdapterBank& bank;
  const NamedParameters& parameters;
};

// What a method makes an objective of its own from.
struct ObjectiveContext {
  const Backbone& model;
  std::function<std::map<std::string, int64_t>()> answers;  // of training, and how many samples have each
};

// A batch that a method makes, pass by pass: this process's part of one pass.
struct OwnBatch {
  SampleBatch batch;
  Share share;
  int64_t pass = 0, passes = 1;  // which it is of how many; the trainer says
  double part = 1;               // of the whole batch that this pass holds; the method says
};

class Method {
 public:
  virtual ~Method() = default;
  virtual Keeps keeps() const { return Keeps::statistics; }
  virtual bool joint() const { return false; }                      // one stage on the union of all tasks
  virtual bool combines_with(const Method&) const { return true; }  // in one run, as in "asr+ewc"
  // Whether a stage trains other adapters than the one before, and whether the method needs those that are trained
  // through all stages; two such methods do not go together.
  virtual bool renews_adapters() const { return false; }
  virtual bool needs_lasting_adapters() const { return false; }
  virtual void visit(OptionVisitor&) {}
  // The settings of its authors' code, of the run's options and its own: "preset: native" takes those that nobody set.
  virtual std::vector<Assignment> native() const { return {}; }
  // Folders of frozen models that it reads beside the backbone; their content is part of what a run is.
  virtual std::vector<std::string> encoder_folders() const { return {}; }
  // What is learnt in place of what the option `head` says; null: that. One method of a run may bring it; it is made
  // once, before `prepare`, and stored with the adapters.
  virtual std::unique_ptr<Objective> objective(const ObjectiveContext&) { return nullptr; }
  virtual bool chooses_answers() const { return false; }  // that objective answers from a list, known before it is made
  // Once, when the model stands on its device; `options` are the run's.
  virtual void prepare(Backbone&, const Options&) {}
  virtual Needs needs(int /*stage*/) const { return {}; }
  // Part of the samples of a stage's passes that `mix_batch` adds: Share::room has so many, on average over passes.
  virtual double replay_share(int /*stage*/) const { return 0; }

  // Slots that must be there in a stage; those that are not yet are made, as are routers that they lack. Nothing: one
  // adapter on the run's sites. `plain` is what the run's options say of sites, rank and scale.
  virtual std::optional<AdapterLayout> layout(const std::vector<AdapterSite>& /*sites*/, const SlotLayout& /*plain*/,
                                              int /*stage*/) const {
    return std::nullopt;
  }
  virtual std::vector<ParameterGroup> parameters() { return {}; }  // beyond adapters; `state` must visit them too
  // The phases of a stage; a method may add its own before and after, or change those planned. Asked before the run
  // begins as well, so it may depend on nothing that is learnt; and, by `asr doctor` too, before a model is loaded:
  // here a method refuses stream and settings that it cannot run with.
  virtual void plan(const PhasePlan&, std::vector<Phase>& /*phases*/) const {}
  virtual void route(RouteContext&) {}
  // What an answer takes of it beside adapters and their gates, in words; empty: nothing. A run's adapter folder then
  // holds what the method keeps, and is no PEFT folder.
  virtual std::string answers_with() const { return {}; }

  virtual void begin_stage(StageContext&) {}  // once a stage: may change adapters and what is kept
  // The samples that the stage's steps take, where a method chooses them; for the same model, as many as it planned.
  // They are then the data of every context until the stage ends, and after a resume they are asked for again. None:
  // the stage's own.
  virtual std::shared_ptr<SampleSet> training_set(StageContext&) { return nullptr; }
  virtual void before_stage(StageContext&) {}               // and every time training goes on, after a resume too
  virtual void begin_phase(StageContext&, const Phase&) {}  // once a phase, after its parameters were chosen
  // Adds to this process's part of a batch, and to `share` what the whole batch gained. Methods that keep no samples
  // come first, and have the stage's own before them.
  virtual void mix_batch(SampleBatch&, Share& /*share*/, const Backbone&, uint64_t /*key*/) {}
  // A batch for a step of its own after the one just made, under the same optimizer: asked for each of as many passes
  // as a step has, with the same key; false: none, or no more.
  virtual bool extra_batch(OwnBatch&, const Backbone&, uint64_t /*key*/) { return false; }
  // With geometry.batch=global, before the passes of a step: what add_losses then needs is the gradient of its term for
  // its own samples, since the other passes' are gone by then.
  virtual void whole_step(const StepEmbeddings&) {}
  // Of the objective's loss, by sample [B]: it becomes the mean over samples of their weight times their own mean loss.
  virtual torch::Tensor sample_weights(const SampleBatch&) const { return {}; }
  virtual void add_losses(StepContext&) {}
  virtual void after_backward(GradientContext&) {}
  virtual void after_step(GradientContext&) {}
  virtual bool phase_done(const Phase&, int64_t /*steps*/, double /*loss*/) { return false; }  // ends it early
  virtual void after_stage(StageContext&) {}
  virtual void state(StateVisitor&) {}
  virtual std::vector<StateShape> kept(const StateSizes&) const { return {}; }  // all that `state` may visit
  virtual MethodCosts costs(const CostContext&) const { return {}; }
};

// Every registered method, fresh, under its name; a run owns one such set, so that options of all of them can be read.
std::vector<std::pair<std::string, std::unique_ptr<Method>>> all_methods();

struct MethodInfo {
  std::string name, summary;
};
std::vector<MethodInfo> method_infos();

// A method that is not in methods.def, for programs that link this library: once, before anything asks for methods. The
// name is the one users write; it is also the section of its options.
using MethodFactory = std::function<std::unique_ptr<Method>()>;
void add_method(const std::string& name, const std::string& summary, MethodFactory make);

std::unique_ptr<Method> make_method(const std::string& name);  // with its options as they are by default

// The parts of "asr+ewc", in order; unknown and repeated names are errors, and methods that cannot be combined.
std::vector<std::string> method_parts(const std::string& composition);
bool trains_jointly(const std::string& composition);

}  // namespace asr
