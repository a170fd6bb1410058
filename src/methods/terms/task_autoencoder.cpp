#include "methods/terms/task_autoencoder.h"

#include <cmath>

namespace asr {

torch::Tensor task_features(const Backbone& model, const SampleBatch& batch) {
  at::NoGradGuard no_grad;
  Want seen, read;
  seen.loss = read.loss = false;
  seen.early = true;
  read.states = true;
  const auto picture = model.forward(batch.input, Pass{0, nullptr}, seen).tower_max;
  const auto text = model.forward(model.without_pictures(batch.input), Pass{0, nullptr}, read).text_max;
  const auto both = at::cat({picture.to(at::kFloat), text.to(at::kFloat)}, 1);
  return both / both.norm(2, 1, true).clamp_min(1e-12);
}

torch::Tensor TaskAutoencoder::errors(const torch::Tensor& features) const {
  const auto code = at::linear(features, encode, encode_bias).relu();
  return (at::linear(code, decode, decode_bias).sigmoid() - features).square().mean(1);
}

TaskAutoencoder new_task_autoencoder(int64_t hidden, int64_t width, uint64_t seed, at::Device device) {
  auto generator = at::detail::createCPUGenerator(seed);
  const auto drawn = [&](at::IntArrayRef shape, int64_t in) {
    const auto unit = at::rand(shape, generator, at::CPU(at::kFloat)) * 2 - 1;
    return (unit / std::sqrt(static_cast<double>(in))).to(device);
  };
  TaskAutoencoder out;
  out.encode = drawn({hidden, width}, width);
  out.encode_bias = drawn({hidden}, width);
  out.decode = drawn({width, hidden}, hidden);
  out.decode_bias = drawn({width}, hidden);
  return out;
}

}  // namespace asr
