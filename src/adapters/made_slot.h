// What a slot has at one linear map, made by its layout: experts, a full weight, routers and the gates that use them.
#pragma once

#include <torch/types.h>

#include <vector>

#include "adapters/layout.h"

namespace asr {

using Routers = std::vector<torch::Tensor>;  // oldest first

bool wants_router(const SiteLayout& site);
torch::Tensor new_router(const Linear& linear, int64_t experts, at::Generator& generator);
SlotAtSite made_slot(const Linear& linear, const SiteLayout& site, at::Generator& generator);
Routers routers_of(const SlotAtSite& slot);
void set_both_gates(SlotAtSite& slot, const SiteLayout& site, const Routers& routers);

}  // namespace asr
