#include "train/stage_phases.h"

#include <algorithm>

#include "base/text.h"
#include "train/joint.h"
#include "train/task_order.h"

namespace asr {
namespace {

// Of joint training: all tasks as one.
Phase union_phase(const PlannedRun& planned, double rows) {
  std::vector<UnionPart> parts;
  for (const size_t number : planned.order) {
    const auto epochs = planned.run.epochs_of(planned.stream.tasks()[number].name);
    parts.push_back({planned.stream.size(number, DataSplit::train), epochs});
  }
  auto drawn = draw_union(parts, planned.seed);
  Phase out;
  out.steps = planned.run.all_steps(drawn.epochs, drawn.samples, rows);
  out.samples = drawn.samples;
  out.rows = std::move(drawn.rows);
  return out;
}

// Each group of a nested task goes through its own epochs; what a method does before and after a stage is done once.
std::vector<Phase> task_phases(const PlannedRun& planned, size_t number, double rows) {
  const auto& run = planned.run;
  const double epochs = run.epochs_of(planned.stream.tasks()[number].name);
  const int64_t all = planned.stream.size(number, DataSplit::train);
  std::vector<Phase> out;
  for (auto& group : planned.stream.phases(number)) {
    Phase phase;
    phase.name = group.name;
    phase.samples = static_cast<int64_t>(group.rows.size());
    phase.steps = run.stage_steps(epochs, phase.samples, rows);
    // The stage's limit is shared out by size.
    if (run.max_stage_steps > 0)
      phase.steps = std::clamp<int64_t>(run.max_stage_steps * phase.samples / all, 1, phase.steps);
    phase.rows = std::move(group.rows);
    phase.number = static_cast<int64_t>(out.size()) + 1;
    out.push_back(std::move(phase));
  }
  if (!out.empty()) return out;
  Phase whole;
  whole.samples = all;
  whole.steps = run.stage_steps(epochs, all, rows);
  out.push_back(std::move(whole));
  return out;
}

std::vector<std::string> tasks_without_category(const Stream& stream) {
  std::vector<std::string> out;
  for (size_t number = 0; number < stream.tasks().size(); ++number)
    if (!has_categories(stream, number, DataSplit::train)) out.push_back(printable(stream.tasks()[number].name));
  return out;
}

}  // namespace

double PlannedRun::replay_share(int stage) const {
  double out = 0;
  for (const auto& method : methods) out = std::max(out, method->replay_share(stage));
  return out;
}

double PlannedRun::rows_a_pass(int stage) const {
  const auto batch = static_cast<double>(run.batch);
  return batch - replay_share(stage) * batch;
}

std::vector<Phase> stage_phases(const PlannedRun& planned, int stage) {
  const auto& run = planned.run;
  const auto& stream = planned.stream;
  const double rows = planned.rows_a_pass(stage);
  const bool joint = planned.joint();
  const size_t task = joint ? 0 : planned.order[static_cast<size_t>(stage) - 1];
  auto out = joint ? std::vector<Phase>{union_phase(planned, rows)} : task_phases(planned, task, rows);
  const auto own = static_cast<int64_t>(out.size());
  PhasePlan plan{stage,
                 out.back().samples,
                 run.batch,
                 [&](double epochs, int64_t samples) { return run.stage_steps(epochs, samples, rows); },
                 planned.stages(),
                 run.learning_rate};
  if (!joint) {
    plan.task = stream.tasks()[task].name;
    plan.pictured = [&stream, task] { return has_pictures(stream, task, DataSplit::train); };
  }
  plan.closed_head = planned.closed_head;
  plan.whole_projector = run.projector == ProjectorTraining::full;
  plan.layers = planned.layers;
  plan.uncategorised = [&stream] { return tasks_without_category(stream); };
  plan.warn = planned.warn;
  for (size_t m = 0; m < planned.methods.size(); ++m) {
    planned.methods[m]->plan(plan, out);
    for (auto& phase : out) {
      const bool fresh = phase.of_method.empty() && phase.number == 0 && !phase.name.empty();
      if (fresh) phase.of_method = planned.names[m];
    }
  }
  int64_t first = 0, number = own;
  for (auto& phase : out) {
    if (!phase.of_method.empty() && phase.number == 0) phase.number = ++number;
    if (phase.samples == 0) phase.samples = phase.rows.empty() ? plan.samples : static_cast<int64_t>(phase.rows.size());
    phase.first = first;
    first += phase.steps;
  }
  return out;
}

std::vector<std::string> plan_warnings(const RunConfig& config, const std::string& composition, const Stream& stream,
                                       int64_t layers) {
  std::vector<std::string> out;
  const auto methods = make_methods(composition, config.method_assignments);
  const auto names = method_parts(composition);
  const auto order = task_order(stream.tasks().size(), 0);
  PlannedRun planned{config.run, stream, methods, names, order, static_cast<uint64_t>(config.run.seeds.front())};
  planned.closed_head =
      config.run.head == Head::answers ||
      std::any_of(methods.begin(), methods.end(), [](const auto& method) { return method->chooses_answers(); });
  planned.layers = layers;
  planned.warn = [&out](const std::string& text) { out.push_back(text); };
  for (int stage = 1; stage <= planned.stages(); ++stage) stage_phases(planned, stage);
  return out;
}

}  // namespace asr
