// asr merge: a checkpoint with a LoRA adapter in its weights, for programs that know no adapters.
#include <fmt/format.h>

#include <iostream>

#include "backbones/merge.h"
#include "cli/command.h"

namespace asr {
namespace {

void run(const MergeRequest& request, const Common& common) {
  const auto result = merge_adapter(request);
  if (common.json)
    return print_json({{"output", request.output},
                       {"changed", result.changed},
                       {"tensors", result.tensors},
                       {"bytes", result.bytes},
                       {"files", result.files}});
  std::cout << fmt::format("{}: {} of {} tensors changed, {:.1f} MB of weights, {} files\n", request.output,
                           result.changed, result.tensors, static_cast<double>(result.bytes) / 1e6, result.files);
}

}  // namespace

void add_merge_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("merge", "a Hugging Face checkpoint with a LoRA adapter put into its weights");
  auto request = std::make_shared<MergeRequest>();
  command->add_option("--model", request->model, "folder of a Hugging Face checkpoint")->required()->type_name("DIR");
  command->add_option("--adapter", request->adapter, "folder of a PEFT LoRA adapter")->required()->type_name("DIR");
  command->add_option("-o,--output", request->output, "new folder: weights in the checkpoint's files and types")
      ->required()
      ->type_name("DIR");
  command->add_flag("--unmerge", request->unmerge,
                    "take the adapter out of a merged checkpoint instead; exact up to the rounding of its type");
  command->callback([request, &common] { run(*request, common); });
}

}  // namespace asr
