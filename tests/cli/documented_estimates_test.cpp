// The plans that docs/runbook.md and docs/scaling.md print, against what `asr doctor` says by the same commands today.
#include <fmt/format.h>

#include <sstream>

#include "base/error.h"
#include "tests/support/program.h"
#include "train/estimate.h"

namespace asr {
namespace {

const std::string kRoot = ASR_SOURCE_DIR "/";

nlohmann::json estimate(const std::string& setting, const std::string& backbone, const std::vector<std::string>& more) {
  std::vector<std::string> command = {"doctor", kRoot + "configs/paper/" + setting + ".yaml",
                                      kRoot + "configs/backbones/" + backbone + ".yaml"};
  command.insert(command.end(), {"--assume", "--json", "--set", "output_dir=out"});
  command.insert(command.end(), more.begin(), more.end());
  const auto report = run_program(command);
  EXPECT_FALSE(report.out.empty()) << report.error;
  return report.json()["estimate"];
}

std::string hours(double seconds) {
  return seconds >= 36000 ? fmt::format("{:.0f}", seconds / 3600) : fmt::format("{:.1f}", seconds / 3600);
}

double number_at(const nlohmann::json& method, const char* field) {
  return method[field].get<double>();
}

// As tools/estimate_table.py makes it. Eight GPUs share everything (Estimate.TimeByHand): a program of its own for each
// `--processes` would take half a second.
std::string table_line(const std::string& setting, const std::string& backbone) {
  const std::map<std::string, int> effective = {{"vqav2-10", 16}, {"vqacl", 80}, {"nextqa", 80},
                                                {"clt-vqa", 80},  {"coin", 16},  {"ucit", 96}};
  const int batch = backbone == "llava-1.5-7b" || backbone == "instructblip-7b" ? 8 : 4;
  const auto accumulation = cat("gradient_accumulation_steps=", effective.at(setting) / batch);
  const std::vector<std::string> more = {"--gpu", "A100-80GB", "--set", "method=asr", "--set", accumulation};
  const auto one = estimate(setting, backbone, more);
  const auto& asr = one["methods"][0];
  const auto steps = asr["steps"].get<int>();
  return fmt::format("| {} | {} | {:.0f} + {:.0f} | {} | {:.0f} | {} | {} | {} | {} | {} |", setting, backbone,
                     one["tokens"]["visual"].get<double>(), one["tokens"]["text"].get<double>(),
                     steps >= 1000 ? fmt::format("{},{:03}", steps / 1000, steps % 1000) : cat(steps),
                     one["memory_bytes"]["peak"].get<double>() / 1e9, hours(number_at(asr, "training_seconds")),
                     hours(number_at(asr, "evaluation_seconds") + number_at(asr, "zero_shot_seconds")),
                     hours(number_at(asr, "memory_pass_seconds")), hours(number_at(asr, "seconds")),
                     hours(number_at(asr, "seconds") / (8 * kParallelShare)));
}

TEST(DocumentedEstimates, OfTheRunbookAreTodays) {
  const auto page = read_text(kRoot + "docs/runbook.md");
  int found = 0;
  for (const std::string setting : {"vqav2-10", "vqacl", "nextqa", "clt-vqa", "coin", "ucit"})
    for (const std::string backbone : {"llava-1.5-7b", "qwen2.5-vl-7b", "internvl3-8b", "instructblip-7b"}) {
      EXPECT_CONTAINS(page, "\n" + table_line(setting, backbone) + "\n");
      ++found;
    }
  EXPECT_EQ(found, 24);
}

TEST(DocumentedEstimates, OfSeveralGpusAreTodays) {
  const auto time = [](int processes) {
    return number_at(
        estimate("vqav2-10", "llava-1.5-7b",
                 {"--gpu", "H200", "--processes", cat(processes), "--set",
                  cat("per_device_train_batch_size=", 16 * processes), "--set", "gradient_accumulation_steps=1",
                  "--set", "gradient_checkpointing=no", "--set", "method=vanilla"}),
        "seconds");
  };
  std::string page;
  std::istringstream words(read_text(kRoot + "docs/scaling.md"));
  for (std::string word; words >> word;) page += word + " ";
  EXPECT_CONTAINS(page, fmt::format("with LLaVA-1.5-7B in {:.1f} h on one H200, {:.1f} h on 8 and {:.0f} min on 64 ",
                                    time(1) / 3600, time(8) / 3600, time(64) / 60));
}

}  // namespace
}  // namespace asr
