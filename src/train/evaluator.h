// Scoring a model on tasks by batched greedy generation (or a closed answer head), and looking at its attention there.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/measure.h"
#include "data/objective.h"
#include "data/sample_set.h"
#include "train/answering.h"

namespace asr {

struct TaskScore {
  double score = 0;                // 0..100
  std::vector<std::string> texts;  // what was answered
  std::vector<double> per_sample;  // 0..1
  std::vector<std::string> slots;  // that answered, where a method chose them; "base": none
  std::vector<std::string> why;    // the probabilities of all slots, as JSON, where the method has them; else ""
  double outside = -1;             // percent of the wrong answers that no training row of the task has; -1: not known
};

// Blocks of `batch` samples are shared out over the processes; all of them get the whole result.
TaskScore evaluate_task(const Answerer& who, const SampleSet& set, const std::string& metric, int64_t batch,
                        const Team& team);

std::string predictions_text(const SampleSet& set, const TaskScore& score);

struct AnalysedTask {
  std::string name;
  const SampleSet* set = nullptr;
  const TaskScore* score = nullptr;
};

// Accuracy by skill: every sample counts for the arg-max of its posterior.
struct SkillScore {
  int64_t samples = 0;
  double sum = 0;
  double accuracy() const { return sum / static_cast<double>(samples); }  // 0..1
};
std::map<int64_t, SkillScore> skill_scores(const std::vector<AnalysedTask>& tasks);

// The validation rows that a task's spectra are measured on, its overlays first: drawn at random, the same at every
// stage of every run, so that drift compares the same samples.
std::vector<int64_t> analysed_rows(const std::string& task, int64_t count, int64_t samples);

// Spectra, accuracy and embeddings per skill and task, distances of samples to their prototypes, and a few attention
// maps with their pictures: stages/AA/analysis.safetensors. Spectra are measured on `samples` of each task, by all
// processes; the first one writes.
struct AnalysisPlan {
  const PrototypeMemory& memory;
  int64_t samples = 0, overlays = 0, tap_layers = 0;
  bool heads = false;  // descriptors of every layer and head, too
};
void write_analysis(const std::string& path, const Answerer& who, const std::vector<AnalysedTask>& tasks,
                    const AnalysisPlan& plan, const Team& team);

}  // namespace asr
