#include "data/sample_copies.h"

#include "base/error.h"
#include "tensor/torch_compat.h"

namespace asr {
namespace {

struct FactorPlace {
  SlotAtSite* slot = nullptr;
  size_t number = 0;  // of the slot
};

// Where a factor stands; nowhere: an empty place.
FactorPlace place_of(const std::vector<AdapterSite>& sites, const torch::Tensor& factor) {
  for (const auto& site : sites)
    for (size_t k = 0; k < site.linear->slots.size(); ++k)
      for (const auto& expert : site.linear->slots[k].experts)
        if (expert.a.is_same(factor) || expert.b.is_same(factor)) return {&site.linear->slots[k], k};
  return {};
}

}  // namespace

bool SampleCopies::fit(const std::vector<AdapterSite>& sites, const std::vector<torch::Tensor>& factors) {
  std::map<size_t, int64_t> ranks;  // by slot
  for (const auto& factor : factors) {
    const auto place = place_of(sites, factor);
    if (!place.slot || place.slot->experts.size() != 1 || place.slot->training.kind != GateKind::sum) return false;
    const int64_t rank = place.slot->experts[0].a.size(0);
    if (ranks.emplace(place.number, rank).first->second != rank) return false;
  }
  return true;
}

SampleCopies::SampleCopies(const std::vector<AdapterSite>& sites, const std::vector<torch::Tensor>& factors,
                           int64_t samples)
    : samples_(samples) {
  check(fit(sites, factors), "these factors cannot have a copy a sample");
  std::vector<FactorPlace> found;
  for (const auto& factor : factors) found.push_back(place_of(sites, factor));
  for (const auto& site : sites)
    for (const auto& slot : site.linear->slots)
      for (const auto& expert : slot.experts)
        for (const auto& factor : {expert.a, expert.b})
          if (factor.requires_grad()) stopped_.push_back(factor);
  for (const auto& factor : stopped_) factor.requires_grad_(false);
  for (size_t i = 0; i < factors.size(); ++i) {
    auto& slot = *found[i].slot;
    // The second factor of a place finds the copies of the first one there.
    if (slot.training.kind != GateKind::given) {
      places_.emplace_back(&slot, slot);
      auto& expert = slot.experts[0];
      const int64_t rank = expert.a.size(0);
      given_[found[i].number] = at::eye(samples, expert.a.options()).repeat_interleave(rank, 1);
      expert.a = expert.a.detach().repeat({samples, 1});
      expert.b = expert.b.detach().repeat({1, samples});
      slot.training.kind = slot.answering.kind = GateKind::given;
    }
    const auto& own = places_.back().second.experts[0];
    by_rows_.push_back(own.a.is_same(factors[i]));
    check(by_rows_.back() || own.b.is_same(factors[i]), "the factors of a place stand apart");
    copies_.push_back((by_rows_.back() ? slot.experts[0].a : slot.experts[0].b).requires_grad_(true));
  }
}

SampleCopies::~SampleCopies() {
  for (auto& [place, own] : places_) *place = own;
  for (const auto& factor : stopped_) factor.requires_grad_(true);
}

torch::Tensor SampleCopies::gradients_of(const torch::Tensor& loss) const {
  const auto found = gradients(loss, copies_);
  std::vector<torch::Tensor> rows;
  for (size_t i = 0; i < found.size(); ++i) {
    auto each = (found[i].defined() ? found[i] : torch::zeros_like(copies_[i])).to(at::kFloat);
    if (!by_rows_[i]) each = each.view({each.size(0), samples_, -1}).transpose(0, 1);  // [samples, out, r]
    rows.push_back(each.reshape({samples_, -1}));
  }
  return at::cat(rows, 1);
}

}  // namespace asr
