// asr pretrain: trains a built-in backbone from scratch on the world.
#include "train/pretrain.h"

#include <fmt/format.h>

#include <iostream>

#include "cli/command.h"

namespace asr {

void add_pretrain_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("pretrain", "train a built-in backbone from scratch on the world");
  auto o = std::make_shared<PretrainOptions>();
  command->add_option("-o,--out", o->out, "model file to write (safetensors, bfloat16)")->required();
  command->add_option("--backbone", o->backbone, "tiny or tiny_cross")->capture_default_str();
  command->add_option("--size", o->size, "S, M or L")->capture_default_str();
  command->add_option("--init", o->init, "go on from this model file instead of random weights")->type_name("FILE");
  command->add_option("--steps", o->steps, "optimizer steps")->capture_default_str()->check(CLI::Range(1, 10000000));
  command->add_option("--batch", o->batch, "samples a step")->capture_default_str()->check(CLI::Range(1, 65536));
  command->add_option("--pool", o->pool, "distinct samples to draw from")
      ->capture_default_str()
      ->check(CLI::Range(64, 100000000));
  command->add_option("--learning-rate", o->learning_rate, "peak of the cosine")
      ->capture_default_str()
      ->check(between(1e-8, 1.0));
  command->add_option("--weight-decay", o->weight_decay, "of AdamW")->capture_default_str()->check(between(0.0, 1.0));
  command->add_option("--warmup", o->warmup, "linear steps before the cosine")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000000));
  command->add_option("--seed", o->seed, "of weights and batches")->capture_default_str();
  command->add_option("--device", o->device, "cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command->add_option("--log", o->log, "JSON lines (default: OUT.log.jsonl)");
  command->add_option("--check-every", o->check_every, "steps between accuracy checks; 0 for none but the last")
      ->capture_default_str()
      ->check(CLI::Range(0, 10000000));
  command->add_option("--check-samples", o->check_samples, "validation samples a type and domain in the last check")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  command->callback([o, &common] {
    const auto result = pretrain(*o);
    if (common.json) return print_json(result);
    for (const auto& [stream, tasks] : result["accuracy"].items()) {
      std::vector<std::vector<std::string>> rows = {{stream, "plain", "majority", "hard", "majority"}};
      for (const auto& [task, domains] : tasks.items())
        rows.push_back({task, number(domains["plain"]["accuracy"], 1), number(domains["plain"]["majority"], 1),
                        number(domains["hard"]["accuracy"], 1), number(domains["hard"]["majority"], 1)});
      std::cout << text_table(rows);
    }
    std::cout << "wrote " << o->out << "\n";
  });
}

}  // namespace asr
