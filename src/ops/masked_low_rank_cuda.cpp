#include "ops/masked_low_rank.h"

#include <algorithm>
#include <cmath>

#include "ops/cuda_tensors.h"

namespace asr {
namespace {

// What the kernels hold in their registers: strips of 8 or 16 of an expert's rank, which all have its masks.
std::vector<MaskedLowRank> strips_of(const std::vector<MaskedLowRank>& experts) {
  std::vector<MaskedLowRank> out;
  for (const auto& expert : experts) {
    const int64_t rank = expert.a.size(0), strip = rank % 16 == 0 ? 16 : 8;
    for (int64_t from = 0; from < rank; from += strip) {
      out.push_back(expert);
      out.back().middle = expert.middle.narrow(1, from, strip);
      out.back().a = expert.a.narrow(0, from, strip);
    }
  }
  return out;
}

// Calls work for as many strips at a time as the kernels take.
template <class Work>
void in_groups(const torch::Tensor& x, const std::vector<MaskedLowRank>& experts, const Work& work) {
  const auto& given = experts[0].key.positions;
  torch::Tensor positions;
  if (!given.empty()) positions = positions_on(x.device(), experts[0].key);
  const auto strips = strips_of(experts);
  for (size_t begin = 0; begin < strips.size(); begin += cuda::kMostMasked) {
    cuda::MaskedExperts of{};
    of.rank = static_cast<int>(strips[0].a.size(0));
    of.samples = std::max<int64_t>(1, static_cast<int64_t>(given.size()));
    if (positions.defined()) of.positions = positions.data_ptr<int64_t>();
    for (size_t k = begin; k < std::min(strips.size(), begin + cuda::kMostMasked); ++k) {
      const auto& strip = strips[k];
      of.of[of.count++] = {strip.middle.data_ptr(), static_cast<int>(strip.middle.stride(0)),
                           strip.a.data_ptr(),      static_cast<float>(strip.scale),
                           strip.key.key,           static_cast<uint32_t>(std::lround(strip.key.probability * 256))};
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
