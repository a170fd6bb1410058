#include "adapters/bank.h"

#include <algorithm>

#include "adapters/made_slot.h"
#include "base/error.h"
#include "base/json.h"
#include "base/random.h"

namespace asr {
namespace {

constexpr size_t kMostSlots = 62;                   // bits of Pass::slots
constexpr uint64_t kMergedBit = uint64_t(1) << 63;  // weights with merged slots count, even where no slot is active

// Calls visit(name, tensor) for the tensors of one slot at one site, each once.
template <class Visit>
void each_tensor(const SlotLayout& layout, const SiteLayout& site, SlotAtSite& slot, const Visit& visit) {
  const auto prefix = (layout.name == kTrainedSlot ? std::string() : layout.name + ":") + site.site;
  if (slot.full_weight.defined()) visit(prefix + ".full.weight", slot.full_weight);
  for (size_t e = 0; e < slot.experts.size(); ++e) {
    const auto number = slot.experts.size() > 1 ? cat(".", e) : std::string();
    if (!site.share_a || e == 0)
      visit(prefix + ".lora_A" + (site.share_a ? "" : number) + ".weight", slot.experts[e].a);
    visit(prefix + ".lora_B" + number + ".weight", slot.experts[e].b);
  }
  auto routers = routers_of(slot);
  for (size_t i = 0; i < routers.size(); ++i)
    visit(prefix + ".router" + (i > 0 ? cat(".", i) : std::string()) + ".weight", routers[i]);
}

}  // namespace

AdapterBank::AdapterBank(std::vector<AdapterSite> sites) : sites_(std::move(sites)) {
  for (const auto& site : sites_)
    check(site.linear->slots.empty() && !site.linear->merged.defined(), "'", site.name, "' already carries an adapter");
}

AdapterBank::~AdapterBank() {
  for (const auto& site : sites_) {
    site.linear->slots.clear();
    site.linear->merged = torch::Tensor();
  }
}

Linear& AdapterBank::linear(const std::string& site) const {
  for (const auto& known : sites_)
    if (known.name == site) return *known.linear;
  fail("the model has no site '", site, "' for an adapter");
}

bool AdapterBank::has(const std::string& slot) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.layout.name == slot; });
}

size_t AdapterBank::number(const std::string& slot) const {
  for (size_t k = 0; k < entries_.size(); ++k)
    if (entries_[k].layout.name == slot) return k;
  fail("there is no adapter slot '", slot, "'");
}

const AdapterBank::Entry& AdapterBank::entry(const std::string& slot) const {
  return entries_[number(slot)];
}

const SlotLayout& AdapterBank::layout(const std::string& slot) const {
  return entry(slot).layout;
}

std::vector<std::string> AdapterBank::slots() const {
  std::vector<std::string> out;
  for (const auto& e : entries_) out.push_back(e.layout.name);
  return out;
}

void AdapterBank::add(const SlotLayout& layout, uint64_t seed) {
  check(!layout.name.empty() && layout.name.find(':') == std::string::npos, "'", layout.name,
        "' cannot be the name of an adapter slot");
  check(!has(layout.name), "there are two adapter slots '", layout.name, "'");
  check(entries_.size() < kMostSlots, "a run has at most ", kMostSlots, " adapter slots");
  check(!layout.sites.empty(), "adapter slot '", layout.name, "' has no sites");
  auto generator = at::detail::createCPUGenerator(seed);
  for (const auto& site : sites_) site.linear->slots.resize(entries_.size() + 1);
  entries_.push_back({layout, false, {}});
  for (const auto& site : layout.sites) {
    check(site.full || (site.rank > 0 && site.experts > 0 && site.routers > 0), "adapter slot '", layout.name,
          "', site '", site.site, "': rank ", site.rank, ", ", site.experts, " experts and ", site.routers,
          " routers cannot be");
    auto& place = linear(site.site);
    check(place.slots.back().empty(), "adapter slot '", layout.name, "' names site '", site.site, "' twice");
    place.slots.back() = made_slot(place, site, generator);
  }
}

void AdapterBank::ensure(const SlotLayout& layout, uint64_t seed) {
  if (!has(layout.name)) return add(layout, seed);
  auto generator = at::detail::createCPUGenerator(Random({seed, uint64_t(layout.sites.at(0).routers)}).next());
  for (const auto& wanted : layout.sites)
    for (auto& site : entries_[number(layout.name)].layout.sites) {
      if (site.site != wanted.site || site.routers >= wanted.routers) continue;
      check(site.training.kind == GateKind::router && site.answering.kind == GateKind::router, "adapter slot '",
            layout.name, "' was made without a router at '", site.site, "'");
      auto& place = at(layout.name, site.site);
      auto routers = routers_of(place);
      for (; site.routers < wanted.routers; ++site.routers) {
        freeze_tensor(layout.name, routers.back());
        routers.push_back(new_router(linear(site.site), site.experts, generator));
        set_both_gates(place, site, routers);
      }
    }
}

void AdapterBank::copy(const std::string& from, const std::string& to) {
  const size_t source = number(from);
  auto layout = entries_[source].layout;
  layout.name = to;
  layout.in_training = false;
  layout.in_answering = false;
  layout.teacher = true;
  if (!has(to)) add(layout, 0);
  const size_t target = number(to);
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < layout.sites.size(); ++i) {
    auto& place = linear(layout.sites[i].site);
    std::vector<torch::Tensor> values;
    each_tensor(entries_[source].layout, layout.sites[i], place.slots[source],
                [&](const std::string&, torch::Tensor& t) { values.push_back(t.detach()); });
    size_t next = 0;
    each_tensor(layout, layout.sites[i], place.slots[target],
                [&](const std::string&, torch::Tensor& t) { t.copy_(values[next++]); });
  }
  freeze(to);
}

void AdapterBank::remove(const std::string& slot) {
  check(number(slot) + 1 == entries_.size(), "only the newest adapter slot can be removed, not '", slot, "'");
  check(!entries_.back().merged, "adapter slot '", slot, "' is merged and cannot be removed");
  entries_.pop_back();
  for (const auto& site : sites_) site.linear->slots.resize(entries_.size());
}

void AdapterBank::keep_sites(const std::string& slot, const std::set<std::string>& sites) {
  const size_t k = number(slot);
  std::vector<SiteLayout> kept;
  for (const auto& site : entries_[k].layout.sites) {
    if (sites.count(site.site) > 0)
      kept.push_back(site);
    else
      linear(site.site).slots[k] = {};
  }
  entries_[k].layout.sites = std::move(kept);
}

SlotAtSite& AdapterBank::at(const std::string& slot, const std::string& site) {
  return linear(site).slots[number(slot)];
}

void AdapterBank::freeze_named(size_t slot, const std::string& name) {
  auto& e = entries_[slot];
  for (const auto& site : e.layout.sites)
    each_tensor(e.layout, site, linear(site.site).slots[slot], [&](const std::string& known, torch::Tensor& t) {
      if (known != name) return;
      t.requires_grad_(false);
      t.mutable_grad().reset();
      e.frozen.insert(name);
    });
}

void AdapterBank::freeze(const std::string& slot) {
  const size_t k = number(slot);
  std::vector<std::string> names;
  for (const auto& site : entries_[k].layout.sites)
    each_tensor(entries_[k].layout, site, linear(site.site).slots[k], [&](const std::string& name, torch::Tensor& t) {
      t.requires_grad_(false);
      t.mutable_grad().reset();
      entries_[k].frozen.insert(name);
    });
}

void AdapterBank::freeze(const std::string& slot, const std::string& site, size_t expert) {
  const size_t k = number(slot);
  auto& place = at(slot, site);
  check(expert < place.experts.size(), "adapter slot '", slot, "' has ", place.experts.size(), " experts at '", site,
        "', no number ", expert);
  for (const auto& known : entries_[k].layout.sites) {
    if (known.site != site) continue;
    each_tensor(entries_[k].layout, known, place, [&](const std::string& name, torch::Tensor& t) {
      // An A that experts share stays with those that still learn.
      const bool own_a = !known.share_a && t.is_same(place.experts[expert].a);
      if (!own_a && !t.is_same(place.experts[expert].b)) return;
      t.requires_grad_(false);
      t.mutable_grad().reset();
      entries_[k].frozen.insert(name);
    });
  }
}

void AdapterBank::freeze_tensor(const std::string& slot, const torch::Tensor& tensor) {
  const size_t k = number(slot);
  for (const auto& [name, known] : tensors_of(slot))
    if (known.is_same(tensor)) return freeze_named(k, name);
  fail("adapter slot '", slot, "' has no such tensor");
}

void AdapterBank::unfreeze(const std::string& slot) {
  const size_t k = number(slot);
  check(!entries_[k].merged, "adapter slot '", slot, "' is merged and cannot be trained again");
  for (auto& [name, tensor] : tensors_of(slot)) tensor.requires_grad_(true);
  entries_[k].frozen.clear();
}

bool AdapterBank::is_frozen(const std::string& slot) const {
  const auto& frozen = entry(slot).frozen;
  const auto all = tensors_of(slot);
  return std::all_of(all.begin(), all.end(), [&](const auto& named) { return frozen.count(named.first) > 0; });
}

void AdapterBank::take_part(const std::string& slot, bool in_training, bool in_answering) {
  auto& layout = entries_[number(slot)].layout;
  layout.in_training = in_training;
  layout.in_answering = in_answering;
}

void AdapterBank::set_gates(const std::string& slot, const std::string& site, const GateLayout& training,
                            const GateLayout& answering) {
  const size_t k = number(slot);
  auto& place = at(slot, site);
  for (auto& known : entries_[k].layout.sites) {
    if (known.site != site) continue;
    const bool had = wants_router(known);
    known.training = training;
    known.answering = answering;
    check(had || !wants_router(known), "adapter slot '", slot, "' was made without a router at '", site, "'");
    set_both_gates(place, known, routers_of(place));
  }
}

void AdapterBank::remerge() {
  uint64_t chosen = 0;
  for (size_t k = 0; k < entries_.size(); ++k)
    if (entries_[k].merged) chosen |= uint64_t(1) << k;
  for (const auto& site : sites_)
    site.linear->merged = site.linear->has_experts(chosen) ? merged_weight(*site.linear, chosen) : torch::Tensor();
}

void AdapterBank::merge(const std::string& slot) {
  auto& e = entries_[number(slot)];
  for (const auto& site : e.layout.sites)
    check(!site.full && site.answering.kind == GateKind::sum, "adapter slot '", slot, "' cannot be merged: '",
          site.site, site.full ? "' has a whole weight of its own" : "' has a gate");
  freeze(slot);
  e.merged = true;
  remerge();
}

uint64_t AdapterBank::training() const {
  uint64_t out = kMergedBit;
  for (size_t k = 0; k < entries_.size(); ++k)
    if (entries_[k].layout.in_training && !entries_[k].merged) out |= uint64_t(1) << k;
  return out;
}

uint64_t AdapterBank::answering() const {
  uint64_t out = kMergedBit;
  for (size_t k = 0; k < entries_.size(); ++k)
    if (entries_[k].layout.in_answering && !entries_[k].merged) out |= uint64_t(1) << k;
  return out;
}

NamedParameters AdapterBank::tensors() const {
  NamedParameters out;
  for (const auto& e : entries_)
    for (auto& tensor : tensors_of(e.layout.name)) out.push_back(std::move(tensor));
  return out;
}

NamedParameters AdapterBank::tensors_of(const std::string& slot) const {
  NamedParameters out;
  const size_t k = number(slot);
  for (const auto& site : entries_[k].layout.sites)
    each_tensor(entries_[k].layout, site, linear(site.site).slots[k],
                [&](const std::string& name, torch::Tensor& t) { out.emplace_back(name, t); });
  return out;
}

double AdapterBank::learning_rate(const std::string& tensor) const {
  for (size_t k = 0; k < entries_.size(); ++k)
    for (const auto& site : entries_[k].layout.sites) {
      if (site.learning_rate == 0) continue;
      bool found = false;
      each_tensor(entries_[k].layout, site, linear(site.site).slots[k],
                  [&](const std::string& name, torch::Tensor&) { found = found || name == tensor; });
      if (found) return site.learning_rate;
    }
  return 0;
}

// By what was frozen, not by requires_grad: a phase that trains something else takes that away for its time.
NamedParameters AdapterBank::trained() const {
  std::set<std::string> frozen;
  for (const auto& e : entries_) frozen.insert(e.frozen.begin(), e.frozen.end());
  NamedParameters out;
  for (auto& [name, tensor] : tensors())
    if (frozen.count(name) == 0) out.emplace_back(name, tensor);
  return out;
}

nlohmann::json AdapterBank::describe() const {
  auto out = nlohmann::json::array();
  for (const auto& e : entries_) {
    auto slot = to_json(e.layout);
    slot["merged"] = e.merged;
    slot["frozen"] = e.frozen;
    out.push_back(std::move(slot));
  }
  return out;
}

void AdapterBank::rebuild(const nlohmann::json& described, const std::string& where) {
  check(described.is_array(), where, ": the list of adapter slots is damaged");
  while (!entries_.empty()) {
    entries_.back().merged = false;
    remove(entries_.back().layout.name);
  }
  for (const auto& stored : described) {
    const auto layout = slot_layout_from(stored, where);
    for (const auto& site : layout.sites)
      check(std::any_of(sites_.begin(), sites_.end(), [&](const auto& known) { return known.name == site.site; }),
            where, ": has an adapter at '", site.site, "', which this model does not have; it is of another one");
    add(layout, 0);
    const JsonFields fields(stored, where);
    entries_.back().merged = fields.flag("merged");
    for (const auto& name : fields.list("frozen")) {
      check(name.is_string(), where, ": the list of adapter slots is damaged");
      freeze_named(entries_.size() - 1, name.get<std::string>());
    }
  }
}

void AdapterBank::finish_rebuild() {
  remerge();
}

}  // namespace asr
