#include "cli/help.h"

#include <sstream>

#include "tests/support/program.h"

namespace asr {
namespace {

// Into a file, and into a narrow window; a word that is longer stays whole.
TEST(Help, StaysWithinItsWindow) {
  for (const size_t columns : {size_t(120), size_t(70)}) {
    if (columns == 70) setenv("COLUMNS", "70", 1);
    for (const char* command : {"run", "tune", "compare", "admit", "doctor", "spectrum", "report"}) {
      std::istringstream help(run_program({command, "--help"}).out);
      for (std::string line; std::getline(help, line);)
        EXPECT_TRUE(line.size() <= columns || line.size() - line.rfind(' ') + 31 > columns) << command << ": " << line;
    }
    unsetenv("COLUMNS");
  }
  // Prose is broken by the window alone: no line of it ends early.
  setenv("COLUMNS", "70", 1);
  EXPECT_CONTAINS(run_program({"evaluate", "--help"}).out, "counts whose slot\n");
  unsetenv("COLUMNS");
  EXPECT_EQ(help_within("  --a N     one two three\nUsage: asr\n", 20),
            "  --a N     one two\n            three\nUsage: asr\n");
}

}  // namespace
}  // namespace asr
