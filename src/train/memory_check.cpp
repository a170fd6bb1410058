#include "train/memory_check.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "ops/cuda_tensors.h"
#include "tensor/cuda_facts.h"

namespace asr {
namespace {

// Of an estimate, that a run takes at the least: it adds 10 % for the allocator and was up to 4 % above what steps
// took.
constexpr double kSureShare = 0.85;
constexpr double kRoom = 0.95;  // of free memory, that advice fills

double estimated_peak(RunConfig config, const ModelShape& shape, const Workload& work, const Machine& machine) {
  return estimate_run(config, shape, work, machine).memory.peak();
}

// The largest value of an option, up to its own, with which the run fits; 0: none.
int64_t fitting(const RunConfig& config, int64_t RunOptions::*option, const std::function<double(RunConfig)>& peak,
                double room) {
  for (int64_t value = config.run.*option; value >= 1; value /= 2) {
    auto other = config;
    other.run.*option = value;
    if (peak(other) <= room) return value;
  }
  return 0;
}

// Counts of the stream and usual lengths of texts: no tokenizer is loaded yet.
Workload expected_work(const Stream& stream, const RunOptions& run, const ModelShape& shape, const std::string& model) {
  Workload out;
  for (size_t task = 0; task < stream.tasks().size(); ++task)
    out.tasks.push_back(
        {stream.tasks()[task].name, stream.size(task, DataSplit::train), stream.size(task, run.scored_split()), 0});
  std::error_code error;
  const bool folder = std::filesystem::is_directory(model, error);
  const auto processor = folder ? load_image_processor(model) : nullptr;
  out.picture = picture_tokens(shape, processor.get(), 480, 640);
  return out;
}

}  // namespace

std::string memory_problem(const RunConfig& config, const ModelShape& shape, const Workload& work,
                           const Machine& machine, double free) {
  const auto peak = [&](const RunConfig& other) { return estimated_peak(other, shape, work, machine); };
  const double needed = peak(config);
  if (kSureShare * needed <= free) return "";
  const auto what =
      cat("device=cuda: about ", human_bytes(needed), " are needed, and the GPU has ", human_bytes(free), " free");
  // Training and answering take their memory in turn, so both batches may have to shrink.
  auto smaller = config;
  const auto training = [&](RunConfig other) {
    other.run.eval_batch = 1;
    return peak(other);
  };
  smaller.run.batch = fitting(config, &RunOptions::batch, training, kRoom * free);
  if (smaller.run.batch == 0) {
    auto again = config;
    again.run.recompute = Switch::yes;
    const int64_t with = fitting(again, &RunOptions::batch, training, kRoom * free);
    if (with == 0)
      return cat(what,
                 "; not even a batch of 1 with gradient_checkpointing fits: use a larger GPU, or more of them "
                 "for a smaller model");
    return cat(what, "; with gradient_checkpointing: yes a per_device_train_batch_size of ", with, " fits");
  }
  smaller.run.eval_batch = fitting(smaller, &RunOptions::eval_batch, peak, kRoom * free);
  std::string advice;
  if (smaller.run.batch < config.run.batch) advice = cat("per_device_train_batch_size ", smaller.run.batch);
  if (smaller.run.eval_batch > 0 && smaller.run.eval_batch < config.run.eval_batch)
    advice += cat(advice.empty() ? "" : " and ", "per_device_eval_batch_size ", smaller.run.eval_batch);
  return cat(what, "; ", advice.empty() ? "a smaller method" : advice, " would fit, with gradient_accumulation_steps ",
             "for the same step");
}

void check_device_memory(const RunConfig& config, const Stream& stream, const std::string& model, int64_t processes) {
  if (config.run.device != "cuda") return;
  const auto memory = device_memory();
  if (!memory) return;  // whoever uses the device says why
  const auto shape = read_model_shape(model);
  Machine machine;
  machine.gpu = true;
  machine.flops = machine.bandwidth = 1;  // time is not asked for
  machine.memory = memory->all;
  machine.kernels = has_cuda_kernels();
  machine.processes = processes;
  const auto problem =
      memory_problem(config, shape, expected_work(stream, config.run, shape, model), machine, memory->free);
  check(problem.empty(), problem);
}

}  // namespace asr
