#include "adapters/bank.h"
#include "base/error.h"

namespace asr {

std::string why_not_plain(const AdapterBank& bank) {
  for (const auto& name : bank.slots()) {
    const auto& layout = bank.layout(name);
    if (!layout.in_answering && !bank.is_merged(name)) continue;
    for (const auto& site : layout.sites) {
      if (site.full) return cat("slot '", name, "' trains the whole weight of '", site.site, "'");
      if (site.answering.kind != GateKind::sum) return cat("slot '", name, "' has a gate at '", site.site, "'");
    }
  }
  return "";
}

PlainAdapter as_plain_adapter(const AdapterBank& bank) {
  const auto reason = why_not_plain(bank);
  check(reason.empty(), "these adapters are no plain LoRA: ", reason);
  PlainAdapter out;
  for (const auto& site : bank.sites()) {
    std::vector<torch::Tensor> a, b;
    double scale = 0;
    for (const auto& name : bank.slots()) {
      if (!bank.layout(name).in_answering && !bank.is_merged(name)) continue;
      for (const auto& expert : site.linear->slots[bank.number(name)].experts) {
        if (a.empty()) scale = expert.scale;
        a.push_back(expert.a.detach());
        b.push_back(expert.scale == scale ? expert.b.detach() : expert.b.detach() * (expert.scale / scale));
      }
    }
    if (a.empty()) continue;
    out.tensors.emplace_back(site.name + ".lora_A.weight", a.size() == 1 ? a[0] : at::cat(a));
    out.tensors.emplace_back(site.name + ".lora_B.weight", b.size() == 1 ? b[0] : at::cat(b, 1));
    out.ranks[site.name] = out.tensors.back().second.size(1);
    out.scales[site.name] = scale;
  }
  return out;
}

}  // namespace asr
