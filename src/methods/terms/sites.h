// Which linears a method of its own layout adapts.
#pragma once

#include "adapters/bank.h"
#include "base/options.h"

namespace asr {

enum class AdaptedSites { run, all };
template <>
struct EnumNames<AdaptedSites> {
  static constexpr const char* names[] = {"run", "all"};
};
inline constexpr const char* kAdaptedSitesHelp =
    "run: the linears that every run adapts; all: every linear of the language model, a Q-Former's attention and the "
    "projector";

// In the order of `sites`; `plain` is the run's own layout.
std::vector<AdapterSite> adapted_sites(const std::vector<AdapterSite>& sites, const SlotLayout& plain,
                                       AdaptedSites which);

// Those in the layers of the language model: neither a Q-Former's nor the vision tower's, nor the projector.
std::vector<AdapterSite> language_sites(const std::vector<AdapterSite>& sites);

// Those of them that read its own sequence: not what cross-attention reads of the picture.
std::vector<AdapterSite> sequence_sites(const std::vector<AdapterSite>& sites);

// Those that a slot has experts at, in its order.
std::vector<AdapterSite> sites_of_slot(const AdapterBank& bank, const std::string& slot);

// Experts that share the run's rank, each with its scale, weighed token by token by a router. `section` is the
// method's.
SiteLayout routed_experts(const SlotLayout& plain, int64_t experts, const char* section);

// "stage-3": the slot of a stage where every stage has its own.
std::string stage_slot(int stage);

}  // namespace asr
