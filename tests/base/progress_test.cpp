#include "base/progress.h"

#include "tests/support/files.h"

namespace asr {
namespace {

TEST(Progress, LineFitsEveryWindow) {
  std::FILE* sink = std::tmpfile();
  Progress progress("training", 200, sink);
  progress.advance(50, "loss 1.25");
  for (int columns : {1, 5, 20, 40, 80, 200})
    EXPECT_LT(static_cast<int>(progress.line(10, columns).size()), std::max(columns, 1)) << columns;
  EXPECT_CONTAINS(progress.line(10, 100), "25%");
  EXPECT_CONTAINS(progress.line(10, 100), "50/200");
  EXPECT_CONTAINS(progress.line(10, 100), "30s left");
  progress.finish();
  std::fclose(sink);
}

TEST(Progress, PlainLinesWhenNotATerminal) {
  TemporaryFolder folder;
  std::FILE* file = std::fopen((folder / "log").c_str(), "w");
  {
    Progress progress("steps", 3, file);
    for (int i = 0; i < 3; ++i) progress.advance();
    progress.finish();
    Progress unfinished("never", 3, file);  // leaves no line behind: an error message follows it
  }
  std::fclose(file);
  const auto text = read_text(folder / "log");
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_EQ(text, "steps 3/3, 0s\n");
}

}  // namespace
}  // namespace asr
