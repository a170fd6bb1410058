// Which linears get which experts: what a method asks of the bank. A layout is plain data, so that it can be stored,
// compared and made again when a run is resumed.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "nn/linear.h"

namespace asr {

// A gate as a layout has it; the bank makes the router's weights.
struct GateLayout {
  GateKind kind = GateKind::sum;
  RouterReads reads = RouterReads::token;
  int64_t top_k = 0;
  double router_share = 1;
};

// What a slot puts on one site.
struct SiteLayout {
  std::string site;
  int64_t rank = 16;  // of every expert
  double scale = 2;   // what its product is multiplied by: alpha / rank
  int64_t experts = 1;
  int64_t routers = 1;       // of which Pass::given chooses in answering; training has the newest, the others freeze
  bool share_a = false;      // one A for all experts
  bool full = false;         // no experts: a trained copy of the whole weight
  double learning_rate = 0;  // of its own; 0: the common one
  double spread = 0;         // standard deviation of A at the start; 0: 1 / sqrt(in)
  GateLayout training, answering;
};

struct SlotLayout {
  std::string name;  // "trained", "lwf.teacher", "stage-3"
  std::vector<SiteLayout> sites;
  bool in_training = true, in_answering = true;  // whether it takes part
  bool teacher = false;                          // a copy that others learn from
};

using AdapterLayout = std::vector<SlotLayout>;

inline constexpr const char* kTrainedSlot = "trained";      // of methods that train one adapter and nothing else
inline constexpr const char* kProjectorSlot = "projector";  // of runs that train the projector's weights whole

// Sites of these parts, in the order of `sites`.
std::vector<AdapterSite> sites_of(const std::vector<AdapterSite>& sites, const std::vector<SitePart>& parts);

// The same experts on each of the sites.
SlotLayout alike(const std::string& name, const std::vector<AdapterSite>& sites, const SiteLayout& each);

nlohmann::json to_json(const SlotLayout& layout);
SlotLayout slot_layout_from(const nlohmann::json& json, const std::string& where);

}  // namespace asr
