// The skill parser g_psi: a small Transformer encoder over the words of a question, with a softmax over the skills of
// the taxonomy (the paper's section on the parser: 4 layers, 8 heads, width 512 in full). Trained once, then frozen;
// soft, hard and oracle use of the posterior is the caller's.
#pragma once

#include <torch/types.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/options.h"
#include "nn/vit.h"
#include "skills/parser/vocabulary.h"

namespace asr {

enum class Pooling { mean, cls };
template <>
struct EnumNames<Pooling> {
  static constexpr const char* names[] = {"mean", "cls"};
};

struct ParserOptions {
  int64_t layers = 2, heads = 4, width = 64, mlp = 128;
  Pooling pooling = Pooling::mean;
  int64_t max_words = 64;
  int64_t buckets = 64;             // for unknown words
  int64_t min_count = 2;            // rarer words are unknown
  int64_t max_vocabulary = 20000;   // beside the buckets
  int64_t steps = 800, batch = 64;  // training
  double epochs = 0;                // passes over the questions in shuffled order; 0: `steps` batches drawn at random
  double learning_rate = 2e-3, weight_decay = 0.01;
  double label_smoothing = 0.05;  // 0: one-hot targets
  double word_dropout = 0.15;     // chance that a word is read as an unknown one; 0: off, and buckets stay untrained

  void visit(OptionVisitor& visitor);
  static ParserOptions paper();  // its size, learning rate and epochs
};

class SkillParser {
 public:
  static SkillParser random(const ParserOptions& options, QuestionVocabulary vocabulary, uint64_t seed);

  // Checksummed safetensors; weights are stored as bfloat16, to which `random` and training round them. `notes` go into
  // the file's metadata. Loading refuses other files. A parser of another taxonomy is read through the one in use:
  // columns that lead to the same skill are added up, and what has no place goes to `other`.
  void save(const std::string& path, const std::map<std::string, std::string>& notes = {}) const;
  static SkillParser load(const std::string& path);

  void to(at::Device device);

  // Rows sum to 1, columns as skill_names(); float32 on the CPU. Deterministic on the CPU.
  torch::Tensor posterior(const std::vector<std::string>& questions, int64_t batch = 64) const;  // [N, S]

  // Before temperature and softmax, for numbered questions, columns as trained; differentiable in the weights.
  torch::Tensor logits(const std::vector<std::vector<int64_t>>& questions) const;  // [N, S]

  std::vector<std::pair<std::string, torch::Tensor>> named_weights() const;
  void replace_weights(
      const std::vector<torch::Tensor>& weights);  // in the order of named_weights; rounded, on the CPU
  const ParserOptions& options() const { return options_; }
  const QuestionVocabulary& vocabulary() const { return vocabulary_; }

  double temperature = 1;  // logits are divided by it; fitted on held-out questions

 private:
  template <class Visit>
  static void visit(SkillParser& parser, Visit&& visit);

  ParserOptions options_;
  QuestionVocabulary vocabulary_;
  std::vector<std::string> skills_;      // that it was trained for
  torch::Tensor embedding_, positions_;  // [vocabulary, width], [1 + max_words, width]
  std::vector<VitLayer> layers_;         // the same encoder block as over patches
  LayerNorm final_norm_;
  Linear head_;  // [S, width]
};

// What the rules say, in the form of SkillParser::posterior.
torch::Tensor rule_posteriors(const std::vector<std::string>& questions);  // [N, S]

}  // namespace asr
