// spectral.heads: kept. Every layer-head's own numbers are matched and stored, against numbers computed here.
#include "spectral/anchored_loss.h"
#include "spectral/memory.h"
#include "tests/support/files.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

constexpr int64_t kHead = 27, kTogether = 54, kHeads = 6;

Options kept_heads() {
  return resolve_options("sound", {{"spectral.heads", "kept", "test"}});
}

struct Looked {
  torch::Tensor attention = torch::rand({3, 2, 3, 4, 5, 6}, at::kDouble), weights = torch::rand({3, 4}, at::kDouble);
  Looked() { weights = weights / weights.sum(1, true); }
};

TEST(KeptHeads, FollowTheNumbersOfHeadsTogether) {
  torch::manual_seed(1);
  const Looked seen;
  const SpectralEncoder average(5, 6, resolve_options("sound", {}).spectral), each(5, 6, kept_heads().spectral);
  const auto found = each.descriptor(seen.attention, seen.weights);
  ASSERT_EQ(found.size(1), kTogether + kHeads * kHead);
  EXPECT_TRUE(found.narrow(1, 0, kTogether).equal(average.descriptor(seen.attention, seen.weights)));
  const auto details = each.details(seen.attention, seen.weights);
  expect_close(found.narrow(1, kTogether, kHeads * kHead), details.head_descriptor.flatten(1), 1e-12, "heads");
  expect_close(details.descriptor, found, 1e-12, "details");
  EXPECT_GT((details.head_descriptor.select(1, 0) - details.head_descriptor.select(1, 5)).abs().max().item<double>(),
            1e-3)
      << "heads that see alike test nothing";
  expect_close(angular_part(found, kept_heads().spectral), details.head_descriptor.slice(2, 8, 16).mean(1), 1e-12,
               "angular");
}

TEST(KeptHeads, HaveTheGradientOfTheirNumbers) {
  torch::manual_seed(2);
  Looked seen;
  const SpectralEncoder each(5, 6, kept_heads().spectral);
  auto pull = torch::randn({3, kTogether + kHeads * kHead}, at::kDouble);
  for (int64_t part = 0; part < pull.size(1); part += kHead)
    pull.slice(1, part + 24, part + 26).fill_(0);  // the peak's
  const auto value = [&](const torch::Tensor& a) { return (each.descriptor(a, seen.weights) * pull).sum(); };
  auto a = seen.attention.clone().requires_grad_();
  const auto gradient = gradients(value(a), {a})[0];
  const auto way = torch::randn_like(seen.attention) * seen.attention;
  const double step = 1e-6;
  const double slope =
      (value(seen.attention + way * step) - value(seen.attention - way * step)).item<double>() / (2 * step);
  EXPECT_NEAR((gradient * way).sum().item<double>(), slope, 1e-5 * std::abs(slope));
}

// In float32 on `device`, whose kernels take every layer-head as a sample of one head: descriptor, loss and gradient
// against the plain form in double on the same stored numbers.
void expect_agreement(const torch::Tensor& attention, at::Device device) {
  const auto options = kept_heads();
  const auto stored = attention.to(at::kFloat);
  const auto weights = torch::rand({stored.size(0), stored.size(3)}, at::kDouble).softmax(1);
  const SpectralEncoder plain(stored.size(4), stored.size(5), options.spectral, Implementation::reference);
  const SpectralEncoder fast(stored.size(4), stored.size(5), options.spectral);
  const auto here = stored.to(at::kDouble).requires_grad_(), there = stored.to(device).clone().requires_grad_();
  const auto right = plain.descriptor(here, weights), found = fast.descriptor(there, weights.to(device));
  ASSERT_EQ(found.size(1), kTogether + kHead * stored.size(1) * stored.size(2));
  expect_close(found.detach().cpu().to(at::kDouble), right.detach(), 2e-5, "descriptor");
  PrototypeTensors prototypes;
  prototypes.skill = torch::tensor({0, 2}, at::kLong);
  prototypes.mean = right.detach().narrow(0, 0, 2) + 0.1 * torch::rand({2, right.size(1)}, at::kDouble);
  prototypes.variance = torch::rand({2, right.size(1)}, at::kDouble) + 0.1;
  prototypes.angular = torch::rand({2, 8}, at::kDouble) + 0.1;
  const auto posterior = torch::randn({stored.size(0), 4}, at::kDouble).softmax(1);
  const auto expected = SpectralLoss(prototypes, options, here.options(), Implementation::reference)(right, posterior);
  const auto terms = SpectralLoss(prototypes, options, there.options())(found, posterior.to(device));
  expect_close(terms.distance.cpu().to(at::kDouble), expected.distance, 2e-5, "distance");
  const double loss = expected.loss.item<double>();
  EXPECT_NEAR(terms.loss.item<double>(), loss, 2e-5 * std::abs(loss));
  const auto slope = gradients(expected.loss, {here})[0], pulled = gradients(terms.loss, {there})[0];
  const double scale = slope.abs().max().item<double>();
  EXPECT_LE((pulled.cpu().to(at::kDouble) - slope).abs().max().item<double>(), 1e-4 * scale) << "gradient";
}

TEST(KeptHeads, AgreeInSinglePrecisionWhereverTheyAreComputed) {
  std::vector<at::Device> where = devices();
  if (kernel_device() && kernel_device()->is_cpu()) where = {*kernel_device()};
  for (const auto& device : where)
    for (const auto& [heads, side] : {std::pair<int64_t, int64_t>{3, 5}, {5, 8}, {2, 24}}) {
      SCOPED_TRACE(cat(heads, " heads of ", side, "x", side, " on ", device.str()));
      torch::manual_seed(6);
      expect_agreement(random_attention({3, 2, heads, 4, side, side}), device);
    }
}

// Two prototypes of spectra like those of `seen`.
PrototypeTensors head_prototypes(const torch::Tensor& descriptor) {
  PrototypeTensors out;
  out.skill = torch::tensor({0, 2}, at::kLong);
  out.mean = descriptor.narrow(0, 0, 2) + 0.01 * torch::randn({2, descriptor.size(1)}, at::kDouble);
  out.variance = torch::rand({2, descriptor.size(1)}, at::kDouble) + 0.1;
  out.angular = torch::rand({2, 8}, at::kDouble) + 0.1;
  return out;
}

TEST(KeptHeads, AreTheDistanceAndNothingElseIs) {
  torch::manual_seed(3);
  const Looked seen;
  const auto options = kept_heads();
  const auto descriptor = SpectralEncoder(5, 6, options.spectral).descriptor(seen.attention, seen.weights);
  const auto prototypes = head_prototypes(descriptor);
  const auto posterior = torch::randn({3, 4}, at::kDouble).softmax(1);
  const auto wide = at::TensorOptions().dtype(at::kDouble);
  const auto terms = SpectralLoss(prototypes, options, wide)(descriptor, posterior);
  const auto way = (descriptor.unsqueeze(1) - prototypes.mean).square() / prototypes.variance;
  const auto expected = way.narrow(2, kTogether, kHeads * kHead).mean(2);
  expect_close(terms.distance, expected, 1e-10, "distance");
  // The angular divergence is of heads together, as without the option.
  auto together = prototypes;
  together.mean = prototypes.mean.narrow(1, 0, kTogether);
  together.variance = prototypes.variance.narrow(1, 0, kTogether);
  const auto plain =
      SpectralLoss(together, resolve_options("sound", {}), wide)(descriptor.narrow(1, 0, kTogether), posterior);
  expect_close(terms.divergence, plain.divergence, 1e-12, "divergence");
  const auto reference = SpectralLoss(prototypes, options, wide, Implementation::reference)(descriptor, posterior);
  expect_close(terms.per_sample, reference.per_sample, 1e-10, "reference");
  // Radial spectra alone: eight numbers of every head.
  auto radial = options;
  radial.asr.spectrum = Spectrum::radial;
  const auto heads = way.narrow(2, kTogether, kHeads * kHead).unflatten(2, {kHeads, kHead}).narrow(3, 0, 8);
  expect_close(SpectralLoss(prototypes, radial, wide)(descriptor, posterior).distance, heads.mean({2, 3}), 1e-10,
               "radial");
}

TEST(KeptHeads, AreAnchoredWithoutTheirPeaks) {
  torch::manual_seed(4);
  const Looked seen;
  const auto options = kept_heads();
  const auto descriptor = SpectralEncoder(5, 6, options.spectral).descriptor(seen.attention, seen.weights);
  const auto found = anchor_weights(head_prototypes(descriptor), options, at::TensorOptions().dtype(at::kDouble));
  ASSERT_EQ(found.entries.numel(), kHeads * 25);
  for (int64_t i = 0; i < found.entries.numel(); ++i) {
    const auto entry = found.entries[i].item<int64_t>();
    EXPECT_GE(entry, kTogether);
    EXPECT_NE(entry % kHead, 24);
    EXPECT_NE(entry % kHead, 25);
  }
}

StageMoments kept_stage(const Options& options, int64_t numbers) {
  StageMoments out(options);
  out.add(torch::rand({5, numbers}, at::kDouble), torch::full({5, 8}, 0.125, at::kDouble),
          torch::full({5, 2}, 0.5, at::kDouble), {}, 0);
  return out;
}

TEST(KeptHeads, AreStoredAndReadAgain) {
  TemporaryFolder folder;
  PrototypeMemory memory;
  memory.options = kept_heads();
  const int64_t numbers = kTogether + 2 * kHead;
  memory.update(kept_stage(memory.options, numbers));
  save_memory(folder / "kept.safetensors", memory);
  const auto again = load_memory(folder / "kept.safetensors");
  EXPECT_EQ(again.options.spectral.heads, Heads::kept);
  EXPECT_TRUE(again.tensors().mean.equal(memory.tensors().mean));
  EXPECT_EQ(again.tensors().variance.size(1), numbers);
}

TEST(KeptHeads, RefuseWhatDoesNotFit) {
  PrototypeMemory memory;
  memory.options = kept_heads();
  const auto refused = [&](int64_t numbers) {
    return error_of([&] { memory.update(kept_stage(memory.options, numbers)); });
  };
  EXPECT_CONTAINS(refused(kTogether), "expected [N, 54 and 27 a head]");
  EXPECT_CONTAINS(refused(kTogether + 5), "expected [N, 54 and 27 a head]");
  memory.update(kept_stage(memory.options, kTogether + kHead));
  EXPECT_CONTAINS(refused(kTogether + 2 * kHead), "entries but the memory has");  // another model's heads
  EXPECT_CONTAINS(error_of([&] { check_compatible(memory.options, resolve_options("sound", {}), "file"); }),
                  "spectral.heads");
  EXPECT_CONTAINS(error_of([] {
                    resolve_options("sound", {{"spectral.heads", "kept", "test"}, {"asr.spectrum", "raw", "test"}});
                  }),
                  "spectral.heads=kept contradicts asr.spectrum=raw");
}

}  // namespace
}  // namespace asr
