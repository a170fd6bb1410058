#include "methods/terms/sites.h"

#include <algorithm>

#include "base/error.h"

namespace asr {

std::vector<AdapterSite> adapted_sites(const std::vector<AdapterSite>& sites, const SlotLayout& plain,
                                       AdaptedSites which) {
  if (which == AdaptedSites::all)
    return sites_of(sites,
                    {SitePart::q, SitePart::k, SitePart::v, SitePart::o, SitePart::gate, SitePart::up, SitePart::down,
                     SitePart::cross_q, SitePart::cross_k, SitePart::cross_v, SitePart::cross_o, SitePart::projector});
  std::vector<AdapterSite> out;
  for (const auto& site : sites)
    if (std::any_of(plain.sites.begin(), plain.sites.end(), [&](const SiteLayout& s) { return s.site == site.name; }))
      out.push_back(site);
  return out;
}

std::string stage_slot(int stage) {
  return cat("stage-", stage);
}

}  // namespace asr
