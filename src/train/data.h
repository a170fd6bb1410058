// The samples a run sees, encoded once and shared by the runs of a process that see the same: those of one seed, and of
// all seeds where samples come from files. What differs between them is the adapter, never the data.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "data/encoded_samples.h"
#include "data/tensor_cache.h"
#include "train/evaluator.h"
#include "train/run_options.h"

namespace asr {

// Functional tokens by rules; posteriors by the parser, by the rules of skills/rules.h (mode `rule`) or one-hot true
// skills (mode `oracle`). The parser, a file, is read in the modes that use it.
std::unique_ptr<QuestionAnalyser> make_analyser(const std::string& parser, SkillMode mode);
bool reads_parser(SkillMode mode);

// Pictures and vision features of earlier runs, in a folder (data.cache). Both change no bit of a run.
class KeptSamples {
 public:
  // `content`: of what the samples are made, as the run's fingerprint has it (train/run_identity.h).
  KeptSamples(const std::string& folder, const nlohmann::json& content, const Backbone& model);

  // `samples` says which: stream, task and split. Undefined: not known.
  torch::Tensor pictures(const std::string& samples) const;
  torch::Tensor features(const std::string& samples) const;
  void keep_pictures(const std::string& samples, const torch::Tensor& pictures) const;
  void keep_features(const std::string& samples, const torch::Tensor& features) const;

 private:
  static std::string name_of(const std::string& from, const std::string& samples);

  TensorCache cache_;
  std::string pictures_from_, features_from_;  // everything that they depend on beside the samples
  bool keeps_features_;                        // a GPU makes them sooner than a disk reads them
};

class Data {
 public:
  // `kept` may be null: nothing is kept for later runs.
  Data(const Stream& stream, const Backbone& model, const QuestionAnalyser& analyser, const Team& team,
       const KeptSamples* kept = nullptr)
      : stream_(stream), model_(model), analyser_(analyser), team_(team), kept_(kept) {}

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
  std::shared_ptr<EncodedSamples> read_encoded(size_t task, DataSplit split, const std::string& samples);
  void add_features(const std::string& samples, EncodedSamples& set);

  const Stream& stream_;
  const Backbone& model_;
  const QuestionAnalyser& analyser_;
  const Team& team_;
  const KeptSamples* kept_;
  std::map<std::pair<size_t, DataSplit>, std::shared_ptr<SampleSet>> sets_;
  std::map<size_t, std::set<std::string>> answers_;
};

}  // namespace asr
