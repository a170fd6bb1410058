#include "adapters/layout.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace asr {
namespace {

using nlohmann::json;

json gate_json(const GateLayout& gate) {
  return {static_cast<int>(gate.kind), static_cast<int>(gate.reads), gate.top_k, gate.router_share};
}

GateLayout gate_from(const json& list, const std::string& where) {
  const bool good = list.is_array() && list.size() == 4 && list[0].is_number_integer() && list[1].is_number_integer() &&
                    list[2].is_number_integer() && list[3].is_number();
  check(good && list[0] >= 0 && list[0] <= 3 && list[1] >= 0 && list[1] <= 2, where, ": a gate of the bank is damaged");
  return {static_cast<GateKind>(list[0].get<int>()), static_cast<RouterReads>(list[1].get<int>()),
          list[2].get<int64_t>(), list[3].get<double>()};
}

}  // namespace

std::vector<AdapterSite> sites_of(const std::vector<AdapterSite>& sites, const std::vector<SitePart>& parts) {
  std::vector<AdapterSite> out;
  for (const auto& site : sites)
    if (std::find(parts.begin(), parts.end(), site.part) != parts.end()) out.push_back(site);
  return out;
}

SlotLayout alike(const std::string& name, const std::vector<AdapterSite>& sites, const SiteLayout& each) {
  SlotLayout out;
  out.name = name;
  for (const auto& site : sites) {
    out.sites.push_back(each);
    out.sites.back().site = site.name;
  }
  return out;
}

json to_json(const SlotLayout& layout) {
  auto sites = json::array();
  for (const auto& s : layout.sites)
    sites.push_back({{"site", s.site},
                     {"rank", s.rank},
                     {"scale", s.scale},
                     {"experts", s.experts},
                     {"routers", s.routers},
                     {"share_a", s.share_a},
                     {"full", s.full},
                     {"learning_rate", s.learning_rate},
                     {"spread", s.spread},
                     {"training", gate_json(s.training)},
                     {"answering", gate_json(s.answering)}});
  return {{"name", layout.name},
          {"in_training", layout.in_training},
          {"in_answering", layout.in_answering},
          {"teacher", layout.teacher},
          {"sites", sites}};
}

SlotLayout slot_layout_from(const json& stored, const std::string& where) {
  const JsonFields fields(stored, where);
  SlotLayout out;
  out.name = fields.text("name");
  out.in_training = fields.flag("in_training");
  out.in_answering = fields.flag("in_answering");
  out.teacher = fields.flag("teacher");
  for (const auto& entry : fields.list("sites")) {
    const JsonFields site(entry, where);
    SiteLayout s;
    s.site = site.text("site");
    s.rank = site.integer("rank");
    s.scale = site.number("scale");
    s.experts = site.integer("experts");
    if (site.has("routers")) s.routers = site.integer("routers");
    s.share_a = site.flag("share_a");
    s.full = site.flag("full");
    s.learning_rate = site.number("learning_rate");
    s.spread = site.number("spread");
    s.training = gate_from(site.at("training"), where);
    s.answering = gate_from(site.at("answering"), where);
    out.sites.push_back(std::move(s));
  }
  return out;
}

}  // namespace asr
