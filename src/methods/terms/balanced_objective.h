// A closed list of answers under a balanced classifier (BCP-MFA): with E = I - 11'/K and U (width x K) orthogonal,
// prototypes are the columns of P = U E and logits are h P, h the state that predicts the first answer token. For
// K <= width any two prototypes stand at the same angle, cos = -1/(K-1), and only U, their common rotation, is learnt.
// Targets are soft: every right answer of the list by what it is worth, not normalised.
#pragma once

#include <string>
#include <vector>

#include "base/options.h"
#include "data/list_objective.h"
#include "methods/terms/transport.h"

namespace asr {

enum class AlignmentCost { cosine, squared };
template <>
struct EnumNames<AlignmentCost> {
  static constexpr const char* names[] = {"cosine", "squared"};
};

class BalancedObjective final : public ListObjective {
 public:
  // U begins nearest to the answers' mean token embeddings, so that the untrained head follows the language model.
  BalancedObjective(const Backbone& model, std::vector<std::string> answers);

  torch::Tensor loss(const Output& output, const SampleBatch& batch, const torch::Tensor& weights) const override;
  torch::Tensor logits(const Output& output, const std::vector<torch::Tensor>& parameters) const override;
  NamedParameters parameters() const override;

  torch::Tensor prototypes() const;                                // [K, width]
  torch::Tensor targets(const SampleBatch& batch) const override;  // [B, K]
  torch::Tensor features(const torch::Tensor& states) const;  // states normalised over the batch, then each to length 1
  // How far the features of a batch lie from the prototypes, as a transport between both sets.
  torch::Tensor alignment(const torch::Tensor& states, AlignmentCost cost, const SinkhornOptions& sinkhorn) const;
  void retract();  // U back onto the orthogonal matrices

 private:
  torch::Tensor rotation_;       // U [width, K]
  torch::Tensor scale_, shift_;  // of the normalisation over the batch, [width]
};

// The orthogonal factor of a QR decomposition, by rows where they are fewer; R has a positive diagonal, so that a small
// change of the matrix is a small change of the factor.
torch::Tensor orthogonal_factor(const torch::Tensor& matrix);

}  // namespace asr
