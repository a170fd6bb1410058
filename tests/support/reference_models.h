// Reference models with what transformers computes on them: ours under tests/fixtures/models, and those of the shared
// data.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/golden.h"

namespace asr {

// Names of models to test; those of the shared data begin with "golden:".
inline std::vector<std::string> reference_models() {
  std::vector<std::string> out = {"golden:llava-a", "golden:qwen2_5_vl-a", "golden:internvl3-a",
                                  "golden:instructblip-a"};
  const std::string ours = std::string(ASR_SOURCE_DIR) + "/tests/fixtures/models";
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(ours, error))
    if (entry.is_directory()) out.push_back(entry.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

inline Golden open_reference(const std::string& name) {
  if (name.rfind("golden:", 0) == 0) return open_golden(name.substr(7));
  Golden out;
  out.place = std::make_unique<TemporaryFolder>();
  out.folder = *out.place / name;
  std::filesystem::copy(std::string(ASR_SOURCE_DIR) + "/tests/fixtures/models/" + name, out.folder,
                        std::filesystem::copy_options::recursive);
  out.config = nlohmann::json::parse(read_text(out.folder + "/config.json"));
  out.io = read_safetensors(out.folder + "/io.safetensors");
  return out;
}

inline std::string test_name(std::string name) {
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

}  // namespace asr
