// The tasks of a stream answered by an adapter that is finished, or by the base alone: no training, no run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/evaluator.h"
#include "train/run_options.h"

namespace asr {

struct EvaluatedTask {
  std::string name, metric;
  int64_t samples = 0;
  TaskScore score;
  std::string predictions;  // a JSON line a sample, as a run writes them
};

// `adapter`: a PEFT folder, or RUN/adapter, which answers as its run's evaluation did; empty: the base. Of `config`
// model, device, precision, stream, split and batch count; the samples are those of its first seed. `ready` is called
// after every task.
std::vector<EvaluatedTask> evaluate_adapter(const RunConfig& config, const std::string& adapter,
                                            const std::function<void(const EvaluatedTask&)>& ready);

}  // namespace asr
