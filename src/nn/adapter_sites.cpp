#include "nn/adapter_sites.h"

#include <algorithm>

namespace asr {

void add_sites(std::vector<AdapterSite>& sites, const std::string& prefix, int64_t layer,
               std::initializer_list<SiteInLayer> linears) {
  for (const auto& one : linears) sites.push_back({prefix + one.name, one.linear, one.part, layer});
}

std::vector<AdapterSite> default_sites(const std::vector<AdapterSite>& sites) {
  const auto parts = {SitePart::q, SitePart::v, SitePart::cross_q, SitePart::cross_v, SitePart::projector};
  std::vector<AdapterSite> out;
  for (const auto& site : sites)
    if (std::find(parts.begin(), parts.end(), site.part) != parts.end()) out.push_back(site);
  return out;
}

bool any_adapted(std::initializer_list<const Linear*> linears) {
  const auto adapted = [](const Linear* linear) {
    const auto& slots = linear->slots;
    return linear->merged.defined() ||
           std::any_of(slots.begin(), slots.end(), [](const SlotAtSite& slot) { return !slot.empty(); });
  };
  return std::any_of(linears.begin(), linears.end(), adapted);
}

}  // namespace asr
