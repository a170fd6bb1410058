// tools/paper_table.sh with a program of ours in place of asr: every benchmark of a table, and VQACL's held-out groups
// that were prepared.
#include <sys/wait.h>

#include <cstdlib>

#include "base/error.h"
#include "tests/support/files.h"

namespace asr {
namespace {

class PaperTable : public testing::Test {
 protected:
  void SetUp() override {
    write_text(folder / "program", cat("#!/bin/sh\necho \"$@\" >>", folder / "calls", "\n"));
    std::filesystem::permissions(folder / "program", std::filesystem::perms::owner_all);
    for (const char* stream : {"vqacl", "vqacl-G2", "nextqa-G0"})
      std::filesystem::create_directories(folder / "data" + "/" + stream);
  }
  int run(const std::string& table) {
    const auto command = cat("ASR=", folder / "program", " DATA=", folder / "data", " ", ASR_SOURCE_DIR,
                             "/tools/paper_table.sh ", table, " ", folder / "out", " ", ASR_SOURCE_DIR,
                             "/configs/backbones/llava-1.5-7b.yaml --set a=b >", folder / "said", " 2>&1");
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  TemporaryFolder folder;
};

TEST_F(PaperTable, RunsEveryBenchmarkAndThePreparedGroups) {
  ASSERT_EQ(run("vqa"), 0) << read_text(folder / "said");
  const auto calls = read_text(folder / "calls");
  std::string folders;
  for (const char* name : {"vqav2-10", "vqacl", "vqacl-G2", "nextqa", "nextqa-G0", "clt-vqa"}) {
    EXPECT_CONTAINS(calls, cat("--set output_dir=", folder / "out", "/", name, " "));
    EXPECT_CONTAINS(calls, cat("--set stream.path=", folder / "data", "/", name, " "));
    folders += cat(" ", folder / "out", "/", name);
  }
  EXPECT_CONTAINS(calls, cat("compare", folders, " --layout paper-vqa --format markdown"));
  EXPECT_EQ(std::count(calls.begin(), calls.end(), '\n'), 7);
  const auto said = read_text(folder / "said");
  EXPECT_CONTAINS(said, "vqacl-G1 is not there, so vqacl is not run with G1 held out");
  EXPECT_EQ(said.find("vqacl-G2"), std::string::npos);
}

TEST_F(PaperTable, TheOtherTableHasNoGroups) {
  ASSERT_EQ(run("cit"), 0) << read_text(folder / "said");
  const auto calls = read_text(folder / "calls");
  EXPECT_EQ(std::count(calls.begin(), calls.end(), '\n'), 3);
  EXPECT_CONTAINS(calls, cat("compare ", folder / "out", "/coin ", folder / "out", "/ucit --layout paper-cit"));
  EXPECT_EQ(run("vqb"), 2);
  EXPECT_CONTAINS(read_text(folder / "said"), "'vqb' is no table");
}

}  // namespace
}  // namespace asr
