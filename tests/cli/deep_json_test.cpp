// Brackets without end, numbers beyond a double and values of another type, in every JSON file that a command reads:
// status 2 and one line that names the file.
#include <filesystem>

#include "tests/support/program.h"
#include "tests/train/run_support.h"

namespace asr {
namespace {

namespace fs = std::filesystem;

const std::string kBad[] = {std::string(100000, '['), std::string(100000, '[') + std::string(100000, ']'),
                            "{\"complete\": 1e999}", "[]", "7"};

void expect_one_line(const std::vector<std::string>& arguments, const std::string& file, const std::string& bad) {
  const auto outcome = run_program(arguments);
  EXPECT_EQ(outcome.status, 2) << arguments[0] << " with " << file << " = " << bad.substr(0, 40) << ": "
                               << outcome.error;
  EXPECT_EQ(outcome.error.find("internal"), std::string::npos) << outcome.error;
  EXPECT_CONTAINS(outcome.error, fs::path(file).filename().string());
}

class DeepJson : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    made_ = new TemporaryFolder;
    write_small_model(*made_ / "model");
    auto options = small_run(*made_ / "model", *made_ / "out", "ewc");
    std::string yaml;
    for (const auto& o : options) yaml += o.key + ": " + o.value + "\n";
    write_text(*made_ / "c.yaml", yaml);
    ASSERT_EQ(run_program({"run", *made_ / "c.yaml", "--threads", "1"}).status, 0);
  }
  static void TearDownTestSuite() {
    delete made_;
    made_ = nullptr;
  }
  // Each bad text in the place of the file, which is put back afterwards.
  static void expect_refused_with(const std::string& file, const std::vector<std::string>& arguments) {
    const auto path = *made_ / file, good = read_text(path);
    for (const auto& bad : kBad) {
      write_text(path, bad);
      expect_one_line(arguments, file, bad);
    }
    write_text(path, good);
  }
  static TemporaryFolder* made_;
};
TemporaryFolder* DeepJson::made_ = nullptr;

TEST_F(DeepJson, FilesOfARun) {
  expect_refused_with("out/ewc/metrics.json", {"compare", *made_ / "out"});
  expect_refused_with("out/ewc/log.jsonl", {"report", *made_ / "out", "-o", *made_ / "r.html"});
}

TEST_F(DeepJson, FilesOfAModel) {
  const std::string source = std::string(ASR_SOURCE_DIR) + "/tests/fixtures/models/llava";
  fs::copy(source, *made_ / "llava", fs::copy_options::recursive);
  const std::vector<std::string> generate = {
      "generate", "--model",     *made_ / "llava",   "--adapter", *made_ / "llava/adapter",
      "--prompt", "what is it?", "--max-new-tokens", "1"};
  for (const char* file : {"llava/config.json", "llava/tokenizer.json", "llava/tokenizer_config.json",
                           "llava/adapter/adapter_config.json"})
    expect_refused_with(file, generate);
}

TEST_F(DeepJson, FilesOfAStream) {
  fs::create_directories(*made_ / "stream");
  write_text(*made_ / "stream/stream.json", "{}");
  expect_refused_with("stream/stream.json",
                      {"run", *made_ / "c.yaml", "--set", "stream.name=manifest", "--set",
                       "stream.path=" + (*made_ / "stream"), "--set", "output_dir=" + (*made_ / "other")});
}

}  // namespace
}  // namespace asr
