// The large files of a run, each read when a table or figure needs it: training log, predictions, analysis of a stage.
// An absent file gives an empty result (the figure says so); a malformed one is an error that names it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/analysis_file.h"
#include "report/run.h"

namespace asr {

// What a run's log says of its training steps, counted through all stages.
struct LossLog {
  std::vector<double> step;
  std::map<std::string, std::vector<double>> losses;  // "loss", "task_loss", ...; NaN where a line lacks the key
  std::map<std::string, std::vector<double>> others;  // "lr", "grad_norm", "step_ms" and weights, in the same way
  std::vector<double> boundaries;                     // first step of every stage but the first
};
LossLog read_loss_log(const Run& run);

// Score in 0..1 by question id, after the last stage, one map a task in the order trained. Empty without predictions.
struct Predictions {
  std::vector<std::map<std::string, double>> tasks;
  std::string problem;  // why they cannot be used; empty when they can
};
Predictions read_last_predictions(const Run& run);

// A sample that a method chose a slot for, after the last stage.
struct RoutedSample {
  std::string id, question, answer, prediction;
  size_t task = 0;                                    // place in the order trained
  std::string slot;                                   // that answered; "base": none
  std::vector<std::pair<std::string, double>> slots;  // probability of each
};
std::vector<RoutedSample> read_routed_samples(const Run& run);  // those whose line has the probabilities

// What `stages/AA/analysis.safetensors` says of every skill and task, and its example images with attention.
struct Overlay {
  std::string question, answer, prediction, task;
  std::vector<std::string> functional;
  int height = 0, width = 0, map_height = 0, map_width = 0;
  std::vector<uint8_t> image;  // [height][width][3]
  std::vector<double> map;     // [map_height][map_width], >= 0
};
struct StageAnalysis {
  int64_t stage = 0;
  std::optional<AnalysisFile> spectra;  // none: an older version wrote the file and pooled all tasks in it
  std::vector<Overlay> overlays;
};
std::vector<int64_t> analysed_stages(const Run& run);  // ascending
StageAnalysis read_analysis(const Run& run, int64_t stage, bool with_overlays);

}  // namespace asr
