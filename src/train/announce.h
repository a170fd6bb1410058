// What a person reads on stderr while runs go on: a header before the first, and a row of scores after every stage.
#pragma once

#include <string>
#include <vector>

#include "backbones/backbone.h"
#include "streams/stream.h"
#include "train/estimate.h"
#include "train/run_options.h"

namespace asr {

// What will be done, from the stream's counts and the lengths of a few of its texts.
Workload workload_of(const Stream& stream, const RunOptions& run, const Backbone& model, const ModelShape& shape);

struct HeaderFacts {
  const RunConfig& config;
  const Stream& stream;
  const Backbone& model;
  std::string model_path;
  int64_t trainable = 0, steps = 0;  // numbers that are trained, and steps of the first run
  int64_t runs = 1, processes = 1;
};

// Stream, model, work, expected time and memory, folder: a line each. The last two are estimates and say so.
std::vector<std::string> header_lines(const HeaderFacts& facts);

// "count 71.2, color 80.1; mean 75.7": the last tasks where there are many.
std::string score_row(const std::vector<std::string>& tasks, const std::vector<double>& scores);

}  // namespace asr
