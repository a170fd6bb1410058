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

std::vector<AdapterSite> language_sites(const std::vector<AdapterSite>& sites) {
  std::vector<std::string> layers;  // how the names in a layer with an MLP begin
  for (const auto& site : sites) {
    if (site.part != SitePart::down) continue;
    const auto layer = cat("layers.", site.layer, ".");
    layers.push_back(site.name.substr(0, site.name.rfind(layer) + layer.size()));
  }
  std::vector<AdapterSite> out;
  for (const auto& site : sites) {
    const auto holds = [&](const std::string& layer) { return site.name.rfind(layer, 0) == 0; };
    if (std::any_of(layers.begin(), layers.end(), holds)) out.push_back(site);
  }
  return out;
}

std::vector<AdapterSite> sequence_sites(const std::vector<AdapterSite>& sites) {
  std::vector<AdapterSite> out;
  for (const auto& site : language_sites(sites))
    if (site.part != SitePart::cross_k && site.part != SitePart::cross_v) out.push_back(site);
  return out;
}

std::vector<AdapterSite> sites_of_slot(const AdapterBank& bank, const std::string& slot) {
  std::vector<AdapterSite> out;
  for (const auto& wanted : bank.layout(slot).sites)
    for (const auto& site : bank.sites())
      if (site.name == wanted.site) out.push_back(site);
  return out;
}

SiteLayout routed_experts(const SlotLayout& plain, int64_t experts, const char* section) {
  SiteLayout each = plain.sites.at(0);
  check(each.rank % experts == 0, section, ".experts=", experts, " does not divide lora_rank=", each.rank,
        ", which the experts share");
  each.rank /= experts;
  each.experts = experts;
  each.spread = 0.01;
  each.training.kind = each.answering.kind = GateKind::router;
  return each;
}

std::string stage_slot(int stage) {
  return cat("stage-", stage);
}

}  // namespace asr
