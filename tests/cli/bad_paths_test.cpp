// Paths that lead nowhere and files that cannot be read are the user's to change: status 2 and one line that names
// them.
#include <filesystem>

#include "tests/support/image_files.h"
#include "tests/support/program.h"

namespace asr {
namespace {

namespace fs = std::filesystem;

TEST(BadPaths, LinksThatLeadToThemselves) {
  TemporaryFolder folder;
  const auto loop = folder / "loop";
  fs::create_symlink("loop", loop);
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"tokenize", "--model", loop},
           {"compare", loop},
           {"report", loop},
           {"audit", loop},
           {"run", loop},
           {"matrix", loop},
           {"memory", "show", loop},
           {"drift", loop, loop},
           {"preprocess", "--model", loop, loop, "-o", folder / "x"},
           {"prepare", "manifest", "--source", loop, "-o", folder / "y"},
           {"generate", "--model", loop, "--prompt", "a"},
       }) {
    const auto outcome = run_program(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments[0] << ": " << outcome.error;
    EXPECT_EQ(std::count(outcome.error.begin(), outcome.error.end(), '\n'), 1) << arguments[0] << outcome.error;
    EXPECT_EQ(outcome.error.find("internal"), std::string::npos) << arguments[0] << ": " << outcome.error;
    EXPECT_CONTAINS(outcome.error, "loop");
  }
  // A loop inside a folder that is fine itself.
  fs::create_directories(folder / "out");
  fs::create_symlink("run", folder / "out/run");
  const auto inside = run_program({"compare", folder / "out"});
  EXPECT_EQ(inside.status, 2) << inside.error;
  EXPECT_EQ(inside.error.find("internal"), std::string::npos) << inside.error;
  // And one where something is to be written.
  const auto output = run_program({"prepare", "manifest", "--source", folder.path(), "-o", loop + "/deeper"});
  EXPECT_EQ(output.status, 2) << output.error;
}

TEST(BadPaths, FilesThatCannotBeRead) {
  const std::string unreadable = "/proc/self/mem";  // a regular file whose first page is none
  if (!fs::exists(unreadable)) GTEST_SKIP() << "no " << unreadable;
  expect_refused({"run", unreadable}, "/proc/self/mem: cannot be read: Input/output error");
  TemporaryFolder folder;
  fs::create_symlink(unreadable, folder / "tokenizer.json");
  expect_refused({"tokenize", "--model", folder.path()}, "tokenizer.json: cannot be read");
}

TEST(BadPaths, FactorsThatMakeNoPixels) {
  TemporaryFolder folder;
  write_text(folder / "p.png", write_png({}, {1, 2, 3}));
  for (const char* entry : {"\"rescale_factor\": 1e-310", "\"image_std\": [1e-320, 1, 1]",
                            "\"rescale_factor\": 1e-39, \"image_mean\": [1e30, 0, 0]"}) {
    write_text(folder / "preprocessor_config.json",
               std::string("{\"image_processor_type\": \"CLIPImageProcessor\", \"size\": 8, ") + entry + "}");
    expect_refused({"preprocess", "--model", folder.path(), folder / "p.png", "-o", folder / "out"},
                   "make pixels that are no finite numbers");
    EXPECT_FALSE(fs::exists(folder / "out"));
  }
}

}  // namespace
}  // namespace asr
