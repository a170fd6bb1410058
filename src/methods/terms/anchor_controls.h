// Controls of the anchored target (asr.anchor): the same loss on something else than spectra, to see whether it is the
// spectrum that helps or the braking alone.
#pragma once

#include "methods/terms/anchors.h"
#include "spectral/anchored_loss.h"

namespace asr {

// Nothing for what is no view of its own: spectra, shuffled ones and adapters.
std::unique_ptr<AnchorView> control_view(const Options& options);

// Whether the control is weighed by the stored variances of spectra, as spectra are.
bool has_stored_variances(AnchorOf anchor);

// Weights of what the memory knows nothing of, by the variances of the stage's own anchors [N, n], floored at a
// thousandth of their mean. With asr.metric=identity all entries weigh the same.
AnchorWeights own_weights(const torch::Tensor& anchors, AnchorMetric metric, const at::TensorOptions& compute);

}  // namespace asr
