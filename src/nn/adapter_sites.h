// The linears of a model that may be adapted, listed by the layers that hold them.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "nn/linear.h"

namespace asr {

// A linear of a layer, by its name below the layer.
struct SiteInLayer {
  const char* name;
  Linear* linear;
  SitePart part;
};
// Adds the linears of layer `layer`; `prefix` stands before their names: "model.language_model.layers.3.".
void add_sites(std::vector<AdapterSite>& sites, const std::string& prefix, int64_t layer,
               std::initializer_list<SiteInLayer> linears);

// What a run adapts unless its method says otherwise: q and v of every attention, the projector. In the order given.
std::vector<AdapterSite> default_sites(const std::vector<AdapterSite>& sites);

// Whether one of them differs from the base: by an expert, a trained copy of the weight or a merged slot.
bool any_adapted(std::initializer_list<const Linear*> linears);

}  // namespace asr
