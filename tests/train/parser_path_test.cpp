// Which skill parser a run reads, and what is said where it is not there.
#include "tests/train/run_support.h"

namespace asr {
namespace {

TEST(ParserPath, IsTheStreamsOwnOrTheOneNamed) {
  RunOptions run;
  setenv("ASR_ASSETS", ASR_SOURCE_DIR "/assets", 1);
  EXPECT_CONTAINS(run.parser_path(), "parser-world.safetensors");
  run.stream.name = "coin";
  EXPECT_CONTAINS(run.parser_path(), "parser-small.safetensors");
  run.stream.path = "data/coin";
  run.parser = "data/no-such-parser.safetensors";
  EXPECT_CONTAINS(message_of([&] { run.parser_path(); }),
                  "asr parser train --size paper --source data/coin --source templates -o data/no-such-parser");
  unsetenv("ASR_ASSETS");
}

TEST(ParserPath, ARunThatNamesNoneTakesTheStreams) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  auto list = small_run(folder / "model", folder / "out", "asr");
  list.push_back({"skills.parser", "", "test"});
  list.push_back({"stream.tasks", "1", "test"});
  setenv("ASR_ASSETS", ASR_SOURCE_DIR "/assets", 1);
  EXPECT_EQ(message_of([&] { run_small(list); }), "");
  unsetenv("ASR_ASSETS");
}

TEST(ParserPath, TheFilesOfThePaperNameIt) {
  for (const char* name : {"clt-vqa", "coin", "nextqa", "ucit", "vqacl", "vqav2-10"}) {
    const auto path = cat(ASR_SOURCE_DIR "/configs/paper/", name, ".yaml");
    const auto config = resolve_run(parse_yaml_options(read_text(path), path));
    EXPECT_EQ(config.run.parser, "data/parser-paper.safetensors") << name;
    EXPECT_EQ(config.run.geometry_batch, GeometryBatch::global) << name;
    EXPECT_NE(std::find(config.run.method.begin(), config.run.method.end(), "joint"), config.run.method.end()) << name;
  }
}

}  // namespace
}  // namespace asr
