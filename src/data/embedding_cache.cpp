#include "data/embedding_cache.h"

#include <unordered_set>

#include "base/error.h"

namespace asr {

torch::Tensor EmbeddingCache::get(const std::vector<std::string>& ids,
                                  const std::function<torch::Tensor(const std::vector<int64_t>&)>& compute) {
  std::vector<int64_t> missing;
  std::unordered_set<std::string> asked;
  for (size_t i = 0; i < ids.size(); ++i)
    if (!known_.count(ids[i]) && asked.insert(ids[i]).second) missing.push_back(static_cast<int64_t>(i));
  if (!missing.empty()) {
    const auto rows = compute(missing).detach().to(at::kCPU, at::kFloat).contiguous();
    check(rows.dim() == 2 && rows.size(0) == static_cast<int64_t>(missing.size()), "embeddings of shape ", rows.sizes(),
          " for ", missing.size(), " samples");
    for (size_t k = 0; k < missing.size(); ++k)
      known_[ids[static_cast<size_t>(missing[k])]] = rows[static_cast<int64_t>(k)].clone();
  }
  std::vector<torch::Tensor> out;
  for (const auto& id : ids) out.push_back(known_.at(id));
  return out.empty() ? torch::Tensor() : at::stack(out);
}

int64_t EmbeddingCache::bytes() const {
  int64_t out = 0;
  for (const auto& [id, row] : known_) out += static_cast<int64_t>(row.nbytes());
  return out;
}

}  // namespace asr
