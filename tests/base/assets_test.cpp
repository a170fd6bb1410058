#include "base/assets.h"

#include "tests/support/files.h"

namespace asr {
namespace {

TEST(Assets, TheVariableGoesFirstAndAnErrorListsThePlaces) {
  TemporaryFolder folder;
  write_text(folder / "thing", "x");
  setenv("ASR_ASSETS", folder.path().c_str(), 1);
  EXPECT_EQ(find_asset("thing"), folder / "thing");
  const auto message = error_of([] { find_asset("no-such-thing"); });
  EXPECT_CONTAINS(message, folder.path());
  EXPECT_CONTAINS(message, "/../assets");
  EXPECT_CONTAINS(message, "./assets");
  unsetenv("ASR_ASSETS");
  EXPECT_CONTAINS(error_of([] { find_asset("no-such-thing"); }), "set ASR_ASSETS");
}

}  // namespace
}  // namespace asr
