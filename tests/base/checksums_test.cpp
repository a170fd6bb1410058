// checksums.json beside a run's files, and hashes of large files that are read once.
#include "base/checksums.h"

#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/content_hashes.h"
#include "tests/support/files.h"

namespace asr {
namespace {

namespace fs = std::filesystem;

TEST(Checksums, NoticeEveryFlippedByte) {
  TemporaryFolder folder;
  fs::create_directory(folder / "predictions");
  Checksums list(folder.path());
  EXPECT_FALSE(list.exist());
  list.stage("matrix.csv", "stage,a\n0,1\n");
  list.stage("predictions/x.jsonl", "{\"score\": 1}\n");
  list.commit();
  list.save();
  for (const char* name : {"matrix.csv", "predictions/x.jsonl", "checksums.json"}) {
    const auto content = read_text(folder / name);
    for (size_t i = 0; i < content.size(); ++i) {
      auto bad = content;
      bad[i] ^= 1;
      write_text(folder / name, bad);
      EXPECT_NE(
          error_of([&] { read_as_written(folder / (name == std::string("checksums.json") ? "matrix.csv" : name)); }),
          "")
          << name << " byte " << i;
    }
    write_text(folder / name, content);
  }
  EXPECT_EQ(read_as_written(folder / "matrix.csv"), "stage,a\n0,1\n");
  EXPECT_EQ(read_as_written(folder / "predictions/x.jsonl"), "{\"score\": 1}\n");
  write_text(folder / "predictions/y.jsonl", "{}\n");
  EXPECT_CONTAINS(error_of([&] { read_as_written(folder / "predictions/y.jsonl"); }), "added or renamed");
  check_if_listed(folder / "predictions/y.jsonl");
  fs::remove(folder / "checksums.json");
  EXPECT_EQ(read_as_written(folder / "predictions/y.jsonl"), "{}\n");
}

TEST(Checksums, AreTrueWhileAFileIsReplaced) {
  TemporaryFolder folder;
  Checksums list(folder.path());
  list.stage("metrics.json", "old");
  list.commit();
  list.save();
  // Killed before the file is written, and after: what lies there is right both times.
  list.stage("metrics.json", "new");
  list.stage("sub/none", "cannot be written");
  EXPECT_NE(error_of([&] { list.commit(); }), "");
  Checksums after(folder.path());
  EXPECT_EQ(after.problem("metrics.json", "old"), "");
  EXPECT_EQ(after.problem("metrics.json", "new"), "");
  EXPECT_NE(after.problem("metrics.json", "odd"), "");
  EXPECT_TRUE(after.settle());
  EXPECT_NE(after.problem("metrics.json", "old"), "");
  EXPECT_FALSE(after.settle());
}

TEST(Checksums, CoverTheBeginningOfWhatGrows) {
  TemporaryFolder folder;
  Checksums list(folder.path());
  list.cover_beginning("log.jsonl", 4, sha256_of("abc\n"));
  EXPECT_EQ(list.problem("log.jsonl", "abc\n"), "");
  EXPECT_EQ(list.problem("log.jsonl", "abc\nmore\n"), "");
  EXPECT_NE(list.problem("log.jsonl", "abd\nmore\n"), "");
  EXPECT_CONTAINS(list.problem("log.jsonl", "abc"), "has 3 bytes where checksums.json counts 4");
  list.cover_whole("log.jsonl", sha256_of("abc\n"));
  EXPECT_NE(list.problem("log.jsonl", "abc\nmore\n"), "");
}

TEST(Checksums, InTheFirstLine) {
  const auto text = with_checksum_line("a: 1\nb: 2\n");
  EXPECT_EQ(checked_by_line(text, "c.yaml"), "a: 1\nb: 2\n");
  for (size_t i = 0; i < text.size(); ++i) {
    auto bad = text;
    bad[i] ^= 1;
    EXPECT_NE(error_of([&] { checked_by_line(bad, "c.yaml"); }), "") << i;
  }
  EXPECT_NE(error_of([] { checked_by_line("", "c.yaml"); }), "");
}

TEST(ContentHashes, ReadAFileAgainWhereItsStampHasChanged) {
  TemporaryFolder folder;
  const auto path = folder / "weights", cache = folder / "hashes.json";
  write_text(path, "one");
  const auto hash = [&] {
    ContentHashes hashes(cache);
    const auto out = hashes.of(path, "test");
    hashes.save();
    return out;
  };
  EXPECT_EQ(hash(), sha256_of("one"));
  const auto kept = read_text(cache);
  EXPECT_EQ(hash(), sha256_of("one"));
  EXPECT_EQ(read_text(cache), kept);
  // Taken from the cache: a hash that was forged, with a right checksum of the cache, is what comes back.
  auto forged = nlohmann::json::parse(kept);
  forged["files"][path][1] = "forged";
  forged["sha256"] = sha256_of(forged["files"].dump());
  write_text(cache, forged.dump());
  EXPECT_EQ(hash(), "forged");
  write_text(cache, kept.substr(0, kept.size() / 2));  // a damaged cache counts for nothing
  EXPECT_EQ(hash(), sha256_of("one"));
  // The same size and, set back, the same time: the inode's own time tells.
  const auto time = fs::last_write_time(path);
  write_text(path, "two");
  fs::last_write_time(path, time);
  EXPECT_EQ(hash(), sha256_of("two"));
  EXPECT_CONTAINS(error_of([&] { ContentHashes("").of(folder / "none", "test"); }), "none");
  EXPECT_CONTAINS(error_of([&] { ContentHashes("").of(folder.path(), "test"); }), "not a regular file");
}

TEST(ContentHashes, OfManyFilesComeInOrder) {
  TemporaryFolder folder;
  std::vector<std::string> paths, expected;
  for (int i = 0; i < 200; ++i) {
    paths.push_back(folder / std::to_string(i));
    expected.push_back(sha256_of(cat("file ", i)));
    write_text(paths.back(), cat("file ", i));
  }
  paths.push_back(paths[3]);
  expected.push_back(expected[3]);
  EXPECT_EQ(ContentHashes("").of(paths, "test"), expected);
  fs::remove(paths[100]);
  EXPECT_CONTAINS(error_of([&] { ContentHashes("").of(paths, "test"); }), paths[100]);
}

}  // namespace
}  // namespace asr
