// tools/run_many.py with a program of ours in place of asr: what is done is skipped, what failed is named.
#include <sys/wait.h>

#include <cstdlib>

#include "base/error.h"
#include "tests/support/files.h"

namespace asr {
namespace {

class RunMany : public testing::Test {
 protected:
  // Writes its arguments to a file beside its output folder, and fails where they say so.
  void SetUp() override {
    write_text(folder / "program",
               "#!/bin/sh\nfor word in \"$@\"; do case $word in output_dir=*) out=${word#output_dir=};; esac; done\n"
               "echo \"$@\" >>\"$out.calls\"\nmkdir -p \"$out\"\n"
               "case \"$*\" in *learning_rate=9*) echo 'asr: the loss is nan'; exit 1;; esac\n");
    std::filesystem::permissions(folder / "program", std::filesystem::perms::owner_all);
  }
  int run(const std::string& options = "--jobs 2") {
    const auto command = cat("python3 ", ASR_SOURCE_DIR, "/tools/run_many.py ", folder / "list", " --program ",
                             folder / "program", " ", options, " >", folder / "said", " 2>&1");
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string line(const std::string& name, const std::string& more = "") {
    return cat("c.yaml --set output_dir=", folder / name, " ", more, "\n");
  }
  TemporaryFolder folder;
};

TEST_F(RunMany, SkipsWhatIsDoneAndNamesWhatFailed) {
  write_text(folder / "list", "# two runs\n" + line("a") + "\n" + line("b", "--set learning_rate=9"));
  EXPECT_EQ(run("--gpu-jobs 1 --cpu-jobs 0"), 1);
  EXPECT_CONTAINS(read_text(folder / "a.calls"), "--threads 1 run c.yaml");
  EXPECT_CONTAINS(read_text(folder / "a.calls"), "--set device=cuda --resume");
  EXPECT_CONTAINS(read_text(folder / "said"), "b: asr: the loss is nan");
  EXPECT_CONTAINS(read_text(folder / "said"), "1 done, 1 failed, 0 left");
  write_text(folder / "list", line("a") + line("b", "--set learning_rate=9") + line("c"));  // it may grow
  EXPECT_EQ(run("--cpu-jobs 2"), 1);
  EXPECT_CONTAINS(read_text(folder / "said"), "1 of 3 are done already");
  const auto calls = read_text(folder / "a.calls"), again = read_text(folder / "b.calls");
  EXPECT_EQ(std::count(calls.begin(), calls.end(), '\n'), 1);
  EXPECT_EQ(std::count(again.begin(), again.end(), '\n'), 2);
  EXPECT_EQ(again.find("device=cpu"), std::string::npos);  // it ends on the device on which it began
  write_text(folder / "list", line("a") + line("c"));
  EXPECT_EQ(run(), 0);
}

TEST_F(RunMany, BadListsAreRefused) {
  const auto refused = [&](const std::string& list, const std::string& part) {
    write_text(folder / "list", list);
    EXPECT_EQ(run(), 2);
    EXPECT_CONTAINS(read_text(folder / "said"), part);
  };
  refused("\n", "holds no line");
  refused("c.yaml --set seeds=1\n", "list:1: has no --set output_dir");
  refused(line("a") + line("a"), "is also that of line 1");
  refused("c.yaml 'open\n", "list:1: No closing quotation");
  write_text(folder / "list", line("a"));
  EXPECT_EQ(run("--jobs 1 --cpu-jobs 1"), 2);
  EXPECT_EQ(run("--jobs 0"), 2);
}

}  // namespace
}  // namespace asr
