// Products behind a dropout and their gradients: against dropped numbers that are formed, on every device, for ranks
// that the kernels take and one that they do not, for fewer and more experts than a kernel takes at a time.
#include "ops/masked_low_rank.h"
#include "ops/quick_gelu.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

struct Example {
  torch::Tensor x;
  std::vector<MaskedLowRank> experts;
};

Example example(int64_t rank, int64_t experts, int64_t rows = 36, int64_t width = 104) {
  torch::manual_seed(22);
  Example out{torch::randn({rows, width}), {}};
  for (int64_t k = 0; k < experts; ++k)
    out.experts.push_back({torch::randn({rows, rank}),
                           torch::randn({rank, width}),
                           0.5 + double(k),
                           {k == 0 ? 0.25 : 0.5, uint64_t(3 + k), {2, 0, 5}}});
  return out;
}

// On another device, in another type; a float32 gradient of A where sums are asked for.
Example moved(const Example& from, at::Device device, at::ScalarType type, bool sums) {
  Example out{from.x.to(device).to(type).clone(), from.experts};
  for (auto& expert : out.experts) {
    expert.middle = expert.middle.to(device).to(type);
    expert.a = sums ? torch::empty(expert.a.sizes(), at::TensorOptions(device).dtype(at::kFloat))
                    : expert.a.to(device).to(type);
  }
  return out;
}

// Of one strip or several, of 8 or of 16: ranks 40 and 56 are odd numbers of strips of 8, 64 is four strips of 16.
template <class Check>
void everywhere(const Check& check) {
  for (const int64_t rank : {3, 8, 16, 24, 40, 56, 64})
    for (const int64_t experts : rank <= 16 ? std::vector<int64_t>{1, 2, 3, 4} : std::vector<int64_t>{1, 3})
      for (const auto& device : devices())
        for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf})
          if (type == at::kFloat || device.is_cuda() || (device == kernel_device() && rank > 3))
            check(example(rank, experts), device, type, type == at::kFloat ? 1e-5 : 2e-2,
                  cat(experts, " of rank ", rank, " on ", device.str(), " in ", at::toString(type)));
  // More rows and columns than a block of a kernel takes at a time.
  if (kernel_device())
    for (const int64_t rank : {24, 40, 56, 64})
      check(example(rank, 1, 132, 136), *kernel_device(), at::kBFloat16, 2e-2, cat("132 rows, rank ", rank));
  if (kernel_device() && kernel_device()->is_cuda())
    for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{4224, 104}, {300, 4096}, {20001, 64}})
      check(example(16, 2, rows, width), at::kCUDA, at::kBFloat16, 2e-2, cat(rows, " rows of ", width));
}

TEST(MaskedLowRank, MiddlesAreProductsOfDroppedNumbers) {
  everywhere([](const Example& e, at::Device device, at::ScalarType type, double tolerance, const std::string& what) {
    const auto there = moved(e, device, type, false);
    masked_middles(there.x, there.experts);
    for (size_t k = 0; k < e.experts.size(); ++k)
      expect_close(there.experts[k].middle.cpu().to(at::kFloat),
                   keyed_dropout_cpu(e.x, e.experts[k].key).mm(e.experts[k].a.t()), tolerance, what);
  });
}

TEST(MaskedLowRank, PullsAreDroppedProducts) {
  everywhere([](const Example& e, at::Device device, at::ScalarType type, double tolerance, const std::string& what) {
    const auto there = moved(e, device, type, false);
    add_masked_pulls(there.x, there.experts);
    auto expected = e.x.clone();
    for (const auto& expert : e.experts)
      expected += keyed_dropout_cpu(expert.middle.mm(expert.a) * expert.scale, expert.key);
    expect_close(there.x.cpu().to(at::kFloat), expected, tolerance, what);
  });
}

TEST(MaskedLowRank, SumsAreProductsWithDroppedNumbers) {
  everywhere([](const Example& e, at::Device device, at::ScalarType type, double tolerance, const std::string& what) {
    const auto there = moved(e, device, type, true);
    masked_sums(there.x, there.experts);
    for (size_t k = 0; k < e.experts.size(); ++k) {
      const auto& expert = e.experts[k];
      expect_close(there.experts[k].a.cpu(), expert.middle.t().mm(keyed_dropout_cpu(e.x, expert.key)) * expert.scale,
                   tolerance, what);
    }
  });
}

// What a pass has put on the device serves all its calls: shown by other places than those that the key names.
TEST(MaskedLowRank, PlacesOnTheDeviceAreTheOnesThatCount) {
  if (!kernel_device()) GTEST_SKIP() << "no CUDA kernels here";
  const auto device = *kernel_device();
  const auto with = [&](const std::vector<int64_t>& named, const torch::Tensor& there) {
    auto given = moved(example(16, 2), device, at::kBFloat16, false);
    for (auto& expert : given.experts) {
      expert.key.positions = named;
      expert.key.positions_there = there;
    }
    masked_middles(given.x, given.experts);
    add_masked_pulls(given.x, given.experts);
    return at::cat({given.x.flatten(), given.experts[0].middle.flatten(), given.experts[1].middle.flatten(),
                    keyed_dropout_cuda(given.x, given.experts[0].key).flatten()});
  };
  const auto there = torch::tensor({7, 1, 3}, at::kLong).to(device);
  EXPECT_TRUE(with({7, 1, 3}, there).equal(with({7, 1, 3}, {})));
  EXPECT_TRUE(with({2, 0, 5}, there).equal(with({7, 1, 3}, {})));
  EXPECT_FALSE(with({2, 0, 5}, {}).equal(with({7, 1, 3}, {})));
}

TEST(QuickGelu, IsItsFormulaWithItsGradient) {
  const auto x = torch::linspace(-6, 6, 96, at::kDouble).requires_grad_();
  const auto y = x * (x * 1.702).sigmoid();
  const auto slope = gradients(y.sum(), {x})[0];
  for (const auto& device : devices())
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      const auto there = x.detach().to(device).to(type).requires_grad_();
      const auto found = quick_gelu(there);
      const double tolerance = type == at::kFloat ? 1e-6 : 2e-2;
      expect_close(found.cpu().to(at::kDouble), y, tolerance, device.str());
      expect_close(gradients(found.sum(), {there})[0].cpu().to(at::kDouble), slope, tolerance, device.str());
    }
}

}  // namespace
}  // namespace asr
