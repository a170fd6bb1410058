// One flipped byte in any file of a finished run is noticed by the commands that read the file, in one line that names
// it and says what to do.
#include <filesystem>
#include <map>

#include "tests/support/program.h"
#include "tests/train/run_support.h"

namespace asr {
namespace {

namespace fs = std::filesystem;

// Which commands read a file of OUT/vanilla; none: docs/files.md says that none does.
std::vector<std::vector<std::string>> readers_of(const std::string& name, const std::string& out) {
  const auto run = out + "/vanilla";
  const std::vector<std::string> compare = {"compare", out}, report = {"report", out, "-o", out + "/r.html"},
                                 audit = {"audit", out};
  if (name == "metrics.json" || name == "matrix.csv") return {compare, report};
  if (name == "log.jsonl") return {report};
  if (name == "checksums.json") return {compare, report};
  if (name == "state.safetensors" || name == "kept.safetensors") return {audit};
  if (name == "fingerprint.json" || name == "config.yaml") return {{"report", out, "-o", out + "/r.html"}};
  if (name == "analysis.safetensors")
    return {report, {"drift", run + "/stages/01/analysis.safetensors", run + "/stages/02/analysis.safetensors"}};
  if (name == "memory.safetensors")
    return {{"drift", run + "/stages/01/memory.safetensors", run + "/stages/02/memory.safetensors"}};
  return {};
}

TEST(Damage, AFlippedByteIsNoticedByEveryReader) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto out = folder / "out";
  std::string yaml;
  std::map<std::string, std::string> options;
  for (const auto& o : small_run(folder / "model", out, "vanilla")) options[o.key] = o.value;
  options["stream.tasks"] = "2";
  options["stream.val"] = "4";
  options["save_total_limit"] = "1";
  for (const auto& [key, value] : options) yaml += key + ": " + value + "\n";
  write_text(folder / "c.yaml", yaml);
  ASSERT_EQ(run_program({"run", folder / "c.yaml", "--threads", "1"}).status, 0);
  int checked = 0;
  std::vector<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(out))
    if (entry.is_regular_file()) paths.push_back(entry.path().string());
  for (const auto& path : paths) {
    const auto name = fs::path(path).filename().string(), content = read_text(path);
    // A run's own notes of what it is made of are read by --resume alone.
    if (path.find("/vanilla/") != std::string::npos && (name == "fingerprint.json" || name == "config.yaml")) continue;
    if (path == out + "/vanilla/memory.safetensors") continue;
    for (const auto& command : readers_of(name, out)) {
      SCOPED_TRACE(path + " by asr " + command[0]);
      auto bad = content;
      bad[bad.size() / 2] ^= 1;
      write_text(path, bad);
      const auto outcome = run_program(command);
      EXPECT_NE(outcome.status, 0);
      EXPECT_CONTAINS(outcome.error, name);
      write_text(path, content);
      ++checked;
    }
  }
  EXPECT_GE(checked, 15);
  EXPECT_EQ(run_program({"compare", out}).status, 0);
}

TEST(Damage, PredictionsAndAdapterAreCheckedBeforeTheyAreUsed) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto out = folder / "out";
  std::string yaml;
  for (const auto& o : small_run(folder / "model", out, "vanilla"))
    if (o.key != "method" && o.key != "stream.tasks") yaml += o.key + ": " + o.value + "\n";
  write_text(folder / "c.yaml", yaml + "method: [vanilla, er]\nstream.tasks: 2\n");
  ASSERT_EQ(run_program({"run", folder / "c.yaml", "--threads", "1"}).status, 0);
  const auto spoil = [](const std::string& path) {
    auto bytes = read_text(path);
    bytes[bytes.size() / 2] ^= 1;
    write_text(path, bytes);
  };
  const auto predictions = out + "/er/predictions/stage-02-task-01.jsonl", content = read_text(predictions);
  spoil(predictions);
  const auto compared = run_program({"compare", out});
  EXPECT_EQ(compared.status, 2);
  EXPECT_CONTAINS(compared.error, "stage-02-task-01.jsonl: does not match its checksum");
  fs::remove(predictions);
  const auto without = run_program({"compare", out});
  EXPECT_EQ(without.status, 0) << without.error;
  EXPECT_CONTAINS(without.out, "missing are predictions/stage-02-task-01.jsonl");
  write_text(predictions, content);
  fs::remove(out + "/er/checksums.json");
  EXPECT_CONTAINS(run_program({"compare", out}).out, "has no checksums.json");
}

}  // namespace
}  // namespace asr
