// Gradients against central differences in double, and the two implementations against each other on shapes and
// options that no case has.
#include <random>

#include "ops/cuda_tensors.h"
#include "tests/support/files.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

std::vector<Assignment> random_choices(std::mt19937& random) {
  const std::vector<std::vector<std::string>> choices = {
      {"eps_mode=add", "eps_mode=clamp"},
      {"token_norm=yes", "token_norm=no"},
      {"frequency=raw", "frequency=centered"},
      {"bin_edge=left", "bin_edge=right"},
      {"dc=keep", "dc=drop"},
      {"bin_statistic=sum", "bin_statistic=mean"},
      {"peak_dc=include", "peak_dc=exclude"},
      {"peak_power=raw", "peak_power=fraction"},
      {"fft_norm=backward", "fft_norm=ortho"},
      {"second_moment=std", "second_moment=variance"},
      {"mahalanobis=mean", "mahalanobis=mean"},
      {"confidence=gradient", "confidence=detached", "confidence=one"},
      {"unseen_skills=skip", "unseen_skills=renormalize"},
      {"kl=half", "kl=sum"},
      {"radial_bins=8", "radial_bins=5", "radial_bins=1"},
      {"angular_bins=8", "angular_bins=7", "angular_bins=1"}};
  std::vector<Assignment> out;
  for (const auto& list : choices) out.push_back(parse_assignment("spectral." + list[random() % list.size()], "test"));
  return out;
}

struct Problem {
  Options options;
  torch::Tensor attention, weights, posterior;
  PrototypeTensors prototypes;

  Problem(const std::vector<int64_t>& shape, const Options& o) : options(o) {
    attention = random_attention(shape);
    auto functional = torch::rand({shape[0], shape[3]}).gt(0.4), valid = torch::rand({shape[0], shape[3]}).gt(0.2);
    valid.select(1, 0).fill_(true);
    functional[0].fill_(false);  // the first sample falls back to all its valid tokens
    weights = token_weights(functional, valid);
    posterior = torch::randn({shape[0], 4}, at::kDouble).softmax(-1);
    prototypes = random_prototypes(3, o.spectral);
  }
  torch::Tensor descriptor(const torch::Tensor& at, Implementation implementation) const {
    return SpectralEncoder(at.size(4), at.size(5), options.spectral, implementation).descriptor(at, weights);
  }
  LossTerms loss(const torch::Tensor& at, Implementation implementation) const {
    return SpectralLoss(prototypes, options, at.options(), implementation)(descriptor(at, implementation),
                                                                           posterior.to(at.dtype()));
  }
};

double largest(const torch::Tensor& x) {
  return x.detach().abs().max().item<double>();
}

const std::vector<std::vector<int64_t>> kShapes = {
    {2, 2, 2, 3, 4, 6},   {1, 1, 1, 1, 2, 2},  {2, 1, 3, 2, 1, 9},   {2, 2, 1, 3, 8, 1}, {2, 1, 2, 5, 7, 5},
    {1, 2, 2, 2, 16, 17}, {3, 1, 1, 4, 3, 24}, {1, 1, 2, 2, 33, 10}, {3, 2, 3, 2, 4, 4}, {5, 3, 3, 3, 5, 3}};

// Small maps are computed side by side: what is wrong with one must not reach its neighbours.
TEST(Descriptor, ANanInOneMapStaysInItsSample) {
  torch::manual_seed(4);
  for (const auto type : {at::kFloat, at::kDouble}) {
    const Problem problem({3, 1, 3, 2, 4, 4}, resolve_options("sound", {}));
    const SpectralEncoder encoder(4, 4, problem.options.spectral, Implementation::fused);
    const auto whole = problem.attention.to(type).requires_grad_();
    const auto spoilt = whole.detach().clone();
    spoilt[1][0][2].fill_(std::nan(""));
    spoilt.requires_grad_();
    const auto expected = encoder.descriptor(whole, problem.weights),
               found = encoder.descriptor(spoilt, problem.weights);
    const auto right = gradients(expected.square().sum(), {whole})[0],
               grad = gradients(found.square().sum(), {spoilt})[0];
    EXPECT_TRUE(found[1].isnan().any().item<bool>());
    for (const int64_t sample : {0, 2}) {
      EXPECT_TRUE(found[sample].equal(expected[sample])) << "descriptor of sample " << sample;
      EXPECT_TRUE(grad[sample].equal(right[sample])) << "gradient of sample " << sample;
    }
  }
}

TEST(Descriptor, ImplementationsAgreeOnRandomOptionsAndShapes) {
  std::mt19937 random(3);
  torch::manual_seed(3);
  for (int round = 0; round < 12; ++round)
    for (const auto& shape : kShapes) {
      const Problem problem(shape, resolve_options("sound", random_choices(random)));
      const auto a = problem.attention.clone().requires_grad_(), b = problem.attention.clone().requires_grad_();
      const auto reference = problem.loss(a, Implementation::reference), fused = problem.loss(b, Implementation::fused);
      Options shown = problem.options;
      SCOPED_TRACE(cat("shape ", at::IntArrayRef(shape), " ", shown.table().manifest().dump()));
      expect_close(fused.loss, reference.loss, 1e-10, "loss");
      expect_close(fused.per_sample, reference.per_sample, 1e-10, "per sample");
      const auto found = gradients(fused.loss, {b})[0], expected = gradients(reference.loss, {a})[0];
      // With one bin a spectrum is constant and its gradient is rounding alone: those are compared absolutely.
      const double scale =
          std::max(expected.abs().max().item<double>(), 1e-6 * std::abs(reference.loss.item<double>()));
      EXPECT_LE((found - expected).abs().max().item<double>(), 1e-8 * scale) << "gradient";
    }
}

// The CUDA kernels in single precision against the plain form in double. The largest errors are printed, for whoever
// wants to know more than that they are small.
TEST(Descriptor, CudaKernelsAgreeOnRandomOptionsAndShapes) {
  const auto device = kernel_device();
  if (!device) GTEST_SKIP() << "no CUDA kernels here";
  std::mt19937 random(7);
  torch::manual_seed(7);
  auto shapes = kShapes;
  shapes.push_back({2, 4, 8, 8, 24, 24});
  const int rounds = device->is_cpu() ? 2 : 6;  // a CPU does this slowly
  double descriptor_error = 0, loss_error = 0, gradient_error = 0;
  for (int round = 0; round < rounds; ++round)
    for (const auto& shape : shapes) {
      const Problem problem(shape, resolve_options("sound", random_choices(random)));
      const auto stored = problem.attention.to(at::kFloat);
      const auto here = stored.to(at::kDouble).requires_grad_(), there = stored.to(*device).clone().requires_grad_();
      const auto expected = problem.loss(here, Implementation::reference);
      Problem moved = problem;
      moved.weights = problem.weights.to(*device);
      moved.posterior = problem.posterior.to(*device);
      const auto found = moved.loss(there, Implementation::automatic);
      Options shown = problem.options;
      SCOPED_TRACE(cat("shape ", at::IntArrayRef(shape), " ", shown.table().manifest().dump()));
      const double loss = expected.loss.item<double>();
      EXPECT_NEAR(found.loss.item<double>(), loss, 2e-5 * std::abs(loss));
      loss_error = std::max(loss_error, std::abs(found.loss.item<double>() - loss) / std::abs(loss));
      const auto plain = problem.descriptor(here, Implementation::reference);
      const auto seen = moved.descriptor(there, Implementation::automatic).cpu().to(at::kDouble);
      descriptor_error = std::max(descriptor_error, largest(seen - plain) / largest(plain));
      const auto right = gradients(expected.loss, {here})[0], grad = gradients(found.loss, {there})[0];
      const double scale = std::max(right.abs().max().item<double>(), 1e-3 * std::abs(loss));
      EXPECT_LE(largest(grad.cpu().to(at::kDouble) - right), 1e-4 * scale) << "gradient";
      gradient_error = std::max(gradient_error, largest(grad.cpu().to(at::kDouble) - right) / scale);
      EXPECT_TRUE(gradients(moved.loss(there, Implementation::automatic).loss, {there})[0].equal(grad)) << "twice";
    }
  std::cout << "descriptor, loss, gradient: " << descriptor_error << ", " << loss_error << ", " << gradient_error
            << " off\n";
}

// Central differences of fourth order. With confidence=detached the weight must not move, so those use `one`.
TEST(Descriptor, CentralDifferences) {
  std::mt19937 random(5);
  torch::manual_seed(5);
  for (const auto& shape : std::vector<std::vector<int64_t>>{
           {2, 1, 2, 2, 4, 5}, {1, 2, 2, 3, 5, 4}, {2, 1, 1, 2, 1, 6}, {1, 1, 1, 2, 7, 1}})
    for (int round = 0; round < 6; ++round) {
      auto choices = random_choices(random);
      choices.push_back({"spectral.confidence", round % 2 ? "gradient" : "one", "test"});
      const Problem problem(shape, resolve_options("sound", choices));
      for (auto implementation : {Implementation::reference, Implementation::fused}) {
        const auto x = problem.attention.clone().requires_grad_();
        const auto gradient = gradients(problem.loss(x, implementation).loss, {x})[0].flatten();
        const double scale = gradient.abs().max().item<double>(), h = 2e-6;
        for (int sample = 0; sample < 20; ++sample) {
          const int64_t i = static_cast<int64_t>(random()) % x.numel();
          const auto value = [&](double step) {
            auto moved = problem.attention.clone();
            moved.flatten()[i] += step;
            at::NoGradGuard no_grad;
            return problem.loss(moved, implementation).loss.item<double>();
          };
          const double slope = (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h);
          EXPECT_NEAR(slope, gradient[i].item<double>(), 2e-6 * scale + 1e-9)
              << enum_name(implementation) << " entry " << i;
        }
      }
    }
}

TEST(Descriptor, StridedInputNeedsNoCopyAndGivesTheSameBits) {
  torch::manual_seed(6);
  Options options;
  const auto wide = random_attention({3, 2, 4, 6, 5, 8}, at::kFloat);
  const auto strided =
      wide.slice(0, 0, 3, 2).slice(2, 1, 4).slice(3, 0, 6, 2);  // gaps between samples, heads and tokens
  ASSERT_FALSE(strided.is_contiguous());
  const auto weights = token_weights(torch::ones({2, 3}), torch::ones({2, 3}));
  const SpectralEncoder encoder(5, 8, options.spectral, Implementation::fused);
  EXPECT_TRUE(at::equal(encoder.descriptor(strided, weights), encoder.descriptor(strided.contiguous(), weights)));
  const auto permuted = random_attention({2, 2, 2, 3, 8, 5}, at::kFloat).transpose(4, 5);
  EXPECT_TRUE(at::equal(encoder.descriptor(permuted, weights), encoder.descriptor(permuted.contiguous(), weights)));
}

TEST(Descriptor, BitsDoNotDependOnThreads) {
  torch::manual_seed(7);
  Options options;
  const Problem problem({4, 2, 8, 3, 8, 8}, options);
  std::vector<torch::Tensor> results;
  const int before = runtime_info().threads;
  for (int threads : {1, 2, 3}) {
    set_compute_threads(threads);
    const auto x = problem.attention.to(at::kFloat).requires_grad_();
    const auto loss = problem.loss(x, Implementation::fused).loss;
    results.push_back(at::cat({loss.detach().view({1}), gradients(loss, {x})[0].flatten()}));
  }
  set_compute_threads(before);
  EXPECT_TRUE(at::equal(results[0], results[1]));
  EXPECT_TRUE(at::equal(results[0], results[2]));
}

TEST(Descriptor, UnusedTokensAreNeverRead) {
  torch::manual_seed(8);
  Options options;
  auto attention = random_attention({1, 1, 2, 3, 4, 4}, at::kFloat);
  attention.select(3, 1).fill_(NAN);
  const auto weights = token_weights(torch::tensor({{1.0, 0.0, 1.0}}), torch::ones({1, 3}));
  const auto x = attention.requires_grad_();
  for (auto implementation : {Implementation::reference, Implementation::fused}) {
    const SpectralEncoder encoder(4, 4, options.spectral, implementation);
    const auto descriptor = encoder.descriptor(x, weights);
    EXPECT_TRUE(descriptor.isfinite().all().item<bool>());
    const auto grad = gradients(descriptor.sum(), {x})[0];
    EXPECT_TRUE(grad.isfinite().all().item<bool>() && grad.select(3, 1).eq(0).all().item<bool>());
  }
}

// Exactly, whatever the CPU and the BLAS: matrix products round some rows differently, so many numbers of heads.
TEST(Descriptor, EqualHeadsHaveNoSpreadAndNoGradientFromIt) {
  torch::manual_seed(10);
  for (const auto type : {at::kFloat, at::kDouble})
    for (const char* form : {"std", "variance"})
      for (int64_t heads : {1, 2, 3, 5, 7, 9, 17}) {
        const auto options = resolve_options("sound", {{"spectral.second_moment", form, "test"}}).spectral;
        auto attention = random_attention({2, 1, 1, 3, 5, 6}, type).expand({2, 1, heads, 3, 5, 6}).contiguous();
        const auto weights = token_weights(torch::tensor({{1, 1, 0}, {0, 1, 1}}), torch::ones({2, 3}));
        attention[0].select(2, 2).uniform_();  // heads may differ on a token that is not used
        for (auto implementation : {Implementation::reference, Implementation::fused}) {
          const auto x = attention.clone().requires_grad_();
          const SpectralEncoder encoder(5, 6, options, implementation);
          const auto spread = encoder.descriptor(x, weights).narrow(1, 27, 27);
          const auto what = cat(heads, " heads, ", enum_name(implementation), ", ", form, ", ", at::toString(type));
          EXPECT_TRUE(spread.eq(0).all().item<bool>()) << what;
          EXPECT_TRUE(gradients(spread.sum(), {x})[0].eq(0).all().item<bool>()) << what;
        }
      }
}

// Heads of which some are equal have a spread, and each of them its part of the gradient.
TEST(Descriptor, SomeEqualHeadsKeepTheirGradients) {
  torch::manual_seed(14);
  auto attention = random_attention({2, 1, 4, 2, 5, 6});
  attention.select(2, 1).copy_(attention.select(2, 0));
  attention.select(2, 3).copy_(attention.select(2, 0));
  const auto weights = token_weights(torch::ones({2, 2}), torch::ones({2, 2}));
  std::vector<torch::Tensor> found;
  for (auto implementation : {Implementation::reference, Implementation::fused}) {
    const auto x = attention.clone().requires_grad_();
    const auto spread = SpectralEncoder(5, 6, {}, implementation).descriptor(x, weights).narrow(1, 27, 27);
    EXPECT_GT(spread.abs().max().item<double>(), 0);
    found.push_back(gradients(spread.sum(), {x})[0]);
    for (int64_t head : {1, 3})
      expect_close(found.back().select(2, head), found.back().select(2, 0), 1e-9, "equal heads");
    EXPECT_GT(found.back().select(2, 1).abs().max().item<double>(), 0);
  }
  expect_close(found[1], found[0], 1e-9, "fused");
}

TEST(Descriptor, LargeGradientsAreWrittenPastTheCacheWithTheSameValues) {
  torch::manual_seed(9);
  Options options;
  // 9.4 MB: above the limit at which the kernel streams its stores; one sample alone is below it.
  const Problem problem({8, 2, 8, 8, 24, 24}, options);
  const auto all = problem.attention.to(at::kFloat).requires_grad_();
  const SpectralEncoder encoder(24, 24, options.spectral, Implementation::fused);
  const auto together = gradients(encoder.descriptor(all, problem.weights).square().sum(), {all})[0];
  for (int64_t b : {0, 7}) {
    const auto one = all.detach().slice(0, b, b + 1).clone().requires_grad_();
    const auto alone = gradients(encoder.descriptor(one, problem.weights.slice(0, b, b + 1)).square().sum(), {one})[0];
    EXPECT_TRUE(at::equal(alone, together.slice(0, b, b + 1)));
  }
}

// What the forward pass leaves of small maps is used up by the first gradient; a second one computes it again.
TEST(Descriptor, KeptAndComputedAgainGiveTheSameGradient) {
  Options options;
  const SpectralEncoder encoder(5, 4, options.spectral);
  const auto x = random_attention({2, 2, 3, 4, 5, 4}).to(at::kFloat).requires_grad_();
  const auto weights = token_weights(torch::ones({2, 4}), torch::ones({2, 4}));
  const auto loss = encoder.descriptor(x, weights).square().sum();
  loss.backward({}, /*retain_graph=*/true);
  const auto first = x.grad().clone();
  x.mutable_grad().zero_();
  loss.backward();
  EXPECT_TRUE(x.grad().equal(first));
}

TEST(Descriptor, BadInputIsNamed) {
  Options options;
  const SpectralEncoder encoder(4, 5, options.spectral);
  const auto weights = token_weights(torch::ones({2, 3}), torch::ones({2, 3}));
  const auto good = random_attention({2, 1, 2, 3, 4, 5});
  const auto message = [&](const torch::Tensor& attention) {
    return error_of([&] { encoder.descriptor(attention, weights); });
  };
  EXPECT_CONTAINS(message(good.squeeze(1)), "expected [B, L, heads, T, H, W]");
  EXPECT_CONTAINS(message(random_attention({2, 1, 2, 3, 5, 4})), "grid is 5x4");
  EXPECT_CONTAINS(message(random_attention({2, 1, 2, 4, 4, 5})), "token weights");
  EXPECT_CONTAINS(message(good.to(at::kLong)), "float32 or float64");
  EXPECT_CONTAINS(message(good.slice(0, 0, 0)), "empty");
  EXPECT_CONTAINS(error_of([] {
                    token_weights(torch::ones({2, 3}), torch::tensor({{1, 1, 1}, {0, 0, 0}}));
                  }),
                  "sample 1 has no valid token");
  EXPECT_CONTAINS(error_of([] { token_weights(torch::ones({2, 3}), torch::ones({2, 4})); }), "must both be [B, T]");
  EXPECT_CONTAINS(error_of([] { make_frequency_plane(1, 1, {}); }), "1x1");
  EXPECT_CONTAINS(error_of([] { make_frequency_plane(0, 4, {}); }), "0x4");

  auto bad = good.clone();
  bad[1][0][1][2][3][4] = NAN;
  EXPECT_CONTAINS(error_of([&] { check_attention(bad, weights); }), "sample 1, layer 0, head 1 holds NaN");
  bad = good.clone();
  bad[0][0][1][0][0][0] = -0.1;
  EXPECT_CONTAINS(error_of([&] { check_attention(bad, weights); }), "negative");
  bad = good.clone();
  bad[0][0][0].fill_(0);
  EXPECT_CONTAINS(error_of([&] { check_attention(bad, weights); }), "all zero");
}

}  // namespace
}  // namespace asr
