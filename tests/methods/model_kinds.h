// Stages of one step each on the kinds of model that the contract test does not run, with both heads.
#pragma once

#include "tests/support/small_tokenizer.h"
#include "tests/train/run_support.h"
#include "train/audit.h"

namespace asr {

inline void expect_runs_on_every_kind(const std::string& method,
                                      const std::vector<std::pair<std::string, std::string>>& settings = {}) {
  TemporaryFolder folder;
  write_small_model(folder / "cross", "tiny_cross");
  for (const std::string name : {"llava", "instructblip"}) {
    std::filesystem::copy(ASR_SOURCE_DIR "/tests/fixtures/models/" + name, folder / name,
                          std::filesystem::copy_options::recursive);
    const auto config = nlohmann::json::parse(read_text(folder / name + "/config.json"));
    if (!std::filesystem::exists(folder / name + "/tokenizer.json")) write_small_tokenizer(folder / name, config);
  }
  for (const std::string name : {"cross", "llava", "instructblip"}) {
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
    const auto run = run_small(list)[0];
    EXPECT_TRUE(audit_run(run, 4).passed()) << name;
  }
}

}  // namespace asr
