#include "methods/terms/anchor_controls.h"

#include <cmath>

#include "base/random.h"
#include "data/measure.h"

namespace asr {
namespace {

Needs tapped() {
  Needs out;
  out.tap = true;
  return out;
}

SpectralOptions of_heads_together(SpectralOptions options) {
  options.heads = Heads::average;
  return options;
}

torch::Tensor layer_head_maps(SpectrumView& spectrum, const SampleBatch& batch, const Output& output) {
  return spectrum.encoder(output).maps(output.attention, row_weights(batch.input, output));  // [B, J, H, W]
}

// The spectrum of every layer-head, without radius and angle of the peak, which carry no gradient.
class HeadView final : public AnchorView {
 public:
  explicit HeadView(const SpectralOptions& options)
      : spectrum_(options), moving_(options.radial_bins + 2 * options.angular_bins), all_(options.head_dim()) {}
  Needs needs() const override { return tapped(); }
  torch::Tensor see(const SampleBatch& batch, const Output& output) override {
    const auto seen =
        spectrum_.encoder(output).heads(output.attention, row_weights(batch.input, output));  // [B, J, D0]
    return at::cat({seen.narrow(2, 0, moving_), seen.narrow(2, all_ - 1, 1)}, 2).flatten(1);
  }

 private:
  SpectrumView spectrum_;
  int64_t moving_, all_;  // numbers of a head: histograms before the peak, and all of them
};

// Attention maps, normalised and averaged over layer-heads.
class MapView final : public AnchorView {
 public:
  explicit MapView(const SpectralOptions& options) : spectrum_(options) {}
  Needs needs() const override { return tapped(); }
  torch::Tensor see(const SampleBatch& batch, const Output& output) override {
    return layer_head_maps(spectrum_, batch, output).mean(1).flatten(1);
  }

 private:
  SpectrumView spectrum_;
};

// As many random directions of the mean map as a descriptor has numbers.
class ProjectionView final : public AnchorView {
 public:
  explicit ProjectionView(const SpectralOptions& options) : maps_(options), width_(options.dim()) {}
  Needs needs() const override { return tapped(); }
  torch::Tensor see(const SampleBatch& batch, const Output& output) override {
    const auto map = maps_.see(batch, output);
    if (!directions_.defined()) {
      Random random({0x9706});
      std::vector<double> values(static_cast<size_t>(map.size(1) * width_));
      for (auto& value : values) value = 2 * random.uniform() - 1;
      directions_ = torch::tensor(values, at::kDouble).view({map.size(1), width_}).to(map.options());
    }
    return map.matmul(directions_);
  }

 private:
  MapView maps_;
  int64_t width_;
  torch::Tensor directions_;
};

class StateView final : public AnchorView {
 public:
  Needs needs() const override {
    Needs out;
    out.pooled = true;
    return out;
  }
  torch::Tensor see(const SampleBatch&, const Output& output) override {
    return at::cat({output.image, output.text}, 1);
  }
};

// Log-probabilities, averaged over what is learnt of a sample: its answer tokens, or its one row of a closed head.
class LogitView final : public AnchorView {
 public:
  Needs needs() const override {
    Needs out;
    out.logits = true;
    return out;
  }
  torch::Tensor see(const SampleBatch& batch, const Output& output) override {
    const auto log_p = output.logits.log_softmax(-1);
    const auto answers = batch.input.labels.ge(0);
    if (answers.sum().item<int64_t>() != log_p.size(0)) return log_p;  // of a closed head, a row a sample
    const auto sample = answers.nonzero().select(1, 0);                // of every answer token
    const auto mine = at::arange(batch.size(), sample.options()).unsqueeze(1).eq(sample).to(log_p.options());
    return (mine / mine.sum(1, true)).matmul(log_p);
  }
};

// Spectra of maps whose phases were replaced: the power is kept, where the map looks is not. Clamped at 0, as maps are;
// the phases of a sample are its own and stay the same.
class PhaseView final : public AnchorView {
 public:
  explicit PhaseView(const SpectralOptions& options) : spectrum_(of_heads_together(options)) {}
  Needs needs() const override { return tapped(); }
  torch::Tensor see(const SampleBatch& batch, const Output& output) override {
    const auto maps = layer_head_maps(spectrum_, batch, output);
    std::vector<torch::Tensor> turned;
    for (const auto& info : batch.info) turned.push_back(phases(info.id, maps.size(2), maps.size(3)));
    const auto wave = at::fft_fft2(maps) * at::stack(turned).to(maps.device()).unsqueeze(1);
    const auto mixed = at::real(at::fft_ifft2(wave)).clamp_min(0);
    const auto one = torch::ones({maps.size(0), 1}, maps.options());
    return spectrum_.encoder(output).descriptor(mixed.unsqueeze(1).unsqueeze(3).contiguous(), one);
  }

 private:
  // Of modulus 1, and of a real map: those of noise. The mean stays.
  static torch::Tensor phases(const std::string& id, int64_t height, int64_t width) {
    uint64_t key = 0xcbf29ce484222325;  // FNV-1a
    for (const char c : id) key = (key ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    Random random({0x9a5e, key});
    std::vector<double> noise(static_cast<size_t>(height * width));
    for (auto& value : noise) value = random.uniform() - 0.5;
    auto wave = at::fft_fft2(torch::tensor(noise, at::kDouble).view({height, width}));
    wave = wave / wave.abs().clamp_min(1e-12);
    wave.index_put_({torch::tensor(0), torch::tensor(0)}, 1);
    return wave.to(at::kComplexFloat);
  }

  SpectrumView spectrum_;
};

}  // namespace

std::unique_ptr<AnchorView> control_view(const Options& options) {
  switch (options.asr.anchor) {
    case AnchorOf::heads:
      return std::make_unique<HeadView>(options.spectral);
    case AnchorOf::maps:
      return std::make_unique<MapView>(options.spectral);
    case AnchorOf::projections:
      return std::make_unique<ProjectionView>(options.spectral);
    case AnchorOf::states:
      return std::make_unique<StateView>();
    case AnchorOf::logits:
      return std::make_unique<LogitView>();
    case AnchorOf::phases:
      return std::make_unique<PhaseView>(options.spectral);
    case AnchorOf::spectra:
    case AnchorOf::shuffled:
    case AnchorOf::adapters:
      break;
  }
  return nullptr;
}

bool has_stored_variances(AnchorOf anchor) {
  return anchor == AnchorOf::spectra || anchor == AnchorOf::shuffled || anchor == AnchorOf::phases;
}

AnchorWeights own_weights(const torch::Tensor& anchors, AnchorMetric metric, const at::TensorOptions& compute) {
  constexpr double kLeast = 1e-12;  // where all anchors are alike
  auto variance = anchors.to(at::kDouble).var(0, /*unbiased=*/false);
  variance = variance.clamp_min(std::max(kLeast, 1e-3 * variance.mean().item<double>()));
  const double mean = variance.mean().item<double>();
  AnchorWeights out;
  out.unit = 1 / mean;
  out.entries = at::arange(anchors.size(1), at::kLong).to(compute.device());
  const auto precision = metric == AnchorMetric::identity ? torch::ones_like(variance) : mean / variance;
  out.precision = precision.unsqueeze(0).to(compute);
  return out;
}

}  // namespace asr
