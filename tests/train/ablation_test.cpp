// Every named ablation and design variant trains over stages that share skills.
#include "base/folders.h"
#include "base/options.h"
#include "tests/train/run_support.h"

namespace asr {
namespace {

TEST(Ablations, AllTrain) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto configs = cat(ASR_SOURCE_DIR, "/configs/ablation/");
  const auto names = list_folder(configs);
  EXPECT_GE(names.size(), 15u);
  for (const auto& name : names) {
    auto list = small_run(folder / "model", folder / cat("out-", name), "asr");
    for (auto& a : parse_yaml_options(read_text(configs + name), name)) list.push_back(a);
    list.push_back({"stream.tasks", "2", "test"});
    EXPECT_EQ(message_of([&] { EXPECT_EQ(run_small(list).size(), 1u); }), "") << name;
  }
}

}  // namespace
}  // namespace asr
