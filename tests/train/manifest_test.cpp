// A run notes the options of its own methods alone, so that a method that is new in a later version changes nothing for
// it; runs of earlier versions, which noted those of all methods, go on as before.
#include "base/checksums.h"
#include "base/interrupt.h"
#include "tests/train/run_support.h"
#include "train/audit.h"
#include "train/checkpoint.h"
#include "train/run_identity.h"

namespace asr {
namespace {

using nlohmann::json;

RunConfig config_with(const std::string& method, std::vector<Assignment> more = {}) {
  more.push_back({"method", method, "test"});
  return resolve_run(more);
}

TEST(Manifest, HoldsTheOptionsOfTheMethodsThatRun) {
  const auto plain = config_with("vanilla", {{"ewc.lambda", "7", "test"}}).manifest();
  EXPECT_EQ(methods_with_section(plain), std::vector<std::string>{"asr"});  // read by the analysis of every run
  const auto listed = config_with("[vanilla, asr+ewc, er]", {{"ewc.lambda", "7", "test"}}).manifest();
  EXPECT_EQ(methods_with_section(listed), (std::vector<std::string>{"ewc", "er", "asr"}));
  EXPECT_EQ(listed["ewc"]["lambda"], 7);
  // Read back, it is the same.
  EXPECT_EQ(resolve_run(parse_yaml_options(yaml_text(listed), "test")).manifest(), listed);
}

TEST(Manifest, AFingerprintIsOfItsOwnMethodsEvenAmongOthers) {
  const auto config = config_with("[asr+ewc, er]");
  RunKey key;
  key.composition = "asr+ewc";
  EXPECT_EQ(methods_with_section(run_fingerprint(config, key, json::object())["config"]),
            (std::vector<std::string>{"ewc", "asr"}));
}

TEST(Manifest, WhatIsStoredOfOtherMethodsIsNotCompared) {
  const auto config = config_with("ewc");
  RunKey key;
  key.composition = "ewc";
  const auto now = run_fingerprint(config, key, json::object());
  auto before = now;
  before["config"]["lwf"] = {{"weight", 3}};
  before["config"]["of-another-version"] = {{"rank", 3}};
  EXPECT_TRUE(check_same(before, now, "FOLDER").empty());
  before["config"]["ewc"]["lambda"] = 3;
  EXPECT_CONTAINS(message_of([&] { check_same(before, now, "FOLDER"); }), "another 'ewc.lambda'");
}

// A run that was stopped, as an earlier version would have left it: with the options of all methods.
class EarlierRun : public ::testing::Test {
 protected:
  void SetUp() override {
    write_small_model(folder_ / "model");
    options_ = small_run(folder_ / "model", folder_ / "out", "ewc");
    options_.push_back({"stream.tasks", "2", "test"});
    plan_stop(SIGINT, StopPlace::step);
    EXPECT_CONTAINS(message_of([&] { run_small(options_); }), "--resume");
    forget_stop();
    all_ = resolve_run(options_).manifest(method_names());
    ASSERT_GT(methods_with_section(all_).size(), 3u);
  }
  void rewrite(const json& config) const {
    auto checkpoint = load_latest_checkpoint(run_ + "/checkpoints");
    ASSERT_TRUE(checkpoint.has_value());
    EXPECT_EQ(methods_with_section(checkpoint->state["config"]), (std::vector<std::string>{"ewc", "asr"}));
    checkpoint->state["config"] = config;
    std::filesystem::remove_all(run_ + "/checkpoints");
    save_checkpoint(run_ + "/checkpoints", *checkpoint, {}, 2);
    Checksums files(run_);
    files.stage("config.yaml", with_checksum_line(yaml_text(config)));
    files.commit();
    files.save();
  }
  std::string violations() const {
    std::string out;
    for (const auto& violation : audit_run(run_, 4).violations) out += violation + "\n";
    return out;
  }

  TemporaryFolder folder_;
  const std::string run_ = folder_ / "out/ewc";
  std::vector<Assignment> options_;
  json all_;
};

TEST_F(EarlierRun, PassesTheAuditAndGoesOnToTheSameBits) {
  rewrite(all_);
  EXPECT_EQ(violations(), "");
  EXPECT_EQ(message_of([&] { run_small(options_, true); }), "");
  auto straight = options_;
  straight[1].value = folder_ / "straight";
  run_small(straight);
  for (const char* name : {"/matrix.csv", "/adapter/adapter_model.safetensors", "/stages/02/kept.json"})
    EXPECT_TRUE(read_text(run_ + name) == read_text((folder_ / "straight/ewc") + name)) << name;
}

TEST_F(EarlierRun, HidesNothingInTheOptionsOfOtherMethods) {
  all_["er"]["note"] = "what is the colour of the ball?";
  rewrite(all_);
  EXPECT_CONTAINS(violations(), "'config' holds more than the run's options");
  EXPECT_CONTAINS(violations(), "'er.note' is unknown");
}

}  // namespace
}  // namespace asr
