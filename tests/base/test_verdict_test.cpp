// tools/test_verdict.sh on what ctest writes: a skipped test is not a passed one, and missing reference data or a slow
// suite is not green.
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "tests/support/files.h"

namespace asr {
namespace {

// A suite of which one test is skipped, which ctest takes for passed; the same suite with other arithmetic; a test that
// is registered by itself; two commands that are no test programs.
const char* const kOutput =
    "    Start 1: ops: Norm\n"
    "1/5 Test #1: ops: Norm .......................   Passed    0.27 sec\n"
    "2/5 Test #2: ops as on narrow ................***Skipped   0.47 sec\n"
    "3/5 Test #3: Files.Protoc ....................***Skipped   0.00 sec\n"
    "4/5 Test #4: format ..........................***Skipped   0.00 sec\n"
    "5/5 Test #5: documented results ..............   Passed    0.00 sec\n\n"
    "100% tests passed, 0 tests failed out of 5\n\n"
    "The following tests did not run:\n\t  2 - ops as on narrow (Skipped)\n\t  3 - Files.Protoc (Skipped)\n";

const char* const kLog =
    "[ RUN      ] Norm.Values\n"
    "[       OK ] Norm.Values (3 ms)\n"
    "[       OK ] Norm.Gradients/0 (3 ms)\n"
    "[       OK ] Norm.Gradients/1, where GetParam() = 2 (3 ms)\n"
    "[ RUN      ] Norm.OnTheGpu\n"
    "no CUDA kernels here\n"
    "[  SKIPPED ] Norm.OnTheGpu (0 ms)\n"
    "[  PASSED  ] 3 tests.\n"
    "[  SKIPPED ] 1 test, listed below:\n"
    "[  SKIPPED ] Norm.OnTheGpu\n"
    "[  SKIPPED ] Norm.Values (0 ms)\n"  // elsewhere; it passed above
    "[  SKIPPED ] Files.Protoc (0 ms)\n";

class TestVerdict : public testing::Test {
 protected:
  int judge(const std::string& status, const std::string& seconds) {
    write_text(folder / "output", output);
    write_text(folder / "log", log);
    const auto command = cat(ASR_SOURCE_DIR, "/tools/test_verdict.sh ", folder / "output", " ", folder / "log", " ",
                             status, " ", seconds, " >", folder / "said", " 2>&1");
    const int ended = std::system(command.c_str());
    said = read_text(folder / "said");
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
  }
  std::string output = kOutput, log = kLog, said;
  TemporaryFolder folder;
};

TEST_F(TestVerdict, CountsEverySingleTestOnce) {
  EXPECT_EQ(judge("0", "257"), 0);
  EXPECT_EQ(said, "all green: 4 tests passed, 4 skipped, 257 s\n");
}

TEST_F(TestVerdict, MissingReferenceDataIsNotGreen) {
  log += "no reference data at /nowhere/goldens/llava-a.tar.gz; set ASR_TEST_DATA\n";
  EXPECT_EQ(judge("0", "257"), 1);
  EXPECT_CONTAINS(said, "NOT green: 4 tests passed, 4 skipped, 257 s; reference data was not found: no reference data");
  EXPECT_CONTAINS(said, "/nowhere/goldens/llava-a.tar.gz");
}

TEST_F(TestVerdict, ASlowSuiteIsNotGreen) {
  EXPECT_EQ(judge("0", "300"), 0);
  EXPECT_EQ(judge("0", "301"), 1);
  EXPECT_EQ(said, "NOT green: 4 tests passed, 4 skipped, 301 s; over the 300 s that it may take\n");
}

TEST_F(TestVerdict, FailedTestsAreNamed) {
  output += "\nThe following tests FAILED:\n\t  1 - ops: Norm (Failed)\n\t  7 - cli: Run 1/2 (SEGFAULT)\n";
  EXPECT_EQ(judge("8", "257"), 1);
  EXPECT_EQ(said, "NOT green: 4 tests passed, 4 skipped, 257 s; failed: cli: Run 1/2;ops: Norm\n");
}

TEST_F(TestVerdict, NothingThatRanIsNotGreen) {
  output = "No tests were found!!!\n";
  log.clear();
  EXPECT_EQ(judge("0", "1"), 1);
  EXPECT_EQ(said, "NOT green: 0 tests passed, 0 skipped, 1 s; no test ran\n");
}

}  // namespace
}  // namespace asr
