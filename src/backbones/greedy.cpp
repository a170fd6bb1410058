#include "backbones/greedy.h"

#include <algorithm>
#include <numeric>

namespace asr {

AnsweringPass::AnsweringPass(const Pass& pass) : pass_(pass) {
  if (pass.latch) latch_ = *pass.latch;
  if (pass.given) given_ = *pass.given;
  pass_.latch = &latch_;
  pass_.given = pass.given ? &given_ : nullptr;
}

void AnsweringPass::keep_rows(const torch::Tensor& index) {
  latch_.keep_rows(index);
  for (auto& [slot, weights] : given_)
    if (weights.dim() == 2 && weights.size(0) > 1) weights = weights.index_select(0, index.to(weights.device()));
}

double rows_leave_at(bool leaving, at::Device device) {
  if (!leaving) return 0;
  return device.is_cuda() ? 0.5 : 1;
}

std::vector<std::vector<int64_t>> decode_greedily(const GreedyLoop& loop, torch::Tensor hidden,
                                                  torch::Tensor position) {
  const auto& ends = loop.end_tokens;
  std::vector<std::vector<int64_t>> out(static_cast<size_t>(hidden.size(0)));
  std::vector<bool> ended(out.size(), false);
  std::vector<size_t> sample(out.size());  // of each row of the batch
  std::iota(sample.begin(), sample.end(), size_t{0});
  for (int64_t step = 0; step < loop.limit; ++step) {
    auto tokens = loop.logits(hidden.select(1, hidden.size(1) - 1)).argmax(-1);  // [R]
    const auto seen = tokens.cpu();
    const int64_t* token = seen.data_ptr<int64_t>();
    std::vector<int64_t> going;
    for (size_t row = 0; row < sample.size(); ++row) {
      const size_t s = sample[row];
      if (ended[s]) continue;  // what such a row goes on with, nobody reads
      ended[s] = std::find(ends.begin(), ends.end(), token[row]) != ends.end();
      if (!ended[s] || loop.fill) out[s].push_back(token[row]);
      if (!ended[s]) going.push_back(static_cast<int64_t>(row));
    }
    if (going.empty() || step + 1 == loop.limit) break;
    const auto most = loop.leave_at * static_cast<double>(sample.size());
    if (going.size() < sample.size() && static_cast<double>(going.size()) <= most) {
      const auto rows = torch::tensor(going, at::kLong).to(tokens.device());
      tokens = tokens.index_select(0, rows);
      position = position.index_select(0, rows);
      loop.keep_rows(rows);
      std::vector<size_t> staying;
      for (const int64_t row : going) staying.push_back(sample[static_cast<size_t>(row)]);
      sample = std::move(staying);
    }
    hidden = loop.advance(tokens.unsqueeze(1), position);
    position = position + 1;
  }
  if (loop.fill)
    for (auto& answer : out) answer.resize(static_cast<size_t>(loop.limit), loop.filler);
  return out;
}

}  // namespace asr
