// What every method owes, on the other kinds of backbones: cross-attention, a decoder and a Q-Former from Hugging Face
// folders.
// Killed, stopped and resumed it ends in the same bits, and its audit passes.
#include <filesystem>

#include "tests/methods/ended_runs.h"
#include "tests/support/process_runs.h"
#include "tests/support/small_tokenizer.h"
#include "train/audit.h"

namespace asr {
namespace {

const std::vector<std::string>& methods_of_the_program() {
  static const auto names = method_names();
  return names;
}

class OtherBackbones : public ::testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
    place_ = new TemporaryFolder;
    write_small_model(*place_ / "cross", "tiny_cross");
    for (const std::string name : {"llava", "instructblip"}) {
      std::filesystem::copy(ASR_SOURCE_DIR "/tests/fixtures/models/" + name, *place_ / name,
                            std::filesystem::copy_options::recursive);
      const auto config = nlohmann::json::parse(read_text(*place_ / name + "/config.json"));
      if (!std::filesystem::exists(*place_ / name + "/tokenizer.json")) write_small_tokenizer(*place_ / name, config);
    }
  }
  static void TearDownTestSuite() {
    delete place_;
    place_ = nullptr;
  }
  // Two stages of two steps.
  static void expect_kept_promises(const std::string& model, const Settings& more) {
    TemporaryFolder folder;
    const auto options = [&](const std::string& out) {
      auto list = small_run(*place_ / model, folder / out, GetParam());
      Settings all = {{"stream.tasks", "2"}, {"stream.train", "16"},     {"stream.val", "4"},
                      {"save_steps", "1"},   {"analysis.samples", "2"},  {"per_device_train_batch_size", "8"},
                      {"er.buffer", "5"},    {"analysis.overlays", "0"}, {"d-mole.epochs", "2"}};
      all.insert(all.end(), more.begin(), more.end());
      for (const auto& [key, value] : all) list.push_back({key, value, "test"});
      return list;
    };
    const auto straight = run_small(options("straight"))[0];
    EXPECT_TRUE(audit_run(straight, 4).passed());
    EXPECT_EQ(run_through_ends(options("ended"), 2), 3) << "killed, stopped and left alone";
    expect_same_files(straight, folder / "ended/" + GetParam());
  }
  static TemporaryFolder* place_;
};
TemporaryFolder* OtherBackbones::place_ = nullptr;

std::string name_of_case(const ::testing::TestParamInfo<std::string>& entry) {
  std::string out = entry.param;
  for (char& c : out)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return out;
}

INSTANTIATE_TEST_SUITE_P(Registered, OtherBackbones, ::testing::ValuesIn(methods_of_the_program()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Combined, OtherBackbones, ::testing::Values("asr+route", "asr+keeplora", "asr+o-lora"),
                         name_of_case);

// Under the closed head, with accumulation: two stages of one step, by one process and by two.
TEST_P(OtherBackbones, WithTheClosedHeadAndTwoProcesses) {
  for (const std::string model : {"cross", "llava", "instructblip"}) {
    TemporaryFolder folder;
    const auto options = [&](const std::string& out) {
      auto list = small_run(*place_ / model, folder / out, GetParam());
      for (const auto& [key, value] : Settings{{"head", "answers"},
                                               {"stream.tasks", "2"},
                                               {"stream.train", "8"},
                                               {"stream.val", "4"},
                                               {"gradient_accumulation_steps", "2"},
                                               {"per_device_train_batch_size", "4"},
                                               {"attention.layers", "1"},
                                               {"attention.grid", "6"},
                                               {"analysis.samples", "2"},
                                               {"analysis.overlays", "0"},
                                               {"spectral.covariance_floor", "0.01"},
                                               {"er.buffer", "4"},
                                               {"d-mole.epochs", "2"}})
        list.push_back({key, value, "test"});
      return list;
    };
    const auto one = run_small(options("one"))[0];
    run_with_two(options("two"), folder / "two");
    expect_close_runs(one, folder / "two/" + GetParam(), 2e-3, /*spectra=*/false,
                      /*adapters_turn=*/GetParam() == "keeplora");
    const auto metrics = nlohmann::json::parse(read_text(one + "/metrics.json"));
    EXPECT_EQ(metrics["head"], "answers") << model;
  }
}

TEST_P(OtherBackbones, WithCrossAttention) {
  expect_kept_promises("cross", {});
}

TEST_P(OtherBackbones, FromAModelFolder) {
  expect_kept_promises("llava", {{"attention.layers", "1"}, {"attention.grid", "6"}});
}

TEST_P(OtherBackbones, WithAQFormer) {
  expect_kept_promises("instructblip", {{"attention.layers", "1"}, {"attention.grid", "6"}});
}

TEST_P(OtherBackbones, OnAGpu) {
  if (!runtime_info().cuda) GTEST_SKIP() << "there is no GPU here";
  expect_kept_promises("cross", {{"device", "cuda"}});
  for (const char* model : {"llava", "instructblip"})
    expect_kept_promises(model, {{"device", "cuda"}, {"attention.layers", "1"}, {"attention.grid", "6"}});
}

}  // namespace
}  // namespace asr
