#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <iostream>
#include <set>

#include "base/atomic_file.h"
#include "base/folders.h"
#include "base/sha256.h"
#include "tests/support/files.h"

namespace asr {
namespace {

TEST(AtomicFile, ReplacesOnlyOnCommit) {
  TemporaryFolder folder;
  const auto path = folder / "out";
  write_text(path, "old");
  {
    AtomicFile file(path);
    file.write("half of the new");
  }
  EXPECT_EQ(read_text(path), "old");
  write_file_atomically(path, "new");
  EXPECT_EQ(read_text(path), "new");
  int entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++entries;
  EXPECT_EQ(entries, 1) << "a temporary file was left behind";
}

TEST(AtomicFile, BadPlacesAreNamed) {
  TemporaryFolder folder;
  EXPECT_CONTAINS(error_of([&] { write_file_atomically(folder / "no/such/file", "x"); }), "does not exist");
  EXPECT_CONTAINS(error_of([&] { write_file_atomically(folder.path(), "x"); }), "is a folder");
  EXPECT_CONTAINS(error_of([&] { write_file_atomically("", "x"); }), "empty");
}

TEST(AtomicFile, AFailedWriteKeepsTheOldFile) {
  TemporaryFolder folder;
  const auto path = folder / "out";
  write_text(path, "old");
  // A limit on file sizes stands in for a full disk.
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 1000;
  std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const auto message = error_of([&] { write_file_atomically(path, std::string(1 << 16, 'x')); }, 1);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_CONTAINS(message, "the old file is untouched");
  EXPECT_EQ(read_text(path), "old");
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp-" + std::to_string(getpid())));
}

TEST(AtomicFile, LinksModesAndSpecialFiles) {
  TemporaryFolder folder;
  write_text(folder / "target", "old");
  chmod((folder / "target").c_str(), 0600);
  std::filesystem::create_symlink(folder / "target", folder / "link");
  write_file_atomically(folder / "link", "new");
  EXPECT_EQ(read_text(folder / "target"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(std::filesystem::status(folder / "target").permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  mkfifo((folder / "pipe").c_str(), 0600);
  EXPECT_CONTAINS(error_of([&] { write_file_atomically(folder / "pipe", "x"); }), "not a regular file");
  EXPECT_CONTAINS(error_of([&] { read_file(folder / "pipe"); }), "not a regular file");
  EXPECT_CONTAINS(error_of([&] { read_file("/dev/zero"); }), "not a regular file");
}

TEST(AtomicFile, TemporariesOfAKilledProcessAreKnown) {
  TemporaryFolder folder;
  EXPECT_TRUE(is_unused_folder(folder / "none"));
  EXPECT_TRUE(is_unused_folder(folder.path()));
  write_text(folder / "a.json.tmp-123", "half");
  EXPECT_TRUE(is_unused_folder(folder.path()));
  for (const char* name : {"notes.tmp-new", "notes.tmp-", "tmp-1"}) write_text(folder / name, "a user's");
  EXPECT_FALSE(is_unused_folder(folder.path()));
  EXPECT_FALSE(is_unused_folder(folder / "tmp-1"));  // no folder at all
  std::filesystem::create_directory(folder / "inner");
  write_text(folder / "inner/b.tmp-7", "half");
  remove_temporaries(folder.path());
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
    left.insert(entry.path().filename().string());
  EXPECT_EQ(left, (std::set<std::string>{"notes.tmp-new", "notes.tmp-", "tmp-1", "inner"}));
}

TEST(Folders, AreMadeListedAndRemoved) {
  TemporaryFolder folder;
  EXPECT_FALSE(path_exists(folder / "a"));
  EXPECT_TRUE(list_folder(folder / "a").empty());
  make_folders(folder / "a/b");
  make_folders(folder / "a/b");  // there already
  write_text(folder / "a/c", "x");
  EXPECT_TRUE(path_exists(folder / "a/c"));
  EXPECT_EQ(list_folder(folder / "a"), (std::vector<std::string>{"b", "c"}));
  EXPECT_CONTAINS(error_of([&] { make_folders(folder / "a/c/d"); }), "a/c/d: cannot be created");
  EXPECT_FALSE(path_exists(folder / "a/c/d"));  // below a file: not there, and no exception
  EXPECT_FALSE(path_exists(std::string(5000, 'x')));
  remove_tree(folder / "a");
  remove_tree(folder / "a");
  EXPECT_FALSE(path_exists(folder / "a"));
}

TEST(ReadFile, MissingFolderAndOversizedAreErrors) {
  TemporaryFolder folder;
  EXPECT_CONTAINS(error_of([&] { read_file(folder / "missing"); }), "No such file");
  EXPECT_CONTAINS(error_of([&] { read_file(folder.path()); }), "is a folder");
  write_text(folder / "big", std::string(100, 'x'));
  EXPECT_CONTAINS(error_of([&] { read_file(folder / "big", 10); }), "more than");
}

TEST(Sha256, PublishedVectors) {
  const auto hex = [](const std::string& text) {
    Sha256 hash;
    hash.update(text);
    return hash.hex();
  };
  EXPECT_EQ(hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, TheProcessorsInstructionsGiveTheSameHash) {
  const auto own = sha256_blocks_of_processor();
  if (!own) GTEST_SKIP() << "this processor has none for SHA-256";
  std::string text;
  for (int i = 0; i < 400; ++i) text += static_cast<char>(i * i * 31 + i / 7);
  for (size_t begin : {0, 1, 3})
    for (size_t size = 0; size + begin <= text.size(); ++size) {
      Sha256 plain(sha256_blocks_plain), fast(own);
      plain.update(text.data() + begin, size);
      fast.update(text.data() + begin, size);
      ASSERT_EQ(fast.hex(), plain.hex()) << size << " bytes from " << begin;
    }
  const std::string much(1 << 25, 'a');
  for (const auto blocks : {sha256_blocks_plain, own}) {
    const auto start = std::chrono::steady_clock::now();
    Sha256 hash(blocks);
    hash.update(much);
    EXPECT_EQ(hash.hex().size(), 64u);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    std::cout << (blocks == own ? "with" : "without")
              << " the processor's instructions: " << static_cast<double>(much.size()) / 1e9 / taken.count()
              << " GB a second\n";
  }
}

TEST(Sha256, PiecesGiveTheSameHash) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 7);
  Sha256 whole, pieces;
  whole.update(text);
  size_t at = 0;
  for (size_t step = 1; at < text.size(); step = step % 97 + 1) {
    pieces.update(text.substr(at, step));
    at += step;
  }
  EXPECT_EQ(whole.hex(), pieces.hex());
}

// Such a link is the user's to change: status 2.
TEST(AtomicFile, ALinkToAPlaceWithoutFilesIsNamed) {
  TemporaryFolder folder;
  ASSERT_EQ(symlink("/proc/self/mem", (folder / "out").c_str()), 0);
  EXPECT_CONTAINS(error_of([&] { write_file_atomically(folder / "out", "x"); }), "cannot write here");
}

}  // namespace
}  // namespace asr
