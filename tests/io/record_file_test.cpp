#include "io/record_file.h"

#include <zlib.h>

#include <filesystem>
#include <regex>

#include "tests/support/archive.h"
#include "tests/support/files.h"

namespace asr {
namespace {

struct Seen {
  std::string text, key;
  bool in_map;
  size_t line, column;
};

std::vector<Seen> read(const std::string& path, const BadLine& bad = {}) {
  std::vector<Seen> out;
  read_records(
      path,
      [&](const FileRecord& r) {
        out.push_back({r.value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), r.key, r.in_map, r.line,
                       r.column});
        EXPECT_EQ(r.number, out.size());
      },
      bad);
  return out;
}

class RecordFile : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    write_text(folder_ / name, text);
    return folder_ / name;
  }
  std::string message(const std::string& name, const std::string& text) {
    const auto path = file(name, text);
    return error_of([&] { read(path); }).substr(folder_.path().size() + 1);
  }
  TemporaryFolder folder_;
};

TEST_F(RecordFile, DocumentsOfAllShapes) {
  const auto array = read(file("a.json", "\xef\xbb\xbf[{\"a\":[{\"b\":1}]},\r\n [2, {}], \"x\"]"));
  ASSERT_EQ(array.size(), 3u);
  EXPECT_EQ(array[0].text, "{\"a\":[{\"b\":1}]}");
  EXPECT_EQ(array[1].text, "[2,{}]");
  EXPECT_EQ(array[1].line, 2u);
  EXPECT_EQ(array[1].column, 2u);
  const auto keyed = read(file("k.json", "{\"info\":{\"x\":1},\"questions\":[{\"q\":{\"z\":[]}},{}],\"n\":3}"));
  ASSERT_EQ(keyed.size(), 4u);
  EXPECT_EQ(keyed[0].key, "info");
  EXPECT_TRUE(keyed[0].in_map);
  EXPECT_EQ(keyed[1].key, "questions");
  EXPECT_EQ(keyed[1].text, "{\"q\":{\"z\":[]}}");
  EXPECT_FALSE(keyed[2].in_map);
  EXPECT_EQ(keyed[3].text, "3");
  const auto map = read(file("m.json", "{\"COCO_1\": 50,\n \"COCO_2\": 47}"));
  ASSERT_EQ(map.size(), 2u);
  EXPECT_EQ(map[1].key, "COCO_2");
  EXPECT_EQ(map[1].line, 2u);
  EXPECT_EQ(read(file("s.json", "17")).size(), 1u);
  EXPECT_EQ(read(file("e.json", "[]")).size(), 0u);
}

TEST_F(RecordFile, SyntaxErrorsNameLineAndColumn) {
  EXPECT_CONTAINS(message("a.json", "[{\"a\":1},\n {\"a\":}]"), "a.json:2:7: not valid JSON");
  EXPECT_CONTAINS(message("a.json", "[{\"a\":1}"), "a.json:1:8: not valid JSON");
  EXPECT_CONTAINS(message("a.json", ""), "a.json:1:1: not valid JSON");
  EXPECT_CONTAINS(message("a.json", "[\"\xff\"]"), "a.json:1:3: not valid JSON");
  EXPECT_CONTAINS(message("a.json", "[1]\n[2]"), "a.json:2:1: not valid JSON");
  EXPECT_CONTAINS(message("a.json", std::string("[1]\0", 4)), "a.json:1:4: not valid JSON");
  EXPECT_CONTAINS(message("l.jsonl", "{}\n{\"a\":x}\n"), "l.jsonl:2:6: not valid JSON");
  EXPECT_CONTAINS(message("none/../l2.jsonl", ""), "No such file");
}

TEST_F(RecordFile, BadLinesCanBePassedOver) {
  std::vector<std::string> bad;
  const auto note = [&](size_t line, size_t column, const std::string&) { bad.push_back(cat(line, ":", column)); };
  const auto seen = read(file("l.jsonl", "\xef\xbb\xbf{\"a\":1}\r\n\r\n{\"a\":\n{\"a\":\"\xc0\"}\n{\"a\":2}"), note);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[1].line, 5u);
  EXPECT_EQ(bad, (std::vector<std::string>{"3:6", "4:7"}));
}

TEST_F(RecordFile, CsvWithQuotesLineEndsAndMarks) {
  const auto seen =
      read(file("n.csv", "\xef\xbb\xbf,video,question\r\n0,12,\"who, \"\"he\"\"\r\nor she\"\r\n\r\n1,13,plain\n"));
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].text, "{\"column 1\":\"0\",\"question\":\"who, \\\"he\\\"\\r\\nor she\",\"video\":\"12\"}");
  EXPECT_EQ(seen[0].line, 2u);
  EXPECT_EQ(seen[1].line, 5u);
  EXPECT_CONTAINS(message("c.csv", "a,b\n1\n"), "c.csv:2:1: has 1 fields, but the header has 2");
  EXPECT_CONTAINS(message("c.csv", "a,b\n1,\"x\n2,3\n"), "c.csv:2: a quoted field does not end");
  EXPECT_CONTAINS(message("c.csv", "a,b\n1,\"x\" y\n"), "c.csv:2:1: text after the closing quote");
  EXPECT_CONTAINS(message("c.csv", "a,a\n1,2\n"), "column 'a' stands twice");
  EXPECT_CONTAINS(message("c.csv", "a,b\n1,\xff\n"), "c.csv:2:1: field 'b' is not UTF-8");
  EXPECT_CONTAINS(message("c.csv", "\n\n"), "has no header");
}

TEST_F(RecordFile, GzipInOneOrSeveralMembersAndDamaged) {
  const auto path = folder_ / "z.json.gz";
  for (const char* text : {"[{\"a\":1},", "{\"a\":2}]"}) {
    gzFile out = gzopen(path.c_str(), "ab");
    gzputs(out, text);
    gzclose(out);
  }
  EXPECT_EQ(read(path).size(), 2u);
  const auto bytes = read_text(path);
  write_text(path, bytes.substr(0, bytes.size() - 12));
  EXPECT_CONTAINS(error_of([&] { read(path); }), "damaged or cut off");
  auto turned = bytes;
  turned[14] = static_cast<char>(turned[14] ^ 0x55);
  write_text(path, turned);
  EXPECT_NE(error_of([&] { read(path); }), "");
}

// What must be accepted is, what must be refused is, with line and column; what is left open may go either way.
TEST_F(RecordFile, JsonTestSuite) {
  const auto archive = shared_data() + "/data/malformed/jsontestsuite.tar.gz";
  if (!std::filesystem::exists(archive)) GTEST_SKIP() << "no reference data at " << archive << "; set ASR_TEST_DATA";
  ASSERT_TRUE(unpack(archive, folder_.path()));
  static const std::regex place(R"(:[0-9]+:[0-9]+: not valid JSON: )");
  int accepted = 0, refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "jsontestsuite/test_parsing")) {
    const auto name = entry.path().filename().string();
    // The same text as a line of JSON lines, where it is one line.
    const auto text = read_text(entry.path().string());
    const bool one_line = text.find('\n') == std::string::npos;
    const auto line = file("line.jsonl", text + "\n");
    std::vector<std::string> paths = {entry.path().string()};
    const bool blank = text.find_first_not_of(" \t\xef\xbb\xbf") == std::string::npos;  // a blank line is no record
    if (one_line && !blank) paths.push_back(line);
    for (const auto& path : paths) {
      std::string error;
      try {
        read(path);
      } catch (const Error& e) {
        error = e.what();
      }
      if (name[0] == 'y') {
        EXPECT_EQ(error, "") << name;
      } else if (name[0] == 'n') {
        EXPECT_TRUE(std::regex_search(error, place)) << name << ": " << error;
      }
    }
    accepted += name[0] == 'y';
    refused += name[0] == 'n';
  }
  EXPECT_EQ(accepted, 95);
  EXPECT_GT(refused, 180);
}

}  // namespace
}  // namespace asr
