// The key of a sample: numbers that the base model, adapters off, makes of its picture and its question, joined of the
// parts asked for. A part wider than a bound goes through a random projection of its own, which is made anew from a
// constant seed wherever it is needed. Training never moves a key, since no adapter takes part.
#pragma once

#include <torch/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backbones/backbone.h"
#include "base/options.h"
#include "data/sample_batch.h"
#include "data/sample_set.h"
#include "methods/terms/key_moments.h"
#include "parallel/team.h"
#include "spectral/descriptor.h"
#include "spectral/options.h"

namespace asr {

enum class KeySides { both, picture, text };
template <>
struct EnumNames<KeySides> {
  static constexpr const char* names[] = {"both", "picture", "text"};
};

struct KeyChoice {
  // states: means over visual and question positions after `layer`; late: the same after the last layer; tokens: mean
  // embedding of the question's tokens;
  // spectra: the descriptor of the attention from question to picture; thumbnail: the question's words and the picture
  // at 8 x 8, a control that asks no model
  std::vector<std::string> parts = {"states", "tokens"};
  std::vector<std::string> further;  // parts behind these, looked at where these do not tell stages apart
  KeySides sides = KeySides::both;
  Heads heads = Heads::average;
  int64_t layer = 1, dimension = 1024, tap_layers = 4;

  void visit(OptionVisitor& visitor);
  void check_parts() const;  // names that nobody knows, and choices that leave nothing
  KeyChoice whole() const;   // with the further parts among the others
  bool has(const std::string& part) const;
  bool needs_all_layers() const { return has("spectra") || has("late"); }
  bool keeps_heads() const { return heads == Heads::kept && has("spectra"); }
  // Of a key of a model of this width, and of what is kept of how they vary together.
  int64_t most_numbers(int64_t width, int64_t descriptor) const;
  int64_t most_pairs(int64_t width, int64_t descriptor) const;
};

class SampleKeys {
 public:
  // `depth`: layers of the language model; late states need it.
  SampleKeys(const KeyChoice& choice, const SpectralOptions& spectral, int64_t depth = 0);

  torch::Tensor of(const Backbone& model, const SampleBatch& batch) const;  // [B, D] float32 on the host
  // Of these rows of a set, in their order, in blocks that the processes share out: [rows, D] for all of them.
  torch::Tensor of(const Backbone& model, const SampleSet& set, const std::vector<int64_t>& rows,
                   const Team& team) const;
  // Of a key's numbers, after one was made: spectra of single heads stand last, each head a group.
  KeyGroups groups(int64_t dimension) const;
  // What the numbers depend on: stored beside moments, which say nothing of keys made otherwise.
  std::string description(Backbone& model) const;

 private:
  torch::Tensor projected(const std::string& name, const torch::Tensor& part) const;
  void add_thumbnail(const SampleBatch& batch, std::vector<torch::Tensor>& parts) const;

  KeyChoice choice_;
  SpectralOptions spectral_;
  int64_t depth_;
  mutable std::unique_ptr<SpectralEncoder> encoder_;          // of the grid that came first
  mutable int64_t head_numbers_ = 0;                          // of all heads, where they are kept
  mutable std::map<std::string, torch::Tensor> projections_;  // [width, dimension], by part, when first needed
};

}  // namespace asr
