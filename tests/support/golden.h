// A reference model of others, unpacked: its folder, its config.json and the tensors that went in and came out.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "tensor/tensor_io.h"
#include "tests/support/archive.h"
#include "tests/support/files.h"

namespace asr {

struct Golden {
  std::unique_ptr<TemporaryFolder> place;
  std::string folder;
  nlohmann::json config;
  Safetensors io;

  torch::Tensor real(const std::string& name) const { return load_real(io, name); }
  torch::Tensor index(const std::string& name) const { return load_index(io, name); }
};

// Without reference data the test is skipped, which the caller sees by testing::Test::IsSkipped().
inline Golden open_golden(const std::string& name) {
  Golden out;
  const std::string archive = shared_data() + "/goldens/" + name + ".tar.gz";
  const auto open = [&] {
    if (!std::filesystem::exists(archive)) GTEST_SKIP() << "no reference data at " << archive << "; set ASR_TEST_DATA";
    out.place = std::make_unique<TemporaryFolder>();
    ASSERT_TRUE(unpack(archive, out.place->path()));
    out.folder = *out.place / name;
    out.config = nlohmann::json::parse(read_text(out.folder + "/config.json"));
    out.io = read_safetensors(out.folder + "/io.safetensors");
  };
  open();
  return out;
}

}  // namespace asr
