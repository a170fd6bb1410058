#include "methods/terms/rank_pool.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/error.h"

namespace asr {
namespace {

constexpr int kLongestStream = 64;  // stages, as many as a bank has slots for
constexpr int kFullCompressions = 2;

torch::Tensor unit_rows(const torch::Tensor& rows) {
  return rows / rows.norm(2, -1, true).clamp_min(1e-12);
}

}  // namespace

StageRanks RankSchedule::at(int stage) const {
  StageRanks now{0, std::min(learnt, ranks), 0};
  int compressions = 0;
  for (int t = 1; t <= stage; ++t) {
    const int64_t all = now.past + now.fresh;
    const bool full = all + learnt > ranks;
    const bool early = compressions < kFullCompressions;
    now.drops = full ? std::min(ranks / learnt * (early ? 1 : 2), all) : 0;
    if (t == stage) break;
    compressions += full;
    const int64_t wanted = full && !early ? std::max<int64_t>(1, learnt / 2) : learnt;
    now.past = full ? all - all / now.drops : all;
    now.fresh = std::min(wanted, ranks - now.past);
  }
  return now;
}

bool RankSchedule::compressed_before(int stage) const {
  return stage > 1 && (compressed_before(stage - 1) || at(stage - 1).drops > 0);
}

int64_t RankSchedule::most_past() const {
  int64_t out = 1;
  for (int stage = 1; stage <= kLongestStream; ++stage) out = std::max(out, at(stage).past);
  return out;
}

std::vector<int64_t> without_every(int64_t drops, int64_t before, int64_t count) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i)
    if (drops == 0 || (before + i + 1) % drops != 0) out.push_back(i);
  return out;
}

torch::Tensor QueryScores::operator()(const torch::Tensor& queries, const torch::Tensor& keys) const {
  const auto cosines = [&](int64_t begin, int64_t width) {
    return unit_rows(queries.narrow(1, begin, width)).mm(unit_rows(keys.narrow(1, begin, width)).t());
  };
  return cosines(0, text) + picture * cosines(text, queries.size(1) - text);
}

torch::Tensor largest_of(const torch::Tensor& scores, int64_t wanted, RankChoice choice) {
  if (wanted <= 0) return at::zeros_like(scores);
  if (wanted >= scores.size(1)) return at::ones_like(scores);
  const auto by = choice == RankChoice::sample ? scores : scores.sum(0, true);
  const auto order = std::get<1>(at::sort(by, /*stable=*/true, 1, /*descending=*/true)).narrow(1, 0, wanted);
  return at::zeros_like(by).scatter(1, order, 1.0).expand_as(scores);
}

torch::Tensor TopDivergence::operator()(const torch::Tensor& teacher, const torch::Tensor& student,
                                        const torch::Tensor& samples) const {
  const auto [values, places] = teacher.topk(std::min(top, teacher.size(-1)), -1);
  const auto log_p = (values / temperature).log_softmax(-1);
  const auto log_q = (student.gather(-1, places) / temperature).log_softmax(-1);
  const auto each = (log_p.exp() * (log_p - log_q)).sum(-1);
  const int64_t count = samples.max().item<int64_t>() + 1;
  const auto sums = at::zeros({count}, each.options()).index_add(0, samples, each);
  const auto rows = at::zeros({count}, each.options()).index_add(0, samples, at::ones_like(each));
  return (sums / rows.clamp_min(1)).mean();
}

}  // namespace asr
