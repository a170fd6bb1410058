#include "train/estimate.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace asr {
namespace {

constexpr double kDeviceOverhead = 1.1;  // what an allocator loses between its blocks
constexpr double kContext = 6e8;         // a process on a GPU, before any tensor
constexpr double kText = 600;            // bytes of a sample's texts in memory
constexpr double kPrediction = 250;      // bytes of a line of predictions
// Of the time that operations alone say is saved where questions share a picture: what is left are small products and
// copies. Measured once (docs/performance.md#answers).
constexpr double kSharingGain = 2.0 / 3;

double number_of(int64_t n) {
  return static_cast<double>(n);
}

// Numbers that a plain run trains: its adapters, and the projector's weights where they are trained whole.
double trained_numbers(const ModelShape& s, const RunOptions& run) {
  double out =
      run.lora_sites == LoraSites::all ? s.all_linear_weights(run.lora_rank) : s.adapter_weights(run.lora_rank);
  if (run.projector != ProjectorTraining::adapter) out -= s.projector_adapter(run.lora_rank);
  if (run.projector == ProjectorTraining::full) out += s.projector_weights();
  return out;
}

// A run of which everything is estimated.
struct Subject {
  Subject(const RunConfig& c, const std::string& name, const ModelShape& s, const Workload& w, const Machine& m)
      : config(c), composition(name), shape(s), work(w), machine(m), methods(make_methods(name, c.method_assignments)) {
    CostContext sizes(c.options);
    sizes.parameters = trained_numbers(s, c.run);
    sizes.layers = number_of(s.layers);
    sizes.width = number_of(s.width);
    sizes.picture_bytes = s.built_in() ? 3 * number_of(s.image_side * s.image_side) : w.picture_bytes;
    for (const auto& task : w.tasks) sizes.task_samples.push_back(number_of(task.train));
    sizes.epochs = c.run.num_train_epochs;
    sizes.augments = c.run.augments();
    for (const auto& method : methods) costs += method->costs(sizes);
  }

  bool joint() const { return methods[0]->joint(); }
  double rows_a_pass(int stage) const {  // of the stage's own samples; the rest of the batch is replay
    double share = 0;
    for (const auto& method : methods) share = std::max(share, method->replay_share(stage));
    return number_of(config.run.batch) * (1 - share);
  }

  const RunConfig& config;
  const std::string& composition;
  const ModelShape& shape;
  const Workload& work;
  const Machine& machine;
  std::vector<std::unique_ptr<Method>> methods;
  MethodCosts costs;
};

// Bytes of one number in a pass: half precision stays so on a GPU, and becomes single precision on the CPU.
double element(const ModelShape& shape, const Machine& machine) {
  return machine.gpu ? number_of(shape.weight_size) : 4;
}

// Numbers that the backward pass of one layer needs, per token. On a GPU: two sums, what q and v's experts read, q, k,
// v and the result of attention, keys and values widened to all heads, gate and up; with adapters on every linear also
// what those of the others read. Masks of dropout are drawn again. On a CPU: two sums and their norms, what q and v's
// experts read with its mask, q, k, v and the result of attention twice, and gate, up and their product. A GPU without
// our kernels keeps that too, with keys and values widened to all heads and the gate twice.
double layer_numbers(const ModelShape& s, const RunOptions& run, const Machine& machine) {
  const double w = number_of(s.width), q = number_of(s.heads * s.head), kv = number_of(s.kv_heads * s.head);
  const double mlp = number_of(s.mlp), cross = s.cross ? 6 * w : 0;
  if (machine.gpu && machine.kernels)
    return 3 * w + 4 * q + cross + 2 * mlp + (run.lora_sites == LoraSites::all ? w + q + mlp : 0);
  const double dropout = run.lora_dropout > 0 ? 4 * w : 0;
  return 4 * w + dropout + 3 * q + 2 * (machine.gpu ? q : kv) + cross + (machine.gpu ? 4 : 3) * mlp;
}

// Of a pass that keeps nothing: about a layer's insides.
double passing_numbers(const ModelShape& s) {
  return 4 * number_of(s.width) + 3 * number_of(s.heads * s.head) + 3 * number_of(s.mlp);
}

double training_bytes(const RunOptions& run, const ModelShape& s, const Workload& work, const Machine& machine) {
  // Processes share every batch.
  const double batch = std::ceil(number_of(run.batch) / number_of(machine.processes));
  const double e = element(s, machine), tokens = batch * work.sequence(), depth = number_of(s.layers);
  const double layer = tokens * layer_numbers(s, run, machine) * e;
  const double logits = 16 * batch * work.answer_tokens * number_of(s.vocabulary);
  const double kept = run.recompute == Switch::yes ? depth * tokens * number_of(s.width) * e : depth * layer;
  return kept + 2 * layer + logits;
}

double passing_bytes(double samples, const ModelShape& s, const Workload& work, const Machine& machine) {
  const double e = element(s, machine), tokens = samples * work.sequence();
  const double decoder = tokens * passing_numbers(s) * e + (machine.gpu ? tokens * work.sequence() * e : 0);
  const double tower =
      samples * work.picture.positions * (8 * number_of(s.vision_width) + 2 * number_of(s.vision_mlp)) * e;
  return std::max(decoder, s.built_in() ? 0 : tower);
}

double evaluation_bytes(const RunOptions& run, const ModelShape& s, const Workload& work, const Machine& machine) {
  const double samples = number_of(run.eval_batch), e = element(s, machine);
  const double layer = 2 * number_of(s.kv_heads * s.head) * (work.sequence() + work.new_tokens) * samples * e;
  const double copied = 2 * layer;  // the cache of a layer grows by copying
  return number_of(s.layers) * layer + copied + passing_bytes(samples, s, work, machine);
}

double measuring_bytes(const RunOptions& run, const ModelShape& s, const Workload& work, const Machine& machine) {
  // As many as measure_spectra and cache_reference take together.
  const double samples = std::min(s.built_in() ? 128.0 : 16.0, std::max(1.0, work.train()));
  const double rows = number_of(run.tap_layers * s.heads) * work.question_tokens * work.picture.visual;
  return passing_bytes(samples, s, work, machine) + 3 * 4 * samples * rows;
}

// A built-in model holds every sample of the process as tensors; others read pictures when they are asked for.
double sample_bytes(const ModelShape& s, const Workload& work) {
  if (!s.built_in()) return 0;
  const double pixels = 3 * number_of(s.image_side * s.image_side);
  const double features = 4 * work.picture.visual * number_of(s.vision_width);
  double samples = 0;
  for (const auto& task : work.tasks) samples += number_of(task.train + task.scored + task.novel);
  return samples * (pixels + features + 20 * work.text_tokens);
}

MemoryEstimate memory_of(const Subject& subject) {
  const auto& run = subject.config.run;
  const auto& s = subject.shape;
  const auto& work = subject.work;
  const auto& machine = subject.machine;
  const double adapter = trained_numbers(s, run) + subject.costs.trained;
  MemoryEstimate out;
  out.weights = s.weight_bytes;
  // float8 keeps two copies beside the numbers; four bits and a scale for 64 of them stand for the numbers.
  if (run.base_precision == WeightFormat::fp8) out.weights += 2 * s.decoder_weights();
  if (run.base_precision == WeightFormat::nf4)
    out.weights -= s.decoder_weights() * (number_of(s.weight_size) - 0.5 - 4.0 / 64);
  // A stored half-precision weight is widened for each product on the CPU: the largest pair, and the head.
  if (!machine.gpu && s.weight_size < 4)
    out.overhead += 4 * std::max(2 * number_of(s.width * s.mlp), number_of(s.width * s.vocabulary));
  out.adapters = 4 * adapter;
  out.optimizer = 12 * adapter;
  out.method = subject.costs.device_bytes;
  const bool stored = subject.costs.reference && !run.augments();
  const double reference = stored ? work.train() * 2 * number_of(s.width) * 4 : 0;
  const bool on_device = s.built_in() || !machine.gpu;
  out.reference = on_device ? reference : 0;
  out.samples = sample_bytes(s, work);
  out.training = training_bytes(run, s, work, machine);
  out.evaluation = evaluation_bytes(run, s, work, machine);
  out.measuring = measuring_bytes(run, s, work, machine);
  double samples = 0;
  for (const auto& task : work.tasks) samples += number_of(task.train + task.scored + task.novel);
  out.host = samples * kText + subject.costs.host_bytes + (on_device ? 0 : reference);
  const double busy = out.kept() + std::max({out.training, out.evaluation, out.measuring});
  out.overhead += machine.gpu ? (kDeviceOverhead - 1) * busy + kContext : machine.program + out.host;
  return out;
}

}  // namespace

double MemoryEstimate::peak() const {
  return kept() + std::max({training, evaluation, measuring}) + overhead;
}

double Workload::train() const {
  double out = 0;
  for (const auto& task : tasks) out += number_of(task.train);
  return out;
}

double Workload::scored() const {
  double out = 0;
  for (const auto& task : tasks) out += number_of(task.scored);
  return out;
}

double Workload::answers() const {
  double out = scored();
  for (size_t b = 0; b < tasks.size(); ++b) out += answers_after_stages(b);
  return out;
}

double Workload::answers_after_stages(size_t task) const {
  return number_of((tasks[task].scored + tasks[task].novel) * static_cast<int64_t>(tasks.size() - task));
}

double Workload::questions() const {
  double pictures = 0;
  for (const auto& task : tasks) pictures += number_of(task.scored) / task.questions;
  return pictures > 0 ? scored() / pictures : 1;
}

SampleWork sample_work(const ModelShape& s, const Workload& work, bool recompute) {
  const double length = work.sequence(), depth = number_of(s.layers), across = number_of(s.heads * s.head);
  const double linear = 2 * s.decoder_weights() * (s.cross ? work.text_tokens : length);
  const double attention = 4 * length * length * across * depth;
  const double head = 2 * number_of(s.width) * number_of(s.vocabulary) * work.answer_tokens;
  const auto& p = work.picture;
  double projector = 0;
  for (const auto& [in, out] : s.projector) projector += 2 * number_of(in) * number_of(out) * p.visual;
  SampleWork out;
  out.vision =
      2 * s.vision_weights() * p.positions + 4 * p.positions * p.together * number_of(s.vision_width * s.vision_layers);
  out.forward = linear + attention + projector;
  if (!s.cross) out.prefix = (2 * s.decoder_weights() + 4 * p.visual * across * depth) * p.visual + projector;
  // The base is frozen: backward is one more product a linear, and two and a half a product of attention.
  const double again = recompute ? 1 : 0;
  out.train = out.vision + (2 + again) * (linear + projector) + (3.5 + again) * attention + 3 * head;
  out.token = 2 * s.decoder_weights() + 4 * length * across * depth + 2 * number_of(s.width) * number_of(s.vocabulary);
  return out;
}

namespace {

// Of a block's rows, how many take the time of reading their picture: questions about one stand beside each other, and
// where a block ends between them, the next one reads it again. The small models that ship and a Q-Former, which reads
// the question too, share nothing. Nor do methods that insert vectors or whose gates look at a whole sequence, which is
// not counted.
double reading_share(const ModelShape& s, double questions, double batch) {
  if (s.built_in() || s.query_layers > 0) return 1;
  const double read = (1 + (questions - 1) / batch) / questions;
  return 1 - kSharingGain * (1 - read);
}

// Seconds for an answer, of which this share reads its picture: the prompt by its operations; a new token by them or by
// reading weights and cache, whichever is slower.
double answer_seconds(const Subject& subject, const SampleWork& one, const Machine& machine, double reading) {
  const auto& s = subject.shape;
  const auto& work = subject.work;
  const double batch = number_of(subject.config.run.eval_batch), e = element(s, machine);
  const double read = s.decoder_weights() * number_of(s.weight_size) +
                      batch * work.sequence() * 2 * number_of(s.kv_heads * s.head * s.layers) * e;
  const double step = std::max(batch * one.token / machine.flops, read / machine.bandwidth) / batch;
  const double prompt = reading * (one.vision + one.prefix) + one.forward - one.prefix;
  return prompt / machine.flops + work.new_tokens * step;
}

// The steps of all stages; each takes a batch, with what is replayed.
int64_t steps_of(const Subject& subject) {
  const auto& run = subject.config.run;
  const auto& tasks = subject.work.tasks;
  if (subject.joint()) {
    double drawn = 0;
    for (const auto& task : tasks) drawn += run.epochs_of(task.name) * number_of(task.train);
    return run.all_steps(1, std::lround(drawn), number_of(run.batch));
  }
  int64_t out = 0;
  for (size_t i = 0; i < tasks.size(); ++i)
    out += run.stage_steps(run.epochs_of(tasks[i].name), tasks[i].train, subject.rows_a_pass(static_cast<int>(i) + 1));
  return out;
}

// Samples whose spectral moments are measured: for the analysis those of all stages, else as the method asks.
double measured_samples(const Subject& subject) {
  const auto& run = subject.config.run;
  double out = 0;
  for (const auto& task : subject.work.tasks) {
    const double all = number_of(task.train);
    out += run.memory_samples > 0 ? std::min(number_of(run.memory_samples), all) : all;
  }
  if (subject.joint() && run.memory_samples > 0) out = std::min(out, number_of(run.memory_samples));
  if (run.analysis_memory == Switch::yes) return out;
  return out * number_of(subject.costs.measured_stages) / static_cast<double>(subject.work.tasks.size());
}

TimeEstimate time_of(const Subject& subject) {
  const auto& run = subject.config.run;
  const auto& s = subject.shape;
  const auto& work = subject.work;
  const auto& machine = subject.machine;
  const auto& costs = subject.costs;
  const auto one = sample_work(s, work, run.recompute == Switch::yes);
  // A built-in model's features are computed once a sample and shared.
  const double seen = s.built_in() ? 0 : one.vision, train = one.train - (one.vision - seen);
  const double speed = machine.flops * (machine.processes > 1 ? kParallelShare * number_of(machine.processes) : 1);
  Machine shared = machine;
  shared.bandwidth *= speed / machine.flops;
  shared.flops = speed;
  TimeEstimate out;
  out.method = subject.composition;
  out.steps = steps_of(subject);
  const double samples = number_of(out.steps * run.batch * run.accumulation);
  const double forward = seen + one.forward;
  double beside = costs.forward_passes * forward;  // what a step runs forward beside its training passes
  if (costs.reference && run.augments()) beside += forward;
  if (costs.reference && run.geometry_batch == GeometryBatch::global && run.accumulation > 1) beside += forward;
  const double looked_at = costs.picture_passes * seen;
  out.training = samples * (train + beside + looked_at) / speed;
  out.memory_pass = measured_samples(subject) * forward / speed;
  out.method_pass = (costs.forward_samples * forward + costs.backward_samples * (train + looked_at)) / speed;
  if (costs.reference && !run.augments()) out.reference = work.train() * forward / speed;
  auto evaluated = one;
  evaluated.vision = seen;
  for (size_t b = 0; b < work.tasks.size(); ++b) {
    const auto& task = work.tasks[b];
    const double reading = reading_share(s, task.questions, number_of(run.eval_batch));
    const double each = answer_seconds(subject, evaluated, shared, reading);
    const double answers = subject.joint() ? number_of(task.scored) : work.answers_after_stages(b);
    out.zero_shot += each * number_of(task.scored);
    out.evaluation += (each + costs.answer_picture_passes * reading * seen / speed) * answers;
  }
  return out;
}

// Checkpoints (adapters with both moments and what the method keeps), one of them being written, and predictions.
double disk_of(const Subject& subject) {
  const auto& run = subject.config.run;
  const double trained = trained_numbers(subject.shape, run) + subject.costs.trained;
  const double state = 3 * 4 * trained + subject.costs.checkpoint_bytes;
  return state * number_of(run.keep_checkpoints + 1) + subject.work.answers() * kPrediction;
}

}  // namespace

Estimate estimate_run(const RunConfig& config, const ModelShape& shape, const Workload& work, const Machine& machine) {
  Estimate out;
  const double repeats = number_of(static_cast<int64_t>(config.run.seeds.size()) * config.run.orders);
  double reference = 0, zero_shot = 0;
  for (const auto& method : config.run.method) {
    const Subject subject(config, method, shape, work, machine);
    const auto memory = memory_of(subject);
    const double host = std::max(out.memory.host, memory.host);
    if (memory.peak() > out.memory.peak()) out.memory = memory;
    out.memory.host = host;
    out.times.push_back(time_of(subject));
    const auto& time = out.times.back();
    out.seconds += repeats * (time.total() - time.reference - time.zero_shot);
    reference = std::max(reference, time.reference);
    zero_shot = std::max(zero_shot, time.zero_shot);
    out.disk += repeats * disk_of(subject);
  }
  out.seconds += reference + zero_shot;
  return out;
}

}  // namespace asr
