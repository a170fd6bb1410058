// A method on the kinds of model that the contract test does not run, with accumulation: cross-attention under the
// closed head, and a Q-Former before a decoder from a Hugging Face folder. Two stages of one step, audited.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/small_tokenizer.h"
#include "tests/train/run_support.h"
#include "train/audit.h"

namespace asr {

inline void expect_runs_on_every_kind(const std::string& method,
                                      const std::vector<std::pair<std::string, std::string>>& settings = {}) {
  TemporaryFolder folder;
  write_small_model(folder / "cross", "tiny_cross");
  std::filesystem::copy(ASR_SOURCE_DIR "/tests/fixtures/models/instructblip", folder / "qformer",
                        std::filesystem::copy_options::recursive);
  const auto config = nlohmann::json::parse(read_text(folder / "qformer/config.json"));
  if (!std::filesystem::exists(folder / "qformer/tokenizer.json")) write_small_tokenizer(folder / "qformer", config);
  for (const std::string name : {"cross", "qformer"}) {
    auto list = small_run(folder / name, folder / ("out-" + name), method);
    const auto set = [&](const std::string& key, const std::string& value) { list.push_back({key, value, "test"}); };
    set("stream.tasks", "2");
    set("stream.train", "4");
    set("stream.val", "2");
    set("per_device_train_batch_size", "2");
    set("gradient_accumulation_steps", "2");
    set("attention.layers", "1");
    set("attention.grid", "6");
    set("head", name == "cross" ? "answers" : "generate");
    for (const auto& [key, value] : settings) set(key, value);
    const auto audit = audit_run(run_small(list)[0], 4);
    EXPECT_TRUE(audit.passed()) << name << audit.to_json().dump(1);
  }
}

}  // namespace asr
