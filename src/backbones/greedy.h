// Greedy decoding with a key-value cache, as all backbones share it. Rows that have ended leave the batch, so that a
// few long answers do not keep every other row computing.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "nn/linear.h"

namespace asr {

// A pass that answers: what gates made of each prompt and what they were given a sample goes with its row.
class AnsweringPass {
 public:
  explicit AnsweringPass(const Pass& pass);
  AnsweringPass(const AnsweringPass&) = delete;
  AnsweringPass& operator=(const AnsweringPass&) = delete;

  const Pass& pass() const { return pass_; }
  void keep_rows(const torch::Tensor& index);

 private:
  Pass pass_;
  GivenWeights given_;
  GateLatch latch_;
};

struct GreedyLoop {
  std::function<torch::Tensor(const torch::Tensor& state)> logits;  // [R, width] -> [R, vocabulary]
  // The states after one more token a row: ids and positions [R, 1] -> [R, 1, width].
  std::function<torch::Tensor(const torch::Tensor& ids, const torch::Tensor& positions)> advance;
  std::function<void(const torch::Tensor& rows)> keep_rows;  // of everything that advance() holds a row
  std::vector<int64_t> end_tokens;
  int64_t limit = 0;   // tokens
  int64_t filler = 0;  // fills answers where asked
  bool fill = false;   // answers with their end token, filled up to the limit; else cut before it
  // Ended rows leave once at most this part of the batch goes on: 1 at once, 0 never. Answers are the same.
  double leave_at = 1;
};

// A GPU computes a few rows more in the time of one, but copies what stays when others leave.
double rows_leave_at(bool leaving, at::Device device);

// `hidden` [B, T, width] ends with the state of each prompt's last token; `position` [B, 1] is that of the next one.
std::vector<std::vector<int64_t>> decode_greedily(const GreedyLoop& loop, torch::Tensor hidden, torch::Tensor position);

}  // namespace asr
