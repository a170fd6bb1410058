// Temporary folders, safetensors bytes made by hand, and where reference data lies.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"

namespace asr {

// A test's executable does not lie beside assets/, as the program does.
inline const bool assets_are_known = setenv("ASR_ASSETS", ASR_SOURCE_DIR "/assets", 0) == 0;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "asr-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A safetensors file with this header text and this data, right or wrong.
inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  std::string out(8, '\0');
  for (int i = 0; i < 8; ++i) out[i] = static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i));
  return out + header + data;
}

// Runs `action` and returns the message of the Error it must throw.
template <class Action>
std::string error_of(const Action& action, int status = 2) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.status, status) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << "more than one line: " << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was raised";
  return "";
}

// Under the sanitizers, ten to thirty times slower, tests of size and of real data take a part of the input.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

inline std::string shared_data() {
  const char* variable = std::getenv("ASR_TEST_DATA");
  return variable && *variable ? variable : ASR_SHARED_DATA;
}

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' lacks '" << part << "'";
}

}  // namespace asr

// A macro only so that a failure names the caller's line.
#define EXPECT_CONTAINS(text, part)         \
  do {                                      \
    SCOPED_TRACE("here");                   \
    ::asr::expect_contains((text), (part)); \
  } while (false)
