#include "methods/terms/rank_slots.h"

#include <ATen/ATen.h>

#include <cmath>

namespace asr {
namespace {

torch::Tensor ranks_on(const std::vector<int64_t>& ranks, const torch::Tensor& like) {
  return torch::tensor(ranks, at::kLong).to(like.device());
}

}  // namespace

void copy_ranks(AdapterBank& bank, const RankPlace& from, const RankPlace& to, const std::vector<int64_t>& ranks) {
  at::NoGradGuard no_grad;
  const auto count = static_cast<int64_t>(ranks.size());
  for (const auto& site : bank.layout(to.slot).sites) {
    const auto& old = bank.at(from.slot, site.site).experts[0];
    const auto& fresh = bank.at(to.slot, site.site).experts[0];
    const auto index = ranks_on(ranks, old.a) + from.first;
    fresh.a.narrow(0, to.first, count).copy_(old.a.index_select(0, index));
    fresh.b.narrow(1, to.first, count).copy_(old.b.index_select(1, index));
  }
}

void keep_ranks(AdapterBank& bank, const std::string& slot, const std::vector<int64_t>& ranks) {
  at::NoGradGuard no_grad;
  const auto count = static_cast<int64_t>(ranks.size());
  for (const auto& site : bank.layout(slot).sites) {
    const auto& expert = bank.at(slot, site.site).experts[0];
    const auto index = ranks_on(ranks, expert.a);
    const auto a = expert.a.index_select(0, index), b = expert.b.index_select(1, index);
    expert.a.zero_();
    expert.b.zero_();
    expert.a.narrow(0, 0, count).copy_(a);
    expert.b.narrow(1, 0, count).copy_(b);
  }
}

void renew_ranks(AdapterBank& bank, const std::string& slot, uint64_t key) {
  at::NoGradGuard no_grad;
  auto generator = at::detail::createCPUGenerator(key);
  for (const auto& site : bank.layout(slot).sites) {
    const auto& expert = bank.at(slot, site.site).experts[0];
    const double spread = 1 / std::sqrt(static_cast<double>(expert.a.size(1)));
    expert.a.copy_(at::randn(expert.a.sizes(), generator, at::CPU(at::kFloat)) * spread);
    expert.b.zero_();
  }
}

OtherFactors::OtherFactors(AdapterBank& bank, const std::vector<std::string>& slots,
                           const std::vector<torch::Tensor>& factors) {
  size_t next = 0;
  for (const auto& slot : slots)
    for (const auto& site : bank.layout(slot).sites) {
      auto& expert = bank.at(slot, site.site).experts[0];
      for (auto* place : {&expert.a, &expert.b}) {
        places_.emplace_back(place, *place);
        *place = factors.at(next++);
      }
    }
}

OtherFactors::~OtherFactors() {
  for (auto& [place, own] : places_) *place = own;
}

}  // namespace asr
