// What an analysis file (stages/AA/analysis.safetensors, docs/files.md) says of the spectra of every skill, task by
// task. Two files are compared on the tasks that both of them measured: a task that came later brings samples that the
// older file lacks, and would pass for drift.
#pragma once

#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "io/safetensors.h"

namespace asr {

constexpr const char* kAnalysisFormat = "2";  // metadata 'asr_analysis' of a run's files

// Of one set of samples. What a file does not say is NaN or empty.
struct SpectraMoments {
  int64_t count = 0;                    // samples measured
  int64_t scored = 0;                   // samples that the accuracy counts
  double accuracy = NAN;                // 0..1
  double entropy = NAN;                 // of attention, nats
  std::vector<double> mean, variance;   // of descriptors; unbiased, 0 for one sample
  std::vector<double> radial, angular;  // mean spectra
  std::vector<double> embedding;        // mean
};

// As if all samples had been measured together: means by count, the variance of samples within the parts and of the
// parts about their mean.
SpectraMoments pool_moments(const std::vector<const SpectraMoments*>& parts);

struct AnalysisRow {
  int64_t skill = 0, task = 0;
  SpectraMoments moments;
};

// Single samples, a bounded number a task: one entry each in every list that is not empty.
struct AnalysisSamples {
  std::vector<int64_t> skill, task;
  std::vector<double> correct;                  // 0..1
  std::vector<double> distance;                 // to the skill's prototype; NaN where there is none
  std::vector<std::vector<double>> descriptor;  // [D] each
  // Of every layer and head, [layers * heads * D0] each; only where a run was asked for them (analysis.premise).
  std::vector<std::vector<double>> heads;
  int64_t layers = 0, layer_heads = 0;

  int64_t head_count() const { return layers * layer_heads; }
  std::vector<std::vector<double>> of_head(int64_t index) const;  // one head, counted layer by layer; [D0] each
};

struct AnalysisFile {
  std::string path;
  std::string options;                    // what the descriptors were made with, as JSON; empty: not said
  std::vector<std::string> skill_names;   // by index; empty: not said
  std::vector<std::string> task_names;    // by index; a file without tasks has one, without a name
  std::vector<std::string> task_samples;  // SHA-256 of the samples measured, by task; empty: not said
  std::vector<AnalysisRow> rows;          // each skill and task at most once
  AnalysisSamples samples;

  std::string skill_name(int64_t skill) const;       // "skill7" where the file names none
  std::set<int64_t> skills() const;                  // those with samples
  std::set<std::string> tasks(int64_t skill) const;  // those with samples of the skill
  SpectraMoments moments(int64_t skill, const std::set<std::string>& tasks) const;  // of all these together
};

// Whether an older version wrote it: one row a skill over all tasks seen, so that nothing can be compared.
bool pools_all_tasks(const Safetensors& file);

// Verifies the checksum where there is one, and every shape, index and number. A file that pools all tasks is refused.
AnalysisFile read_analysis_file(const Safetensors& file);
AnalysisFile read_analysis_file(const std::string& path);

// Tasks in which both files have samples of the skill. Fails where the same task was measured on other samples.
std::set<std::string> shared_tasks(const AnalysisFile& a, const AnalysisFile& b, int64_t skill);

}  // namespace asr
