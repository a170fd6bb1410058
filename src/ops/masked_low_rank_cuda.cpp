#include "ops/masked_low_rank.h"

#include <algorithm>
#include <cmath>

#include "ops/cuda_tensors.h"

namespace asr {
namespace {

// Calls work for as many experts at a time as the kernels take.
template <class Work>
void in_groups(const torch::Tensor& x, const std::vector<MaskedLowRank>& experts, const Work& work) {
  const auto& given = experts[0].key.positions;
  torch::Tensor positions;
  if (!given.empty()) positions = torch::tensor(given, at::kLong).to(x.device(), /*non_blocking=*/true);
  for (size_t begin = 0; begin < experts.size(); begin += cuda::kMostMasked) {
    cuda::MaskedExperts of{};
    of.rank = static_cast<int>(experts[0].a.size(0));
    of.samples = std::max<int64_t>(1, static_cast<int64_t>(given.size()));
    if (positions.defined()) of.positions = positions.data_ptr<int64_t>();
    for (size_t k = begin; k < std::min(experts.size(), begin + cuda::kMostMasked); ++k) {
      const auto& expert = experts[k];
      of.of[of.count++] = {expert.middle.data_ptr(), expert.a.data_ptr(), static_cast<float>(expert.scale),
                           expert.key.key, static_cast<uint32_t>(std::lround(expert.key.probability * 256))};
    }
    work(cuda::Rows{x.size(0), x.size(1), number_of(x)}, of);
  }
}

}  // namespace

void masked_middles_cuda(const torch::Tensor& x, const std::vector<MaskedLowRank>& experts) {
  in_groups(x, experts, [&](const cuda::Rows& rows, const cuda::MaskedExperts& of) {
    cuda::masked_middles(rows, x.data_ptr(), of, stream_of(x));
  });
}

void add_masked_pulls_cuda(const torch::Tensor& dx, const std::vector<MaskedLowRank>& experts) {
  in_groups(dx, experts, [&](const cuda::Rows& rows, const cuda::MaskedExperts& of) {
    cuda::add_masked_pulls(rows, dx.data_ptr(), of, stream_of(dx));
  });
}

void masked_sums_cuda(const torch::Tensor& x, const std::vector<MaskedLowRank>& experts) {
  in_groups(x, experts, [&](const cuda::Rows& rows, const cuda::MaskedExperts& of) {
    const auto room = torch::empty({cuda::masked_sum_room(rows, of)}, x.options().dtype(at::kFloat));
    cuda::masked_sums(rows, x.data_ptr(), of, room.data_ptr<float>(), stream_of(x));
  });
}

}  // namespace asr
