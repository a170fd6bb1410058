// A run small enough for a test: a random backbone of 32 pixels and three tasks of the world.
#pragma once

#include <filesystem>

#include "base/atomic_file.h"
#include "io/png.h"
#include "tests/support/files.h"
#include "tests/support/small_model.h"
#include "train/runner.h"

namespace asr {

inline void write_small_model(const std::string& path, const std::string& kind = "tiny") {
  small_model(kind)->save(path);
}

inline std::vector<Assignment> small_run(const std::string& model, const std::string& out, const std::string& method) {
  const auto set = [](const std::string& key, const std::string& value) { return Assignment{key, value, "test"}; };
  return {set("model_name_or_path", model),
          set("output_dir", out),
          set("method", method),
          set("stream.name", "world-10"),
          set("stream.tasks", "3"),
          set("stream.train", "24"),
          set("stream.val", "8"),
          set("stream.image_size", "32"),
          set("per_device_train_batch_size", "8"),
          set("learning_rate", "0.01"),
          set("attention.layers", "2"),
          set("analysis.samples", "4"),
          set("logging_steps", "1"),
          set("er.buffer", "9"),
          set("vqacl.buffer", "9"),
          set("adapt-inf.buffer", "9"),
          set("bcp-mfa.buffer", "9"),
          set("save_steps", "2"),
          set("skills.parser", ASR_SOURCE_DIR "/assets/parser-world.safetensors")};
}

inline std::vector<std::string> run_small(std::vector<Assignment> assignments, bool resume = false) {
  return run_all({resolve_run(assignments), resume, "test"});
}

inline void write_grey_picture(const std::string& path, int level, int side = 32) {
  const std::vector<uint8_t> rgb(static_cast<size_t>(3 * side * side), static_cast<uint8_t>(level));
  write_text(path, encode_png(rgb.data(), side, side));
}

// The message of what was thrown, whatever its exit status; empty when nothing was.
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Two runs that must be equal to the last bit, file by file.
inline void expect_same_run(const std::string& a, const std::string& b) {
  for (const char* name : {"/matrix.csv", "/adapter/adapter_model.safetensors", "/memory.safetensors",
                           "/predictions/stage-03-task-02.jsonl", "/stages/03/kept.json",
                           "/stages/01/analysis.safetensors", "/stages/02/analysis.safetensors"})
    EXPECT_TRUE(std::filesystem::exists(b + name) && read_text(a + name) == read_text(b + name)) << b << name;
}

// Whatever of a run's folder depends on neither time nor how often it was stopped.
inline void expect_same_files(const std::string& a, const std::string& b) {
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(a)) {
    const auto name = std::filesystem::path(entry.path()).lexically_relative(a).string();
    const bool times = name == "metrics.json" || name == "log.jsonl" || name == "checksums.json" ||
                       name == "config.yaml" || name.rfind("checkpoints", 0) == 0;
    if (!entry.is_regular_file() || times) continue;
    EXPECT_TRUE(std::filesystem::exists(b + "/" + name) && read_text(a + "/" + name) == read_text(b + "/" + name))
        << name;
    ++files;
  }
  EXPECT_GT(files, 8);
}

}  // namespace asr
