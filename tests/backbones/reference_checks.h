// What is compared between a model here and the reference outputs of transformers and PEFT, whatever the device and
// the precision: numbers of a forward pass, an adapter's gradients and its first step, generated tokens.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backbones/adapter_file.h"
#include "backbones/pretrained.h"
#include "nn/adamw.h"
#include "tensor/torch_compat.h"
#include "tests/support/reference_models.h"

namespace asr {

// Where and in which type a model is computed, and how far it may be off: absolutely, gradients by their largest entry.
struct Setting {
  at::Device device = at::kCPU;
  at::ScalarType type = at::kDouble;
  double logits, attention, gradient, step;
};

inline std::unique_ptr<PretrainedBackbone> open_model(const std::string& folder, at::ScalarType type = at::kDouble,
                                                      at::Device device = at::kCPU) {
  auto model = load_pretrained(folder);
  model->to(device);
  model->configure({});
  model->compute_in(type);
  return model;
}

inline Batch batch_of(const Golden& golden, at::Device device = at::kCPU) {
  Batch batch;
  batch.ids = golden.index("in.input_ids");
  batch.mask = golden.io.find("in.attention_mask") ? golden.index("in.attention_mask").ne(0)
                                                   : at::ones_like(batch.ids, at::kBool);
  batch.labels = golden.index("in.labels");
  batch.labels = at::where(batch.labels.lt(0), at::full_like(batch.labels, -1), batch.labels);
  if (golden.io.find("in.pixel_values")) batch.pixels = golden.real("in.pixel_values");
  if (golden.io.find("in.image_grid_thw")) batch.image_grid = golden.index("in.image_grid_thw").contiguous();
  if (golden.io.find("in.qformer_input_ids")) {
    batch.instruction = golden.index("in.qformer_input_ids");
    batch.instruction_mask = golden.index("in.qformer_attention_mask").ne(0);
  }
  return to_device(batch, device);
}

inline double apart(const torch::Tensor& a, const torch::Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  return (a.detach().cpu().to(at::kDouble) - b.detach().cpu().to(at::kDouble)).abs().max().item<double>();
}

inline torch::Tensor shifted_loss(const torch::Tensor& logits, const torch::Tensor& labels) {
  const auto wanted = labels.narrow(1, 1, labels.size(1) - 1).flatten();
  const auto rows = wanted.ge(0).nonzero().flatten();
  return at::cross_entropy_loss(logits.narrow(1, 0, logits.size(1) - 1).flatten(0, 1).index_select(0, rows),
                                wanted.index_select(0, rows));
}

inline void check_numbers(const Golden& golden, const Setting& where) {
  const auto model = open_model(golden.folder, where.type, where.device);
  const auto batch = batch_of(golden, where.device);
  at::NoGradGuard no_grad;
  std::vector<int64_t> layers;
  for (int64_t i = 0; i < model->layers() && batch.pixels.defined(); ++i) layers.push_back(i);
  const auto rows = batch.mask.logical_and(batch.ids.ne(model->image_token()));
  const auto seen = model->inspect(batch, Pass{}, layers, rows);
  const auto logits = model->language().logits(seen.hidden);
  EXPECT_EQ(logits.scalar_type(), where.type);
  const auto real = batch.mask.cpu();
  EXPECT_LE(apart(logits.cpu().index({real}), golden.real("out.logits").index({real})), where.logits);
  EXPECT_NEAR(shifted_loss(logits, batch.labels).item<double>(), golden.real("out.loss").item<double>(), 1e-4);
  if (seen.features.defined()) {
    EXPECT_LE(apart(seen.features.flatten(), golden.real("out.image_features").flatten()), where.attention);
  }
  const bool qformer = batch.instruction.defined();
  for (size_t i = 0; i < seen.taps.layers.size(); ++i) {
    const auto expected = golden.real(cat("out.attn.", i));
    for (int64_t b = 0; b < batch.size(); ++b) {
      const auto row = seen.rows[b].cpu(), column = seen.columns[b].cpu();
      const auto r = row.index({row.ge(0)}), c = column.index({column.ge(0)});
      const auto found = seen.taps.layers[i][b].narrow(1, 0, r.numel()).narrow(2, 0, c.numel());
      EXPECT_LE(apart(found, expected[b].index_select(1, r).index_select(2, c + (qformer ? 1 : 0))), where.attention);
    }
  }
}

inline void check_tokens(const Golden& golden, at::Device device, at::ScalarType type) {
  const auto model = open_model(golden.folder, type, device);
  const auto batch = batch_of(golden, device);
  const auto expected = golden.index("out.generated");
  const int64_t prompt = batch.ids.size(1), fresh = expected.size(1) - prompt;
  const auto rows = model->continue_greedily(batch, batch.mask, Pass{}, fresh, /*fill=*/true);
  for (int64_t b = 0; b < batch.size(); ++b)
    EXPECT_TRUE(torch::tensor(rows[static_cast<size_t>(b)], at::kLong).equal(expected[b].narrow(0, prompt, fresh)));
}

inline void check_adapter(const Golden& golden, const Setting& where) {
  const auto model = open_model(golden.folder, where.type, where.device);
  const auto adapter = load_adapter(*model, golden.folder + "/adapter");
  const auto batch = batch_of(golden, where.device);
  const auto seen = model->inspect(batch, Pass{}, {}, batch.mask);
  const auto logits = model->language().logits(seen.hidden);
  const auto real = batch.mask.cpu();
  EXPECT_LE(apart(logits.cpu().index({real}), golden.real("lora.logits").index({real})), where.logits);
  const auto loss = shifted_loss(logits, batch.labels);
  EXPECT_NEAR(loss.item<double>(), golden.real("lora.loss").item<double>(), 1e-4);
  std::vector<torch::Tensor> parameters;
  for (const auto& [name, tensor] : adapter) parameters.push_back(tensor);
  const auto grads = gradients(loss, parameters);
  for (size_t i = 0; i < grads.size(); ++i) {
    const auto expected = golden.real("lora.grad.base_model.model." + adapter[i].first);
    EXPECT_LE(apart(grads[i], expected), where.gradient * expected.abs().max().item<double>()) << adapter[i].first;
  }
  if (!golden.io.find("lora.step.base_model.model." + adapter[0].first)) return;
  AdamWOptions options;
  options.weight_decay = 0.01;
  AdamW optimizer(parameters, options);
  optimizer.zero_grad();
  for (size_t i = 0; i < grads.size(); ++i) parameters[i].mutable_grad().copy_(grads[i]);
  optimizer.step(1e-3);
  for (const auto& [name, tensor] : adapter)
    // One step of Adam is the sign of the gradient, so that an entry near zero may go either way.
    EXPECT_LE((tensor.cpu() - golden.real("lora.step.base_model.model." + name)).abs().mean().item<double>(),
              where.step)
        << name;
}

}  // namespace asr
