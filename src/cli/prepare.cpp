// asr prepare STREAM --source DIR -o DIR: a benchmark's official files as a stream that 'asr run' reads.
#include <fmt/format.h>

#include <iostream>

#include "base/interrupt.h"
#include "cli/command.h"
#include "streams/prepare/preparation.h"

namespace asr {
namespace {

using nlohmann::json;

int64_t sum(const json& counts) {
  int64_t out = 0;
  for (const auto& count : counts) out += count.get<int64_t>();
  return out;
}

void print_counts(const char* what, const json& counts) {
  if (counts.empty()) return;
  std::cout << what << " " << sum(counts) << ":\n";
  for (const auto& [reason, count] : counts.items())
    std::cout << "  " << count.get<int64_t>() << "  " << reason << "\n";
}

void prepare(const PrepareOptions& options, const Common& common) {
  // Files appear only whole, so that there is nothing to save: a word, and the end.
  const HearSignals hear("stopped; the same command goes on with the first part that is missing",
                         HearSignals::First::ends);
  const auto index = prepare_stream(options);
  if (common.json) return print_json(index);
  std::cout << text_table(prepared_table(index));
  print_counts("rows skipped as bad, listed in skipped/:", index["skipped"]);
  print_counts("rows left out by the benchmark's own rules:", index["dropped"]);
  for (const auto& note : index["notes"]) std::cout << "note: " << note.get<std::string>() << "\n";
  for (const auto& [key, value] : index["details"].items()) std::cout << key << ": " << value.dump() << "\n";
  if (index.contains("already_complete"))
    std::cout << options.output << ": is complete already; nothing was done\n";
  else
    std::cout << "asr run CONFIG.yaml --set stream.name=" << index["stream"].get<std::string>()
              << " --set stream.path=" << options.output << "\n";
}

}  // namespace

void add_prepare_command(CLI::App& app, Common& common) {
  auto* command =
      app.add_subcommand("prepare", "check a benchmark's official files and write them as a stream; downloads nothing");
  auto options = std::make_shared<PrepareOptions>();
  auto name = std::make_shared<std::string>();
  command->add_option("STREAM", *name, "vqav2-10 | vqacl | clt-vqa | coin | ucit | manifest, with :VARIANT")
      ->required();
  command
      ->add_option("--source", options->source,
                   "folder with the official files, plain or .gz; of manifest also one file")
      ->required();
  command->add_option("-o,--output", options->output, "folder to write into; created if absent")->required();
  command->add_option("--images", options->images, "folder of the images (default: the source)");
  command->add_flag_callback(
      "--no-images", [options] { options->check_images = false; }, "do not look whether the images are there");
  command->add_flag("--trust-pictures", options->trust_pictures,
                    "look whether the images are there, but do not open them");
  command->add_flag("--text-only", options->text_only, "rows without a picture are meant; else they are refused");
  command->add_option("--task-field", options->task_field,
                      "manifest: member of the rows that names their task (default: a file is a task)");
  command->add_flag("--skip-bad", options->skip_bad, "count and list bad rows instead of ending at the first");
  command->add_flag("--strict", options->strict, "counts that differ from the published ones are an error");
  command->add_flag("--native", options->native,
                    "score as the benchmark's own code does, with its quirks (docs/streams.md)");
  command->add_flag("--number-rows", options->number_rows, "ids by position, for files whose ids repeat");
  command->add_option("--seed", options->seed, "of the tuning images and of the long tail")->capture_default_str();
  command
      ->add_option("--tune-images", options->tune_images,
                   "vqav2-10: images of val set aside for tuning, never reported")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000000));
  command->add_option("--held-out", options->held_out,
                      "vqacl: concept group of novel composition, such as G3 (default: standard)");
  command->add_option("--imbalance", options->imbalance, "clt-vqa: rows of the most over the least frequent class")
      ->capture_default_str()
      ->check(between(1.0, 1e6));
  command->add_option("--min-count", options->min_count, "clt-vqa: classes with fewer training rows are left out")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  command->callback([options, name, &common] {
    const auto colon = name->find(':');
    options->stream = name->substr(0, colon);
    options->variant = colon == std::string::npos ? "" : name->substr(colon + 1);
    prepare(*options, common);
  });
}

}  // namespace asr
