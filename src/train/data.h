// The samples a run sees, encoded once a process and shared by its methods and seeds: what differs between them is the
// adapter, never the data.
#pragma once

#include <map>
#include <memory>
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
  const Stream& stream() const { return stream_; }

  // Scores of the untouched base, by task and how answers are given.
  std::map<std::pair<size_t, Head>, TaskScore> zero_shot;

 private:
  std::shared_ptr<SampleSet> read(size_t task, DataSplit split);

  const Stream& stream_;
  const Backbone& model_;
  const QuestionAnalyser& analyser_;
  const Team& team_;
  std::map<std::pair<size_t, DataSplit>, std::shared_ptr<SampleSet>> sets_;
};

}  // namespace asr
