// asr tokenize as other programs call it.
#include "tests/support/program.h"
#include "tests/support/tokenizer_files.h"

namespace asr {
namespace {

TEST(TokenizeCommand, LinesThereAndBack) {
  const TemporaryFolder folder;
  write_text(folder / "tokenizer.json", byte_level_json({{"a", "b"}}).dump());
  write_text(folder / "text", "ab\\nab\\\\\n\nc\n");
  const auto encoded = run_program({"tokenize", "--model", folder.path()}, folder / "text");
  EXPECT_EQ(encoded.status, 0) << encoded.error;
  EXPECT_EQ(encoded.out, "256 10 256 92\n\n99\n");
  write_text(folder / "ids", encoded.out);
  const auto decoded = run_program({"tokenize", "--model", folder.path(), "--decode"}, folder / "ids");
  EXPECT_EQ(decoded.status, 0) << decoded.error;
  EXPECT_EQ(decoded.out, read_text(folder / "text"));
  const auto json = run_program({"tokenize", "--model", folder.path(), "--json"}, folder / "text").json();
  EXPECT_EQ(json.at("lines").size(), 3u);
  EXPECT_EQ(json.at("lines")[0].at("offsets")[2], nlohmann::json({3, 5}));
}

TEST(TokenizeCommand, BadInput) {
  const TemporaryFolder folder;
  expect_refused({"tokenize", "--model", folder.path()}, "neither tokenizer.json nor tokenizer.model");
  expect_refused({"tokenize", "--model", folder / "none"}, "no such folder");
  write_text(folder / "tokenizer.json", byte_level_json({}).dump());
  write_text(folder / "ids", "97 x\n");
  const auto outcome = run_program({"tokenize", "--model", folder.path(), "--decode"}, folder / "ids");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_CONTAINS(outcome.error, "line 1: 'x' is not a token id");
}

}  // namespace
}  // namespace asr
