// asr forward: a checkpoint on given tensors, with everything that can be compared with another implementation.
#include <fmt/format.h>

#include <iostream>

#include "backbones/adapter_file.h"
#include "backbones/base_precision.h"
#include "backbones/pretrained.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "tensor/device.h"
#include "tensor/tensor_io.h"
#include "tensor/torch_compat.h"

namespace asr {
namespace {

struct ForwardArguments {
  std::string model, adapter, input, output, attention = "selected", device = "cpu", base_precision = "plain",
                                             precision = "auto";
  bool grad = false;
  int64_t generate = 0;
};

Batch read_batch(const Safetensors& file, at::Device device) {
  check(!file.find("in.pixel_values_videos"), file.path, ": in.pixel_values_videos is not supported; give pictures");
  Batch batch;
  batch.ids = load_index(file, "in.input_ids");
  check(batch.ids.dim() == 2 && batch.ids.numel() > 0, file.path, ": in.input_ids has shape ",
        shape_text(batch.ids.sizes()), "; expected [B, T]");
  const auto like_ids = [&](const char* name, int64_t otherwise) {
    if (!file.find(name)) return at::full_like(batch.ids, otherwise);
    const auto found = load_index(file, name);
    check(found.sizes() == batch.ids.sizes(), file.path, ": ", name, " has shape ", shape_text(found.sizes()),
          " but in.input_ids ", shape_text(batch.ids.sizes()));
    return found;
  };
  batch.mask = like_ids("in.attention_mask", 1).ne(0);
  check(batch.mask.any(1).all().item<bool>(), file.path, ": in.attention_mask hides a whole sample");
  batch.labels = like_ids("in.labels", -1);
  const auto no_label = batch.labels.eq(-100);
  check(!file.find("in.labels") || batch.labels.ge(0).logical_or(no_label).all().item<bool>(), file.path,
        ": in.labels holds negative numbers other than -100, which stands for no label");
  batch.labels = at::where(no_label, at::full_like(batch.labels, -1), batch.labels);
  if (file.find("in.pixel_values")) batch.pixels = load_real(file, "in.pixel_values");
  check(!batch.pixels.defined() || at::isfinite(batch.pixels).all().item<bool>(), file.path,
        ": in.pixel_values holds NaN or infinite numbers");
  if (file.find("in.image_grid_thw")) {
    batch.image_grid = load_index(file, "in.image_grid_thw").contiguous();
    check(batch.image_grid.dim() == 2 && batch.image_grid.size(1) == 3, file.path, ": in.image_grid_thw has shape ",
          shape_text(batch.image_grid.sizes()), "; expected [images, 3]");
  }
  if (file.find("in.qformer_input_ids")) {
    batch.instruction = load_index(file, "in.qformer_input_ids");
    batch.instruction_mask = file.find("in.qformer_attention_mask")
                                 ? load_index(file, "in.qformer_attention_mask").ne(0)
                                 : at::ones_like(batch.instruction, at::kBool);
    check(batch.instruction.dim() == 2 && batch.instruction.size(0) == batch.ids.size(0) &&
              batch.instruction_mask.sizes() == batch.instruction.sizes(),
          file.path, ": in.qformer_input_ids and in.qformer_attention_mask must be [B, T]");
  }
  return to_device(batch, device);
}

// As transformers has it: the mean over labelled tokens but the first, each predicted from the place before.
torch::Tensor shifted_loss(const torch::Tensor& logits, const torch::Tensor& labels) {
  const auto wanted = labels.narrow(1, 1, labels.size(1) - 1).flatten();
  const auto rows = wanted.ge(0).nonzero().flatten();
  const auto from = logits.narrow(1, 0, logits.size(1) - 1).flatten(0, 1);
  return at::cross_entropy_loss(from.index_select(0, rows), wanted.index_select(0, rows));
}

// Rows of the attention that is written: text the model reads. `selected` leaves out answers and special tokens.
torch::Tensor rows_of(const PretrainedBackbone& model, const Batch& batch, bool all) {
  auto rows = batch.mask.logical_and(batch.ids.ne(model.image_token()));
  return all ? rows : rows.logical_and(batch.labels.lt(0));
}

void run(const ForwardArguments& arguments, const Common& common) {
  check_output(arguments.output, {arguments.input});
  const auto device = device_named(arguments.device);
  const auto format = weight_format_named(arguments.base_precision);
  check_format(format, device);
  auto model = load_pretrained(arguments.model);
  model->to(device);
  keep_weights_in(*model, format);
  // Small models are computed in double: what differs from another implementation is then not our rounding.
  const bool small = device.is_cpu() && model->weight_bytes() < (int64_t(64) << 20);
  if (arguments.precision == "float32") model->compute_in(at::kFloat);
  if (arguments.precision == "float64" || (arguments.precision == "auto" && small)) model->compute_in(at::kDouble);
  model->configure({});
  NamedParameters adapter;
  if (!arguments.adapter.empty()) adapter = load_adapter(*model, arguments.adapter);
  check(!arguments.grad || !adapter.empty(), "--grad gives the gradient of an adapter; say which with --adapter");
  const auto file = read_safetensors(arguments.input);
  const auto batch = read_batch(file, device);
  const bool all = arguments.attention == "all";
  std::vector<int64_t> layers;
  if (batch.pixels.defined())
    for (int64_t i = all ? 0 : std::max<int64_t>(0, model->layers() - 4); i < model->layers(); ++i) layers.push_back(i);

  NamedTensors out;
  const auto add = [&](const std::string& name, const torch::Tensor& tensor) {
    auto plain = tensor.detach().cpu();
    if (plain.is_floating_point()) plain = plain.to(at::kFloat);
    out.emplace_back(name, plain.contiguous());
  };
  {
    const at::AutoGradMode record(arguments.grad);
    const auto seen = model->inspect(batch, Pass{}, layers, rows_of(*model, batch, all));
    const auto logits = model->language().logits(seen.hidden);
    add("logits", logits);
    add("last_hidden", seen.hidden);
    if (seen.features.defined()) add("image_features", seen.features);
    for (size_t i = 0; i < layers.size(); ++i) add(cat("attn.", layers[i]), seen.taps.layers[i]);
    if (!layers.empty()) {
      add("attn_rows", seen.rows);
      add("attn_cols", seen.columns);
    }
    const bool labelled = batch.labels.narrow(1, 1, batch.labels.size(1) - 1).ge(0).any().item<bool>();
    check(labelled || !arguments.grad, arguments.input,
          ": --grad needs in.labels, with a label behind the first token of a row");
    if (labelled) {
      const auto largest = batch.labels.max().item<int64_t>();
      check(largest < logits.size(-1), arguments.input, ": in.labels names token ", largest, " of a vocabulary of ",
            logits.size(-1));
      const auto loss = shifted_loss(logits.element_size() < 4 ? logits.to(at::kFloat) : logits, batch.labels);
      add("loss", loss.detach().view({1}));
      if (arguments.grad) {
        std::vector<torch::Tensor> parameters;
        for (const auto& [name, tensor] : adapter) parameters.push_back(tensor);
        const auto grads = gradients(loss, parameters);
        for (size_t i = 0; i < grads.size(); ++i)
          add("grad.base_model.model." + adapter[i].first,
              grads[i].defined() ? grads[i] : torch::zeros_like(parameters[i]));
      }
    }
  }
  if (arguments.generate > 0) {
    const auto rows = model->continue_greedily(batch, batch.mask, Pass{}, arguments.generate, /*fill=*/true);
    std::vector<torch::Tensor> list;
    for (const auto& row : rows) list.push_back(torch::tensor(row, at::kLong));
    add("generated", at::cat({batch.ids.cpu(), at::stack(list)}, 1));
  }
  save_tensors(arguments.output, out, {});
  nlohmann::json shapes;
  for (const auto& [name, tensor] : out) shapes[name] = tensor.sizes().vec();
  if (common.json) return print_json({{"model", model->name()}, {"output", arguments.output}, {"shapes", shapes}});
  std::cout << model->name() << ": " << out.size() << " tensors to " << arguments.output << "\n";
}

}  // namespace

void add_forward_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("forward", "a Hugging Face checkpoint on given tensors");
  auto a = std::make_shared<ForwardArguments>();
  command->add_option("--model", a->model, "folder of a Hugging Face checkpoint")->required()->type_name("DIR");
  command->add_option("--adapter", a->adapter, "folder of a PEFT LoRA adapter")->type_name("DIR");
  command
      ->add_option("-i,--input", a->input,
                   "in.input_ids, and as the model needs them in.attention_mask, in.labels, in.pixel_values, "
                   "in.image_grid_thw, in.qformer_input_ids, in.qformer_attention_mask")
      ->required();
  command
      ->add_option("-o,--output", a->output,
                   "logits, last_hidden, image_features, attn.N with attn_rows and attn_cols, loss, grad.*, "
                   "generated")
      ->required();
  command->add_option("--attention", a->attention, "all: every layer and text row; selected: the last 4, no answers")
      ->capture_default_str()
      ->check(CLI::IsMember({"all", "selected"}));
  command
      ->add_option(
          "--precision", a->precision,
          "float32, float64, or auto: float64 on the CPU for models of up to 64 MB and float32 for larger ones; "
          "on a GPU the checkpoint's own type")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "float32", "float64"}));
  command->add_flag("--grad", a->grad, "the gradient of the loss by the adapter");
  command->add_option("--generate", a->generate, "continue every sample by so many greedy tokens")
      ->check(CLI::Range(0, 1000000));
  command->add_option("--base-precision", a->base_precision, "frozen weights as stored, in float8 or in four bits")
      ->capture_default_str()
      ->check(CLI::IsMember({"plain", "fp8", "nf4"}));
  command->add_option("--device", a->device, "cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command->callback([a, &common] { run(*a, common); });
}

}  // namespace asr
