// Our CUDA kernels against the plain forms on the CPU in double: values and gradients, in every type that they take.
// Without a GPU test_cuda_on_host runs them, where the kernels are plain C++.
#include <algorithm>
#include <iostream>

#include "ops/adapted_linear.h"
#include "ops/cuda_tensors.h"
#include "ops/gated_silu.h"
#include "ops/keyed_dropout.h"
#include "ops/quick_gelu.h"
#include "ops/rms_norm.h"
#include "ops/rotate.h"
#include "tests/support/files.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

using Tensors = std::vector<torch::Tensor>;
using Operator = std::function<Tensors(const Tensors&)>;

// A rounding of the stored type for each of a few operations, relative to the largest entry.
double tolerance(at::ScalarType type) {
  if (type == at::kFloat) return 2e-5;
  return type == at::kHalf ? 4e-3 : 3e-2;
}

// The largest error of an operator, relative to the largest entry, for whoever wants to know more than that it is
// small.
void print_error(const std::string& what, at::ScalarType type, double output, double gradient) {
  std::cout << what << " in " << at::toString(type) << ": outputs " << output << ", gradients " << gradient << " off\n";
}

double relative_error(const torch::Tensor& found, const torch::Tensor& expected) {
  const auto away = (found.detach().cpu().to(at::kDouble) - expected.detach()).abs().max().item<double>();
  return away / std::max(1e-30, expected.detach().abs().max().item<double>());
}

void expect_on_gpu(const Operator& fast, const Operator& plain, const Tensors& inputs, const std::string& what,
                   const std::vector<at::ScalarType>& types = {at::kFloat, at::kHalf, at::kBFloat16}) {
  for (const auto type : types) {
    Tensors there, here, moved_there, moved_here;
    for (const auto& x : inputs) {
      const auto stored = x.detach().to(type);  // both sides begin with the same numbers
      there.push_back(stored.to(*kernel_device()).clone().requires_grad_(x.requires_grad()));
      here.push_back(stored.to(at::kDouble).requires_grad_(x.requires_grad()));
      if (!x.requires_grad()) continue;
      moved_there.push_back(there.back());
      moved_here.push_back(here.back());
    }
    const auto found = fast(there), expected = plain(here);
    torch::Tensor sum_there, sum_here;
    double output_error = 0, gradient_error = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      expect_close(found[i].cpu().to(at::kDouble), expected[i], tolerance(type), cat(what, ": output ", i));
      output_error = std::max(output_error, relative_error(found[i], expected[i]));
      auto generator = at::detail::createCPUGenerator(17 + i);
      const auto factor = at::randn(expected[i].sizes(), generator, at::CPU(at::kDouble)).to(type);
      const auto a = (found[i] * factor.to(*kernel_device())).sum(at::kFloat);
      const auto b = (expected[i] * factor.to(at::kDouble)).sum();
      sum_there = i == 0 ? a : sum_there + a;
      sum_here = i == 0 ? b : sum_here + b;
    }
    if (moved_here.empty()) continue;
    const auto grads = gradients(sum_there, moved_there), right = gradients(sum_here, moved_here);
    for (size_t i = 0; i < grads.size(); ++i) {
      expect_close(grads[i].cpu().to(at::kDouble), right[i], 2 * tolerance(type), cat(what, ": gradient ", i));
      gradient_error = std::max(gradient_error, relative_error(grads[i], right[i]));
    }
    print_error(what, type, output_error, gradient_error);
  }
}

TEST(CudaKernels, NormsAgree) {
  if (!kernel_device()) GTEST_SKIP() << "no CUDA kernels here";
  torch::manual_seed(1);
  for (const int64_t width : {64, 128, 4096, 5120}) {
    const auto x = torch::randn({3, 7, width}).requires_grad_(), added = torch::randn({3, 7, width}).requires_grad_();
    const auto weight = torch::rand({width}) + 0.5;
    expect_on_gpu([](const Tensors& in) { return Tensors{rms_norm_cuda(in[0], in[1], 1e-6)}; },
                  [](const Tensors& in) { return Tensors{rms_norm_reference(in[0], in[1], 1e-6)}; }, {x, weight},
                  cat("norm of ", width));
    expect_on_gpu(
        [](const Tensors& in) {
          const auto [sum, y] = add_rms_norm_cuda(in[0], in[1], in[2], 1e-6);
          return Tensors{sum, y};
        },
        [](const Tensors& in) {
          const auto sum = in[0] + in[1];
          return Tensors{sum, rms_norm_reference(sum, in[2], 1e-6)};
        },
        {x, added, weight}, cat("sum and norm of ", width));
  }
}

TEST(CudaKernels, RotationsAgree) {
  if (!kernel_device()) GTEST_SKIP() << "no CUDA kernels here";
  torch::manual_seed(2);
  for (const int64_t batch : {1, 2})
    for (const int64_t width : {16, 32, 128}) {
      const auto flat = torch::randn({2, 9, 3 * width}).requires_grad_();
      const auto angle = torch::rand({batch, 9, width / 2}) * 6;
      const auto heads = [&](const torch::Tensor& x) { return x.view({2, 9, 3, width}).transpose(1, 2); };
      const auto table = [](const Tensors& in) { return RotaryTable{in[1], in[2], {}, {}}; };
      expect_on_gpu([&](const Tensors& in) { return Tensors{rotate_cuda(heads(in[0]), table(in))}; },
                    [&](const Tensors& in) { return Tensors{rotate_reference(heads(in[0]), table(in))}; },
                    {flat, angle.cos(), angle.sin()}, cat("rotation of ", width));
    }
}

TEST(CudaKernels, GatesAgree) {
  if (!kernel_device()) GTEST_SKIP() << "no CUDA kernels here";
  torch::manual_seed(3);
  const auto gate = torch::randn({5, 7, 88}).mul(4).requires_grad_(), up = torch::randn({5, 7, 88}).requires_grad_();
  expect_on_gpu([](const Tensors& in) { return Tensors{gated_silu_cuda(in[0], in[1])}; },
                [](const Tensors& in) { return Tensors{gated_silu_reference(in[0], in[1])}; }, {gate, up}, "gate");
}

TEST(CudaKernels, QuickGelusAgree) {
  if (!kernel_device()) GTEST_SKIP() << "no CUDA kernels here";
  torch::manual_seed(5);
  expect_on_gpu([](const Tensors& in) { return Tensors{quick_gelu_cuda(in[0])}; },
                [](const Tensors& in) { return Tensors{quick_gelu_reference(in[0])}; },
                {torch::randn({5, 7, 88}).mul(3).requires_grad_()}, "quick GELU");
}

// A view may begin anywhere, and so may a gradient.
TEST(CudaKernels, ViewsThatBeginBetweenVectorsAgree) {
  if (!kernel_device()) GTEST_SKIP() << "no CUDA kernels here";
  torch::manual_seed(6);
  const auto view = [](const torch::Tensor& x) { return x.narrow(0, 1, 96); };
  const auto a = torch::randn({97}).requires_grad_(), b = torch::randn({97}).requires_grad_();
  expect_on_gpu([&](const Tensors& in) { return Tensors{quick_gelu_cuda(view(in[0]))}; },
                [&](const Tensors& in) { return Tensors{quick_gelu_reference(view(in[0]))}; }, {a}, "view of GELU");
  expect_on_gpu([&](const Tensors& in) { return Tensors{gated_silu_cuda(view(in[0]), view(in[1]))}; },
                [&](const Tensors& in) { return Tensors{gated_silu_reference(view(in[0]), view(in[1]))}; }, {a, b},
                "view of a gate");
  const DropoutKey key{0.25, 5, {}};
  expect_on_gpu([&](const Tensors& in) { return Tensors{keyed_dropout_cuda(view(in[0]), key)}; },
                [&](const Tensors& in) { return Tensors{keyed_dropout_reference(view(in[0]), key)}; }, {a},
                "view of a dropout");
  // A gradient is such a view where the result was joined to one number.
  const auto behind_one = [](const torch::Tensor& y) {
    return Tensors{at::cat({torch::ones({1}, y.options()), y.flatten()})};
  };
  const auto rows = [&](const torch::Tensor& x) { return view(x).view({4, 24}); };
  const auto weight = torch::rand({24}) + 0.5;
  expect_on_gpu([&](const Tensors& in) { return behind_one(rms_norm_cuda(rows(in[0]), in[1], 1e-6)); },
                [&](const Tensors& in) { return behind_one(rms_norm_reference(rows(in[0]), in[1], 1e-6)); },
                {a, weight}, "norm of a view");
  const auto summed = [&](const Tensors& in, const auto& norm) {
    const auto [sum, y] = norm(rows(in[0]), rows(in[1]), in[2]);
    return Tensors{behind_one(sum)[0], behind_one(y)[0]};
  };
  expect_on_gpu(
      [&](const Tensors& in) {
        return summed(
            in, [](const auto& x, const auto& more, const auto& w) { return add_rms_norm_cuda(x, more, w, 1e-6); });
      },
      [&](const Tensors& in) {
        return summed(in, [](const auto& x, const auto& more, const auto& w) {
          return std::make_pair(x + more, rms_norm_reference(x + more, w, 1e-6));
        });
      },
      {a, b, weight}, "sum and norm of views");
  const auto heads = [&](const torch::Tensor& x) { return view(x).view({1, 2, 3, 16}); };
  const auto angle = torch::rand({1, 3, 8}) * 6;
  const auto table = [](const Tensors& in) { return RotaryTable{in[1], in[2], {}, {}}; };
  expect_on_gpu([&](const Tensors& in) { return behind_one(rotate_cuda(heads(in[0]), table(in))); },
                [&](const Tensors& in) { return behind_one(rotate_reference(heads(in[0]), table(in))); },
                {a, angle.cos(), angle.sin()}, "rotation of a view");
}

TEST(CudaKernels, RowsThatLeaveNoRoomForTheRestOfABlockAreLeftToTheLibrary) {
  const auto fits = [](int64_t width, at::ScalarType type) {
    return norm_fits_cuda(torch::zeros({1, width}, type), torch::ones({width}, type));
  };
  EXPECT_TRUE(fits(12032, at::kFloat));
  EXPECT_FALSE(fits(12288, at::kFloat));  // 48 KB, which a block's own sums would exceed
  EXPECT_TRUE(fits(24064, at::kHalf));
  EXPECT_FALSE(fits(24576, at::kHalf));
}

// Of ranks that the kernels behind a dropout take; two maps share x, and so its gradient.
TEST(CudaKernels, AdaptedLinearsWithDropoutAgree) {
  if (!kernel_device()) GTEST_SKIP() << "no CUDA kernels here";
  torch::manual_seed(4);
  std::vector<at::ScalarType> types = {at::kFloat, at::kBFloat16};
  if (kernel_device()->is_cuda()) types.push_back(at::kHalf);  // a CPU's library has no products of half numbers
  for (const int64_t rank : {8, 16, 24, 40, 56, 64}) {
    const auto x = torch::randn({4, 16, 64}).requires_grad_();
    Tensors inputs = {x};
    for (int map = 0; map < 2; ++map) {
      inputs.push_back(torch::randn({48, 64}) * 0.1);
      inputs.push_back((torch::randn({rank, 64}) * 0.1).requires_grad_());
      inputs.push_back(torch::randn({48, rank}).requires_grad_());
    }
    const auto map = [](const Tensors& in, size_t first, uint64_t key) {
      LowRank expert{in[first + 1], in[first + 2], 2};
      expert.dropout = DropoutKey{0.25, key, {3, 0, 9, 1}};
      return LinearMap{in[first], {}, {expert}};
    };
    expect_on_gpu(
        [&](const Tensors& in) {
          return adapted_linears(in[0], {map(in, 1, 77), map(in, 4, 78)});
        },
        [&](const Tensors& in) {
          return Tensors{adapted_linear_reference(in[0], map(in, 1, 77)),
                         adapted_linear_reference(in[0], map(in, 4, 78))};
        },
        inputs, cat("adapted linears of rank ", rank), types);
  }
}

}  // namespace
}  // namespace asr
