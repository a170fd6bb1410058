// asr generate: what a checkpoint answers to a question about pictures.
#include <iostream>

#include "backbones/adapter_file.h"
#include "backbones/base_precision.h"
#include "backbones/pretrained.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/command.h"
#include "skills/functional_tokens.h"
#include "skills/part_of_speech.h"
#include "tensor/device.h"
#include "train/run_adapter.h"

namespace asr {
namespace {

struct GenerateArguments {
  std::string model, adapter, prompt, prompt_ids, device = "cpu", base_precision = "plain";
  std::vector<std::string> images;
  bool raw = false;
  int64_t tokens = 64;
};

std::vector<int64_t> parse_ids(const std::string& text) {
  std::vector<int64_t> out;
  std::string part;
  for (const char c : text + ",") {
    if (c != ',' && c != ' ') {
      part += c;
      continue;
    }
    if (part.empty()) continue;
    int64_t id = 0;
    check(parse_int(part, id) && id >= 0, "--prompt-ids: '", printable(part), "' is no token number");
    out.push_back(id);
    part.clear();
  }
  check(!out.empty(), "--prompt-ids: no token number is given");
  return out;
}

Batch batch_of(const PretrainedBackbone& model, const GenerateArguments& a) {
  std::vector<Image8> pictures;
  for (const auto& path : a.images) pictures.push_back(read_image(path));
  if (!a.prompt_ids.empty()) return model.pack_ids(parse_ids(a.prompt_ids), pictures, a.images);
  return model.pack_prompt(a.prompt, pictures, a.images, a.raw, [&a](const std::vector<Token>& tokens) {
    std::vector<std::pair<size_t, size_t>> offsets;
    for (const auto& token : tokens) offsets.emplace_back(token.begin, token.end);
    return functional_tokens(a.prompt, offsets, question_lexicon());
  });
}

nlohmann::json routed_to(const RouteChoice& choice) {
  return {{"stage", choice.slot.empty() ? "base" : choice.slot}, {"probability", choice.probability}};
}

void run(const GenerateArguments& a, const Common& common) {
  check(a.prompt.empty() != a.prompt_ids.empty(), "give either --prompt or --prompt-ids");
  if (!a.adapter.empty()) check_answers_in_words(a.adapter);
  const auto device = device_named(a.device);
  const auto format = weight_format_named(a.base_precision);
  check_format(format, device);
  const auto model = load_pretrained(a.model);
  model->to(device);
  keep_weights_in(*model, format);
  // An adapter with gates is answered with as its run's evaluation did.
  std::unique_ptr<SlotAdapter> slots;
  if (!a.adapter.empty() && holds_slots(a.adapter))
    slots = std::make_unique<SlotAdapter>(*model, a.adapter);
  else if (!a.adapter.empty())
    load_adapter(*model, a.adapter);
  SampleBatch batch;
  batch.input = to_device(batch_of(*model, a), device);
  batch.info = {{"the prompt", a.prompt, "", "", {}}};
  batch.pictures.key = [](int64_t) { return "the last picture"; };
  batch.pictures.read = [&a](int64_t) { return a.images.empty() ? Image8() : read_image(a.images.back()); };
  const auto routed = slots ? slots->pass_for(batch) : RoutedPass{};
  if (!routed.choices.empty() && (a.raw || !a.prompt_ids.empty()))
    log_warn("the adapter is chosen by the question, and here the whole prompt is taken for it; give it with --prompt");
  batch = routed.seen(std::move(batch));
  const auto ids = model->continue_greedily(batch.input, batch.input.mask, routed.pass(), a.tokens, /*fill=*/false)[0];
  std::string text;
  const bool words = model->has_tokenizer();
  if (words) text = model->tokenizer().decode_answer(ids);
  if (common.json) {
    nlohmann::json result = {{"ids", ids}};
    result["text"] = words ? nlohmann::json(text) : nlohmann::json();
    if (!routed.choices.empty()) result["routed_to"] = routed_to(routed.choices[0]);
    return print_json(result);
  }
  if (!routed.choices.empty()) {
    const auto to = routed_to(routed.choices[0]);
    log_info("routed to: ", to["stage"].get<std::string>(), " (", to["probability"].get<double>(), ")");
  }
  if (words) {
    std::cout << text << "\n";
  } else {
    std::vector<std::string> parts;
    for (const int64_t id : ids) parts.push_back(std::to_string(id));
    std::cout << join(parts, " ") << "\n";
  }
}

}  // namespace

void add_generate_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("generate", "greedy answer of a Hugging Face checkpoint");
  auto a = std::make_shared<GenerateArguments>();
  command->add_option("--model", a->model, "folder of a Hugging Face checkpoint")->required()->type_name("DIR");
  command->add_option("--adapter", a->adapter, "folder of a PEFT LoRA adapter, or RUN/adapter")->type_name("DIR");
  command->add_option("--image", a->images, "JPEG or PNG files, in order")->type_name("FILE");
  command->add_option("--prompt", a->prompt, "the question; the model family's chat template is put around it");
  command->add_flag("--raw", a->raw, "--prompt is the whole text, template and image placeholders included");
  command->add_option("--prompt-ids", a->prompt_ids, "token numbers instead, with one image token a picture or all");
  command->add_option("--max-new-tokens", a->tokens, "stop after so many tokens")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  command->add_option("--base-precision", a->base_precision, "frozen weights as stored, in float8 or in four bits")
      ->capture_default_str()
      ->check(CLI::IsMember({"plain", "fp8", "nf4"}));
  command->add_option("--device", a->device, "cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command->callback([a, &common] { run(*a, common); });
}

}  // namespace asr
