// What a configuration says of model, device, questions and scores, made ready: for runs, and for an adapter that is
// evaluated by itself.
#pragma once

#include <memory>
#include <string>

#include "train/data.h"
#include "train/run_options.h"

namespace asr {

// A model file by path, or by the name of one that ships ("tiny-S").
std::string find_model(const std::string& name);
// `gpu`: which of several.
at::Device use_device(const std::string& name, int gpu, Switch same_bits);
// On its device, its frozen weights in the format wanted, set up as the options say.
std::unique_ptr<Backbone> load_run_model(const RunConfig& config, const std::string& path, at::Device device);
std::unique_ptr<QuestionAnalyser> load_run_analyser(const RunConfig& config);
// Every task has samples in the split that is scored, and a metric that can be computed here.
void check_scored(const RunOptions& run, const Stream& stream);

}  // namespace asr
