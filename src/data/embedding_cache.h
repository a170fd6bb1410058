// Embeddings of samples by something that does not change in a run (a frozen encoder), computed once a sample.
#pragma once

#include <torch/types.h>

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

namespace asr {

class EmbeddingCache {
 public:
  // The embeddings of `ids`, one below the other, on the CPU. `compute` is asked once for those not known yet, by their
  // places in `ids`, and returns a row for each of them.
  torch::Tensor get(const std::vector<std::string>& ids,
                    const std::function<torch::Tensor(const std::vector<int64_t>& missing)>& compute);
  int64_t size() const { return static_cast<int64_t>(known_.size()); }
  int64_t bytes() const;

 private:
  std::unordered_map<std::string, torch::Tensor> known_;  // [width] float32
};

}  // namespace asr
