// Pictures and vision features of earlier runs change no bit of a run.
#include "tests/train/run_support.h"
#include "train/data.h"

namespace asr {
namespace {

namespace fs = std::filesystem;

class DataCache : public testing::Test {
 protected:
  DataCache() { write_small_model(folder_ / "model"); }
  std::string run(const std::string& out, const std::string& cache, const std::string& seeds = "[0]") const {
    auto list = small_run(folder_ / "model", folder_ / out, "er");
    if (!cache.empty()) list.push_back({"data.cache", folder_ / cache, "test"});
    list.push_back({"seeds", seeds, "test"});
    return run_small(list)[0];
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    for (const auto& entry : fs::directory_iterator(std::string(folder_ / "cache")))
      if (entry.path().extension() == ".tensor") out.push_back(entry.path());
    return out;
  }
  TemporaryFolder folder_;
};

TEST_F(DataCache, RunsWithItAreEqualToTheLastBit) {
  const auto plain = run("plain", ""), first = run("first", "cache");
  EXPECT_EQ(files().size(), 12u);  // pictures and features of three tasks, training and validation
  std::map<fs::path, fs::file_time_type> times;
  for (const auto& file : files()) times[file] = fs::last_write_time(file);
  const auto second = run("second", "cache");
  expect_same_files(plain, first);
  expect_same_files(plain, second);
  for (const auto& file : files()) EXPECT_EQ(times.at(file), fs::last_write_time(file)) << file;
}

TEST_F(DataCache, ADamagedFileIsMadeAgain) {
  const auto first = run("first", "cache");
  for (const auto& file : files()) {
    auto bytes = read_text(file);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    write_file_atomically(file, bytes);
  }
  testing::internal::CaptureStderr();
  const auto second = run("second", "cache");
  EXPECT_CONTAINS(testing::internal::GetCapturedStderr(), "is damaged; it is made again");
  expect_same_files(first, second);
  testing::internal::CaptureStderr();
  run("third", "cache");
  EXPECT_EQ(testing::internal::GetCapturedStderr().find("damaged"), std::string::npos);
}

TEST_F(DataCache, OtherSamplesAndOtherBasesAreOtherFiles) {
  run("first", "cache");
  const auto before = files().size();
  run("seed", "cache", "[3]");
  EXPECT_EQ(files().size(), 2 * before);
  write_small_model(folder_ / "model", "tiny_cross");
  run("base", "cache");
  EXPECT_EQ(files().size(), 2 * before + before / 2);  // the pictures are the same
}

TEST_F(DataCache, AModelIsHashedOnceForAllOutputFolders) {
  run("first", "cache");
  const fs::path known = std::string(folder_ / "cache/hashes.json");
  ASSERT_TRUE(fs::exists(known));
  EXPECT_FALSE(fs::exists(std::string(folder_ / "first/hashes.json")));
  const auto written = fs::last_write_time(known);
  run("second", "cache");
  EXPECT_EQ(fs::last_write_time(known), written) << "nothing new was learnt";
  run("third", "");
  EXPECT_TRUE(fs::exists(std::string(folder_ / "third/hashes.json")));
}

// Where pictures are files, their content is part of what is looked for.
TEST_F(DataCache, PicturesOfChangedFilesAreOthers) {
  const auto model = load_backbone(folder_ / "model");
  const auto with = [&](const std::string& pictures) {
    return KeptSamples(folder_ / "cache", {{"pictures", pictures}, {"model", "m"}}, *model);
  };
  with("a").keep_pictures("task", torch::ones({1, 3, 2, 2}, at::kByte));
  EXPECT_TRUE(with("a").pictures("task").defined());
  EXPECT_FALSE(with("a").pictures("other task").defined());
  EXPECT_FALSE(with("b").pictures("task").defined());
}

// A run may go on without the folder, or with another.
TEST_F(DataCache, IsNoPartOfWhatARunIs) {
  const auto made = run("out", "cache");
  auto list = small_run(folder_ / "model", folder_ / "out", "er");
  EXPECT_EQ(message_of([&] { run_small(list, true); }), "");
  EXPECT_EQ(read_text(made + "/fingerprint.json").find("cache"), std::string::npos);
}

}  // namespace
}  // namespace asr
