// A continual-learning method: extra losses, replay inside batches, statistics after a stage, and the state it keeps
// between stages. The trainer owns the loop: zero_grad, backward, clipping, steps, checkpoints and evaluation; a method
// returns losses and edits its own state, and never steps an optimizer.
#pragma once

#include <torch/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backbones/backbone.h"
#include "base/options.h"
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
  bool reference = false;  // embeddings of the base model, in batch.reference_*
};

// Embeddings of all samples of a step, where a term reaches over its passes (geometry.batch=global).
struct StepEmbeddings {
  torch::Tensor image, text, reference_image, reference_text;  // [N, width], without gradient
};

struct StageContext {
  int stage = 1;  // from 1
  uint64_t seed = 0;
  int64_t batch_size = 0;
  Backbone& model;
  const NamedParameters& parameters;
  const SampleSet& data;                         // of this stage, gone afterwards
  std::function<const StageMoments&()> moments;  // spectral moments of the stage's data, measured once when asked for
  const Team& team;                              // all of its processes must end in the same state
};

struct StepContext {
  const NamedParameters& parameters;
  const SampleBatch& batch;
  const Share& share;  // how much of the whole batch this is: losses are this part's summand
  const Output& output;
  std::function<torch::Tensor(const Pass&)>
      logits;                                 // what is learnt from, under other experts: answer tokens or classes
  std::map<std::string, torch::Tensor>& log;  // named scalars for the log, "<name>_loss" among them
  std::vector<std::pair<torch::Tensor, double>>& losses;  // what is minimised is their weighted sum
  // After whole_step: where this part's samples begin in the step, and the passes whose mean is the step's loss.
  int64_t first = -1, passes = 1;

  void add(const std::string& name, const torch::Tensor& term, double weight = 1) {
    log[name] = weight == 1 ? term.detach() : term.detach() * weight;
    losses.emplace_back(term, weight);
  }
};

class Method {
 public:
  virtual ~Method() = default;
  virtual Keeps keeps() const { return Keeps::statistics; }
  virtual bool joint() const { return false; }                      // one stage on the union of all tasks
  virtual bool combines_with(const Method&) const { return true; }  // in one run, as in "asr+ewc"
  virtual void visit(OptionVisitor&) {}
  // Once, when the model stands on its device and carries its adapters; `options` are the run's.
  virtual void prepare(Backbone&, const Options&) {}
  virtual Needs needs(int /*stage*/) const { return {}; }
  virtual int64_t current_rows(int64_t batch, int /*stage*/) const { return batch; }  // the rest is replay

  virtual void before_stage(StageContext&) {}
  // Adds to this process's part of a batch, and to `share` what the whole batch gained.
  virtual void mix_batch(SampleBatch&, Share& /*share*/, const Backbone&, uint64_t /*key*/) {}
  // With geometry.batch=global, before the passes of a step: what add_losses then needs is the gradient of its term for
  // its own samples, since the other passes' are gone by then.
  virtual void whole_step(const StepEmbeddings&) {}
  virtual void add_losses(StepContext&) {}
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
const std::vector<MethodInfo>& method_infos();

std::unique_ptr<Method> make_method(const std::string& name);  // with its options as they are by default

// The parts of "asr+ewc", in order; unknown and repeated names are errors, and methods that cannot be combined.
std::vector<std::string> method_parts(const std::string& composition);
bool trains_jointly(const std::string& composition);

}  // namespace asr
