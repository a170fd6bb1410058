// Which frozen vectors of picture and question a method chooses by: those of a CLIP model in a folder, or, where none
// is given, the backbone's own. Part of a method that has an option `encoder`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backbones/clip_encoder.h"
#include "base/options.h"
#include "data/embedding_cache.h"
#include "methods/costs.h"
#include "methods/state_shapes.h"
#include "methods/terms/frozen_embeddings.h"
#include "tensor/state.h"

namespace asr {

class ExternalEncoder {
 public:
  explicit ExternalEncoder(ClipTextForm form) : form_(form) {}

  void visit(OptionVisitor& visitor);
  void prepare(const Backbone& model);  // loads it, onto the model's device
  std::vector<std::string> folders() const;

  // Of pictures as the stream has them, unaugmented; a sample is computed once in a run. Without a folder those of
  // frozen_embeddings().
  FrozenEmbeddings of(const Backbone& model, const SampleBatch& batch);

  // Which encoder it was, so that vectors of another are never compared with what is kept.
  void state(StateVisitor& visitor);
  void add_kept(std::vector<StateShape>& shapes) const;
  int64_t widest(const StateSizes& sizes) const;  // numbers of a vector at most
  void add_costs(const CostContext& run, MethodCosts& costs) const;

 private:
  FrozenEmbeddings encoded(const Backbone& model, const SampleBatch& batch);

  ClipTextForm form_;
  std::string folder_;
  std::unique_ptr<ClipEncoder> encoder_;
  EmbeddingCache pictures_, texts_;
};

}  // namespace asr
