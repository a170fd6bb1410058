// What a command reads, and what others wrote, stays as it is: results never replace inputs, a bad stage leaves a
// memory alone, and updates at once all count.
#include <filesystem>

#include "tensor/tensor_io.h"
#include "tests/support/image_files.h"
#include "tests/support/program.h"
#include "tests/support/run_folder.h"

namespace asr {
namespace {

std::string write_stage(const TemporaryFolder& folder, const std::string& name, double largest = 1) {
  auto descriptor = torch::rand({3, 54}, at::kDouble);
  descriptor[0][0] = largest;
  save_tensors(folder / name,
               {{"descriptor", descriptor},
                {"angular", torch::rand({3, 8}, at::kDouble)},
                {"posterior", torch::full({3, 2}, 0.5, at::kDouble)}},
               {});
  return folder / name;
}

TEST(InputsKept, AStageWhoseVariancesOverflowIsRefused) {
  TemporaryFolder folder;
  const auto memory = folder / "memory";
  ASSERT_EQ(run_program({"memory", "update", memory, "-i", write_stage(folder, "good")}).status, 0);
  const auto before = read_text(memory);
  expect_refused({"memory", "update", memory, "-i", write_stage(folder, "huge", 1e300)}, "huge: the moments of ");
  EXPECT_EQ(read_text(memory), before);
}

TEST(InputsKept, UpdatesAtOnceAllCount) {
  TemporaryFolder folder;
  const auto memory = folder / "memory", stage = write_stage(folder, "stage");
  constexpr int kUpdates = 4;
  std::vector<pid_t> children;
  for (int i = 0; i < kUpdates; ++i)
    children.push_back(
        start_program({"memory", "update", memory, "-i", stage}, folder / ("error" + std::to_string(i))));
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_EQ(run_program({"memory", "show", memory, "--json"}).json()["stages"].get<int>(), kUpdates);
}

TEST(InputsKept, NoResultReplacesWhatIsRead) {
  TemporaryFolder folder;
  const auto in = folder / "in";
  save_tensors(in,
               {{"attention", torch::rand({1, 1, 1, 2, 4, 4})},
                {"functional", torch::ones({1, 2})},
                {"valid", torch::ones({1, 2})}},
               {});
  std::filesystem::create_symlink("in", folder / "link");
  for (const char* output : {"in", "link", "./in"})
    expect_refused({"spectrum", in, "-o", folder / output}, "is what is read here");
  const auto picture = folder / "p.png";
  write_text(picture, write_png({}, {1, 2, 3}));
  expect_refused({"preprocess", "--model", folder.path(), picture, "-o", picture}, "is what is read here");
  write_text(folder / "notes.txt", "mine");
  expect_refused({"world", "export", "-o", folder.path(), "--train", "1", "--val", "1"}, "is not empty");
}

TEST(InputsKept, AReportReplacesReportsAlone) {
  TemporaryFolder folder;
  const auto run = write_run(folder.path(), {});
  const auto log = run + "/metrics.json", before = read_text(log);
  expect_refused({"report", folder.path(), "-o", log}, "metrics.json: is there and is no report");
  EXPECT_EQ(read_text(log), before);
  for (int time = 0; time < 2; ++time)
    EXPECT_EQ(run_program({"report", folder.path(), "-o", folder / "page.html"}).status, 0) << time;
}

// NaN is above no bound and below none.
TEST(InputsKept, NoNumberIsNoNumberOfARange) {
  TemporaryFolder folder;
  const auto stage = write_stage(folder, "stage"), memory = folder / "memory";
  ASSERT_EQ(run_program({"memory", "update", memory, "-i", stage}).status, 0);
  for (const char* option : {"--eta", "--rho0", "--floor"})
    expect_refused({"drift", memory, memory, option, "nan"}, "is no number from 0 to");
  expect_refused({"pretrain", "-o", folder / "model", "--learning-rate", "nan"}, "nan is no number from 1e-08 to 1");
  expect_refused({"parser", "train", "-o", folder / "parser", "--epochs", "nan"}, "nan is no number");
}

Outcome run_shell(const std::string& line, const std::string& folder) {
  const auto whole = line + " 2>" + folder + "/said";
  const int status = std::system(whole.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), "", read_text(folder + "/said")};
}

TEST(InputsKept, StreamsThatAreClosedFullOrFolders) {
  TemporaryFolder folder;
  const std::string program = ASR_PROGRAM;
  const auto closed = run_shell(program + " skills <&- >" + folder.path() + "/out", folder.path());
  EXPECT_EQ(closed.status, 2);
  EXPECT_CONTAINS(closed.error, "there is no question");
  const auto of_folder = run_shell(program + " skills </ >" + folder.path() + "/out", folder.path());
  EXPECT_EQ(of_folder.status, 2);
  EXPECT_CONTAINS(of_folder.error, "stdin cannot be read");
  for (const char* said : {" --version", " run --help"}) {
    const auto full = run_shell(program + said + " >/dev/full", folder.path());
    EXPECT_EQ(full.status, 1) << said;
    EXPECT_CONTAINS(full.error, "stdout cannot be written to");
  }
  // A limit to the size of files, in blocks of half a kilobyte.
  const auto stage = write_stage(folder, "stage");
  const auto small =
      run_shell("ulimit -f 4; " + program + " memory update " + (folder / "small") + " -i " + stage, folder.path());
  EXPECT_EQ(small.status, 1);
  EXPECT_CONTAINS(small.error, "write failed: File too large");
  EXPECT_FALSE(std::filesystem::exists(folder / "small"));
}

TEST(InputsKept, PlacesThatCannotBeMade) {
  TemporaryFolder folder;
  expect_refused({"demo", "--out", ""}, "--out is empty");
  expect_refused({"demo", "--out", "/proc/none"}, "/proc/none: cannot be created: No such file or directory; choose");
  const auto config = std::string(ASR_SOURCE_DIR) + "/configs/world-hue.yaml";
  const auto named = run_program({"run", config, "--set", "output_dir=" + (folder / std::string(300, 'x'))});
  EXPECT_EQ(named.status, 2);
  EXPECT_CONTAINS(named.error, "File name too long; choose another place");
  expect_refused({"run", config, "--set", "method=[vanilla, vanilla]"}, "method: one stands twice");
  // A list is one word, and what follows it is not part of it.
  expect_refused({"admit", "--rates", "0.001,0.002", config, "--set", "output_dir="}, "output_dir is not set");
}

}  // namespace
}  // namespace asr
