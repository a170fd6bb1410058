// Sizes of benchmarks whose files are not there.
#include "streams/published_sizes.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/png.h"
#include "streams/stream.h"
#include "tests/support/files.h"

namespace asr {
namespace {

TEST(PublishedSizes, AddUp) {
  const auto totals = [](const std::string& stream, const std::string& path) {
    int64_t train = 0, scored = 0;
    for (const auto& task : published_sizes(stream, path).tasks) {
      train += task.train;
      scored += task.scored;
    }
    return std::make_pair(train, scored);
  };
  EXPECT_EQ(totals("vqav2-10", "data/vqav2-10").first, 443757);
  EXPECT_EQ(totals("vqav2-10:asr", "x").second, 214354 - 214354 * 5000 / 40504);
  EXPECT_EQ(totals("vqacl", "data/nextqa"), std::make_pair(int64_t(37231), int64_t(9085)));
  EXPECT_EQ(published_sizes("vqacl", "data/vqacl").tasks.size(), 10u);
  EXPECT_EQ(published_sizes("clt-vqa", "x").tasks.size(), 9u);
  EXPECT_EQ(published_sizes("coin", "x").tasks.size(), 8u);
  EXPECT_EQ(totals("ucit", "x").second, 18000);
  EXPECT_TRUE(published_sizes("vqacl", "data/nextqa").verified);
  EXPECT_FALSE(published_sizes("coin", "x").verified);
  EXPECT_THROW(published_sizes("world-10", ""), Error);
}

// A task of VQA v2 has a tenth of a picture's 5.3 questions, and a picture's chance to have several of them.
TEST(PublishedSizes, QuestionsShareTheirPictures) {
  const auto first = [](const std::string& stream) { return published_sizes(stream, "x").tasks[0]; };
  const double mean = 18789 / 35504.0;
  EXPECT_NEAR(questions_a_picture(first("vqav2-10")), mean / (1 - std::exp(-mean)), 1e-4);
  EXPECT_EQ(questions_a_picture(first("ucit")), 1);
  EXPECT_NEAR(questions_a_picture({"all of VQA v2", 1, 214354, 40504}), 214354 / 40504.0, 0.03);
}

// Rows of a folder by their files; drawn pictures are each row's own.
TEST(QuestionsAPicture, AreCountedByFile) {
  TemporaryFolder folder;
  std::string rows;
  for (const std::string image : {"a.png", "b.png", "a.png", "a.png", ""}) {
    nlohmann::json row = {{"id", std::to_string(rows.size())}, {"question", "is it?"}, {"answer", "yes"}};
    if (!image.empty()) {
      row["image"] = image;
      write_text(folder / image, encode_png(std::vector<uint8_t>(3).data(), 1, 1));
    }
    rows += row.dump() + "\n";
  }
  for (const std::string split : {"train", "val"}) write_text(folder / (split + ".jsonl"), rows);
  const nlohmann::json task = {{"name", "t"}, {"files", {{"train", "train.jsonl"}, {"val", "val.jsonl"}}}};
  write_text(folder / "stream.json", nlohmann::json{{"tasks", {task}}, {"text_only", true}}.dump());
  StreamOptions options;
  options.name = "manifest";
  options.path = folder.path();
  EXPECT_DOUBLE_EQ(questions_a_picture(*make_stream(options), 0, DataSplit::val), 5 / 3.0);
  options = {};
  options.val = 7;
  EXPECT_EQ(questions_a_picture(*make_stream(options), 0, DataSplit::val), 1);
}

}  // namespace
}  // namespace asr
