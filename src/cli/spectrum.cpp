// asr spectrum: attention from a file to descriptors, losses and their gradients.
#include <fmt/format.h>

#include <iostream>

#include "base/error.h"
#include "cli/command.h"
#include "metrics/diagnostics.h"
#include "spectral/descriptor.h"
#include "spectral/memory.h"
#include "spectral/spectral_loss.h"
#include "tensor/device.h"
#include "tensor/runtime.h"
#include "tensor/tensor_io.h"
#include "tensor/torch_compat.h"

namespace asr {
namespace {

struct SpectrumArguments {
  std::string input, output, memory;
  OptionFlags options;
  Implementation implementation = Implementation::automatic;
  std::string implementation_name = "automatic", device = "cpu";
};

struct Input {
  torch::Tensor attention, weights, posterior;
  PrototypeTensors prototypes;
  bool has_loss = false, has_geometry = false;
  torch::Tensor image, text, image_reference, text_reference;
};

torch::Tensor read_attention(const Safetensors& file) {
  auto attention = load_real(file, "attention");
  check(attention.dim() == 6, file.path, ": attention has shape ", shape_text(attention.sizes()),
        "; expected [B, L, heads, T, H, W]");
  check(attention.numel() > 0, file.path, ": attention is empty, shape ", shape_text(attention.sizes()));
  check(at::isFloatingType(attention.scalar_type()), file.path, ": attention must hold floating-point numbers");
  // Half precision is storage; it is computed in float32.
  return attention.scalar_type() == at::kDouble ? attention : attention.to(at::kFloat);
}

void read_prototypes(const Safetensors& file, const SpectrumArguments& arguments, const Options& options, Input& in) {
  bool inside = false;
  for (const auto& tensor : file.tensors) inside = inside || tensor.name.rfind("memory.", 0) == 0;
  if (file.find("posterior")) {
    in.posterior = load_real(file, "posterior");
    check_posterior(in.posterior, options.asr.skill);
    check(in.posterior.size(0) == in.attention.size(0), file.path, ": posterior has ", in.posterior.size(0),
          " rows for ", in.attention.size(0), " samples");
  }
  check(!inside || arguments.memory.empty(), file.path, ": holds memory.* although --memory is given; use one of them");
  if (!inside && arguments.memory.empty()) return;
  in.has_loss = true;
  file.at("posterior");  // an error when it is not there
  if (!inside) {
    const auto memory = load_memory(arguments.memory);
    check_compatible(memory.options, options, arguments.memory);
    in.prototypes = memory.tensors();
    return;
  }
  in.prototypes.skill = load_index(file, "memory.skill");
  in.prototypes.mean = load_real(file, "memory.mean");
  in.prototypes.variance = load_real(file, "memory.variance");
  in.prototypes.angular = load_real(file, "memory.angular");
  if (file.find("memory.count")) in.prototypes.count = load_index(file, "memory.count");
  if (file.find("memory.map")) in.prototypes.map = load_real(file, "memory.map");
}

void read_geometry(const Safetensors& file, Input& in) {
  const char* names[] = {"geo.image", "geo.text", "geo.image_ref", "geo.text_ref"};
  torch::Tensor* places[] = {&in.image, &in.text, &in.image_reference, &in.text_reference};
  for (const char* name : names) in.has_geometry = in.has_geometry || file.find(name);
  if (!in.has_geometry) return;
  for (int i = 0; i < 4; ++i) {
    auto tensor = load_real(file, names[i]).to(in.attention.options());
    check(tensor.dim() == 2 && tensor.numel() > 0 && tensor.size(0) == in.attention.size(0), file.path, ": ", names[i],
          " has shape ", shape_text(tensor.sizes()), "; expected [", in.attention.size(0), ", E]");
    check(tensor.isfinite().all().item<bool>() && tensor.norm(2, 1).gt(0).all().item<bool>(), file.path, ": ", names[i],
          " holds NaN, infinite or all-zero embeddings");
    *places[i] = tensor;
  }
}

Input read_input(const SpectrumArguments& arguments, const Options& options) {
  const auto file = read_safetensors(arguments.input);
  const auto device = device_named(arguments.device);
  Input in;
  in.attention = read_attention(file);
  const auto functional = load_real(file, "functional"), valid = load_real(file, "valid");
  for (const auto* mask : {&functional, &valid})
    check(mask->dim() == 2 && mask->size(0) == in.attention.size(0) && mask->size(1) == in.attention.size(3), file.path,
          ": masks have shape ", shape_text(mask->sizes()), "; expected [", in.attention.size(0), ", ",
          in.attention.size(3), "]");
  about_file(file.path, [&] {
    in.weights = token_weights(functional, valid);
    check_attention(in.attention, in.weights);
  });
  in.attention = in.attention.to(device);
  in.weights = in.weights.to(device);
  read_prototypes(file, arguments, options, in);
  if (in.has_loss) in.posterior = in.posterior.to(device);
  read_geometry(file, in);
  return in;
}

void add_plane(const FrequencyPlane& plane, const at::TensorOptions& options, NamedTensors& out) {
  const std::vector<int64_t> shape = {plane.height, plane.width};
  const auto real = [&](const std::vector<double>& v) { return torch::tensor(v, at::kDouble).view(shape).to(options); };
  const auto whole = [&](const std::vector<int64_t>& v) { return torch::tensor(v, at::kLong).view(shape); };
  out.insert(out.end(), {{"radius", real(plane.radius)},
                         {"angle", real(plane.angle)},
                         {"radial_bin", whole(plane.radial_bin)},
                         {"angular_bin", whole(plane.angular_bin)}});
}

torch::Tensor or_zeros(const torch::Tensor& grad, const torch::Tensor& like) {
  return grad.defined() ? grad : torch::zeros_like(like);
}

// Loss, gradient and per-sample terms; returns the scalar loss.
torch::Tensor add_loss(const Input& in, const SpectralEncoder& encoder, const Options& options,
                       Implementation implementation, NamedTensors& out) {
  const auto attention = in.attention.detach().requires_grad_();
  const SpectralLoss loss(in.prototypes, options, attention.options().requires_grad(false), implementation);
  const auto terms = options.asr.spectrum == Spectrum::raw
                         ? loss.raw(encoder.maps(attention, in.weights), in.posterior)
                         : loss(encoder.descriptor(attention, in.weights), in.posterior);
  const auto grad = or_zeros(gradients(terms.loss, {attention})[0], attention);
  check(terms.loss.isfinite().item<bool>() && grad.isfinite().all().item<bool>(),
        "the spectral loss or its gradient is NaN or infinite; check the size of the ",
        "memory's entries and spectral.eps");
  out.insert(out.end(), {{"distance", terms.distance},
                         {"divergence", terms.divergence},
                         {"weight", terms.weight},
                         {"loss_per_sample", terms.per_sample},
                         {"loss", terms.loss.detach().view({1})},
                         {"grad_attention", grad}});
  return terms.loss.detach();
}

torch::Tensor add_geometry(const Input& in, NamedTensors& out) {
  const auto image = in.image.detach().requires_grad_(), text = in.text.detach().requires_grad_();
  const auto loss = geometry_loss(image, text, in.image_reference, in.text_reference);
  const auto grads = gradients(loss, {image, text});
  check(
      loss.isfinite().item<bool>() && grads[0].isfinite().all().item<bool>() && grads[1].isfinite().all().item<bool>(),
      "the geometry loss or its gradient is NaN or infinite; check the size of the geo.* embeddings");
  out.insert(out.end(), {{"geo", loss.detach().view({1})}, {"grad_geo_image", grads[0]}, {"grad_geo_text", grads[1]}});
  return loss.detach();
}

void run(SpectrumArguments& arguments, const Common& common) {
  check_output(arguments.output, {arguments.input, arguments.memory});
  Options options = arguments.options.resolve();
  const Input in = read_input(arguments, options);
  const auto& shape = in.attention;
  const SpectralEncoder encoder(shape.size(4), shape.size(5), options.spectral, arguments.implementation);
  const auto details = encoder.details(in.attention, in.weights);
  NamedTensors out = {{"map", details.map},
                      {"power", details.power},
                      {"peak", details.peak},
                      {"head_descriptor", details.head_descriptor},
                      {"descriptor", details.descriptor},
                      {"radial", radial_part(details.descriptor, options.spectral)},
                      {"angular", angular_part(details.descriptor, options.spectral)},
                      {"entropy", attention_entropy(details.map)}};
  add_plane(encoder.plane(), in.attention.options(), out);
  nlohmann::json result = {{"output", arguments.output},
                           {"samples", shape.size(0)},
                           {"layer_heads", shape.size(1) * shape.size(2)},
                           {"grid", {shape.size(4), shape.size(5)}},
                           {"options", options.table().manifest()}};
  check(details.descriptor.isfinite().all().item<bool>(), arguments.input,
        ": descriptors are NaN or infinite; check the attention's size and spectral.eps");
  result["entropy"] = attention_entropy(details.map).mean().item<double>();
  double total = 0;
  if (in.has_loss) {
    result["loss"] = about_file(
        arguments.input, [&] { return add_loss(in, encoder, options, arguments.implementation, out).item<double>(); });
    result["prototypes"] = in.prototypes.size();
    total += options.asr.beta * result["loss"].get<double>();
  }
  if (in.has_geometry) {
    result["geo"] = add_geometry(in, out).item<double>();
    total += options.asr.gamma * result["geo"].get<double>();
  }
  if (in.has_loss || in.has_geometry) result["regularizer"] = total;  // beta loss + gamma geo
  save_tensors(arguments.output, out, {{"options", result["options"].dump()}});

  if (common.json) return print_json(result);
  std::cout << fmt::format("{} samples, {} layer-heads, {}x{} grid -> {}\n", shape.size(0),
                           shape.size(1) * shape.size(2), shape.size(4), shape.size(5), arguments.output);
  if (in.has_loss)
    std::cout << fmt::format("spectral loss {:.6g} against {} prototypes\n", result["loss"].get<double>(),
                             in.prototypes.size());
  if (in.has_geometry) std::cout << fmt::format("geometry loss {:.6g}\n", result["geo"].get<double>());
}

}  // namespace

void add_spectrum_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("spectrum", "descriptors, losses and gradients of attention maps in a file");
  auto arguments = std::make_shared<SpectrumArguments>();
  command
      ->add_option("IN", arguments->input,
                   "attention, functional, valid; for the loss posterior and memory.*; geo.* for the geometry loss")
      ->required();
  command->add_option("-o,--output", arguments->output, "result file")->required();
  command->add_option("--memory", arguments->memory, "prototypes from a memory file instead of memory.* in IN")
      ->type_name("MEM");
  command->add_option("--impl", arguments->implementation_name, "automatic | reference | fused")->type_name("NAME");
  command->add_option("--device", arguments->device, "cpu | cuda")->type_name("NAME");
  arguments->options.add_to(*command);
  command->callback([arguments, &common] {
    OptionVisitor visitor("impl");
    visitor("impl", arguments->implementation, "");
    visitor.options()[0].set(arguments->implementation_name, "--impl");
    run(*arguments, common);
  });
}

}  // namespace asr
