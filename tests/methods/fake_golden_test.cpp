// Every fake method on a model from a Hugging Face folder.
#include "tests/methods/fake_runs.h"
#include "tests/support/small_tokenizer.h"

namespace asr {
namespace {

TEST(FakeOnGolden, TrainsResumesAndAnswersAsItsAdapter) {
  register_fakes();
  TemporaryFolder place;
  const auto model = place / "llava";
  std::filesystem::copy(ASR_SOURCE_DIR "/tests/fixtures/models/llava", model, std::filesystem::copy_options::recursive);
  const auto config = nlohmann::json::parse(read_text(model + "/config.json"));
  if (!std::filesystem::exists(model + "/tokenizer.json")) write_small_tokenizer(model, config);
  for (const auto& fake : fake_cases()) {
    TemporaryFolder folder;
    const auto options = [&](const std::string& out) {
      auto list = fake_run(model, folder / out, fake);
      const auto set = [&](const std::string& key, const std::string& value) { list.push_back({key, value, "test"}); };
      set("stream.train", "4");
      set("stream.val", "2");
      set("per_device_train_batch_size", "2");
      set("attention.layers", "1");
      set("attention.grid", "6");
      return list;
    };
    const auto straight = undisturbed(options("straight"));
    const auto& base = straight.diary.base_of;
    ASSERT_EQ(base.size(), 3u) << fake.name;
    EXPECT_TRUE(base[0].equal(base[2])) << fake.name;
    expect_answers_as_evaluated(options("straight"), straight.folder);
    EXPECT_TRUE(audit_run(straight.folder, 4).passed()) << fake.name;
    run_disturbed(options("disturbed"));
    expect_same_files(straight.folder, folder / "disturbed/" + fake.name);
    run_with_two(options("two"), folder / "two");
    expect_close_logs(straight.folder, folder / "two/" + fake.name, 2e-4);
    expect_close_adapters(straight.folder, folder / "two/" + fake.name, 2e-3);
  }
}

}  // namespace
}  // namespace asr
