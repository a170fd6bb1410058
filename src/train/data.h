// The samples a run sees, encoded once and shared by the runs of a process that see the same: those of one seed, and of
// all seeds where samples come from files. What differs between them is the adapter, never the data.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "data/sample_set.h"
#include "train/evaluator.h"
#include "train/run_options.h"

namespace asr {

// Functional tokens by rules; posteriors by the parser, by the rules of skills/rules.h (mode `rule`) or one-hot true
// skills (mode `oracle`). The parser, a file, is read in the modes that use it.
std::unique_ptr<QuestionAnalyser> make_analyser(const std::string& parser, SkillMode mode);
bool reads_parser(SkillMode mode);

class Data {
 public:
  Data(const Stream& stream, const Backbone& model, const QuestionAnalyser& analyser, const Team& team)
      : stream_(stream), model_(model), analyser_(analyser), team_(team) {}

  // `reference` also fills the embeddings of the base model.
  const SampleSet& get(size_t task, DataSplit split, bool reference = false);
  // The same, with the stage in which this run learns it noted in every sample.
  const SampleSet& get_of_stage(size_t task, DataSplit split, int stage);
  const Stream& stream() const { return stream_; }
  const std::set<std::string>& answers(size_t task);  // of its training rows, normalized (metrics/vqa_answer.h)

  // Scores of the untouched base, by task and how answers are given.
  std::map<std::pair<size_t, Head>, TaskScore> zero_shot;

 private:
  std::shared_ptr<SampleSet> read(size_t task, DataSplit split);

  const Stream& stream_;
  const Backbone& model_;
  const QuestionAnalyser& analyser_;
  const Team& team_;
  std::map<std::pair<size_t, DataSplit>, std::shared_ptr<SampleSet>> sets_;
  std::map<size_t, std::set<std::string>> answers_;
};

}  // namespace asr
