#include "io/mapped_file.h"

#include <sys/wait.h>

#include "tests/support/files.h"

namespace asr {
namespace {

TEST(MappedFile, ReadersAreToldThatItBecameShorter) {
  TemporaryFolder folder;
  write_text(folder / "rows", std::string(20000, 'x'));
  const auto file = MappedFile::open(folder / "rows");
  EXPECT_NO_THROW(file->check_whole());
  std::filesystem::resize_file(folder / "rows", 19999);
  EXPECT_CONTAINS(error_of([&] { file->check_whole(); }, 1),
                  (folder / "rows") + ": has become shorter while it was in use (20000 bytes, now 19999)");
  std::filesystem::resize_file(folder / "rows", 30000);  // longer is no loss
  EXPECT_NO_THROW(file->check_whole());
}

TEST(MappedFile, ReadingWhatIsGoneIsOneLine) {
  TemporaryFolder folder;
  write_text(folder / "weights", std::string(20000, 'x'));
  const pid_t child = fork();
  if (child == 0) {
    if (!std::freopen((folder / "said").c_str(), "w", stderr)) _exit(99);
    const auto file = MappedFile::open(folder / "weights");
    std::filesystem::resize_file(folder / "weights", 0);
    const volatile uint8_t* bytes = file->bytes().data;
    _exit(bytes[10000] == 'x' ? 0 : 3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
  const auto said = read_text(folder / "said");
  EXPECT_EQ(said.find("asr: " + (folder / "weights") + ": has become shorter while it was in use; restore it"), 0u);
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
}

}  // namespace
}  // namespace asr
