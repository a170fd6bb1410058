// asr doctor and asr tune as a user meets them; asr forward and asr generate on a reference model.
#include <filesystem>

#include "tests/support/program.h"
#include "tests/support/reference_models.h"
#include "tests/train/run_support.h"

namespace asr {
namespace {

void write_config(const TemporaryFolder& folder, const std::string& method) {
  std::string yaml;
  for (const auto& a : small_run(folder / "model", folder / "run", method)) yaml += a.key + ": " + a.value + "\n";
  write_text(folder / "c.yaml", yaml);
}

TEST(DoctorCommand, SaysWhatWouldStopARun) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  write_config(folder, "vanilla");
  const auto good = run_program({"doctor", folder / "c.yaml", "--json", "--images", "2"});
  ASSERT_EQ(good.status, 0) << good.error;
  EXPECT_TRUE(good.json()["passed"].get<bool>());
  const auto lost = run_program({"doctor", folder / "c.yaml", "--set", "model_name_or_path=./nowhere.safetensors"});
  EXPECT_EQ(lost.status, 2);
  EXPECT_CONTAINS(lost.out, "nowhere.safetensors");
  const auto typo = run_program({"doctor", folder / "c.yaml", "--set", "learning_rat=1"});
  EXPECT_EQ(typo.status, 2);
  EXPECT_CONTAINS(typo.out, "did you mean 'learning_rate'");
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

TEST(TuneCommand, WritesTheBestPoint) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  write_config(folder, "ewc");
  const auto tuned =
      run_program({"tune", folder / "c.yaml", "--grid", "ewc.lambda=[1, 100]", "--set", "stream.tasks=2", "--json"});
  ASSERT_EQ(tuned.status, 0) << tuned.error;
  EXPECT_EQ(tuned.json()["points"].size(), 2u);
  EXPECT_CONTAINS(read_text(folder / "run/tuned.yaml"), "ewc.lambda: ");
  const auto bad = run_program({"tune", folder / "c.yaml", "--grid", "ewc.lambda=1"});
  EXPECT_EQ(bad.status, 2);
  EXPECT_CONTAINS(bad.error, "give a list");
}

TEST(ModelCommands, ForwardAndGenerate) {
  for (const auto& name : reference_models()) {
    if (name.rfind("golden:", 0) == 0) continue;
    const auto model = open_reference(name);
    TemporaryFolder folder;
    const auto io = model.folder + "/io.safetensors";
    const auto forward = run_program({"forward", "--model", model.folder, "--adapter", model.folder + "/adapter", "-i",
                                      io, "-o", folder / "out.safetensors", "--grad", "--generate", "2", "--json"});
    ASSERT_EQ(forward.status, 0) << name << forward.error;
    const auto shapes = forward.json()["shapes"];
    EXPECT_TRUE(shapes.contains("logits") && shapes.contains("loss") && shapes.contains("generated")) << name;
    const auto generated =
        run_program({"generate", "--model", model.folder, "--prompt-ids", "5,6", "--max-new-tokens", "3", "--json"});
    ASSERT_EQ(generated.status, 0) << name << generated.error;
    EXPECT_LE(generated.json()["ids"].size(), 3u);
    const auto missing = run_program({"forward", "--model", model.folder, "-i", "none.safetensors", "-o", "x"});
    EXPECT_EQ(missing.status, 2);
  }
}

}  // namespace
}  // namespace asr
