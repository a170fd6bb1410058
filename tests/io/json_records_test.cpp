#include "io/json_records.h"

#include "io/csv.h"
#include "tests/support/files.h"

namespace asr {
namespace {

struct SeenRecord {
  std::string key, place, text;
  bool in_map;
};

std::vector<SeenRecord> records_of(const std::string& text) {
  std::vector<SeenRecord> out;
  read_json_records({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, "f", [&](const JsonRecord& record) {
    out.push_back({record.key, record.place, record.value.dump(), record.in_map});
  });
  return out;
}

TEST(JsonRecords, LinesWithMarksAndCarriageReturns) {
  const auto seen = records_of("\xef\xbb\xbf{\"question_id\":1}\r\n\r\n  \n{\"question_id\":2}");
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].place, "f:1");
  EXPECT_EQ(seen[1].place, "f:4");
  EXPECT_EQ(seen[1].text, "{\"question_id\":2}");
  EXPECT_EQ(records_of("{\"question_id\":1}").size(), 1u);
  EXPECT_EQ(records_of("{\"a\":1}\n{\"a\":2}\n").size(), 2u);
}

TEST(JsonRecords, DocumentsOfArraysAndMaps) {
  const auto array = records_of("[{\"a\":[{\"b\":1}]},\n {\"a\":{}}]");
  ASSERT_EQ(array.size(), 2u);
  EXPECT_EQ(array[0].text, "{\"a\":[{\"b\":1}]}");
  EXPECT_EQ(array[1].place, "f: record 2");

  const auto keyed =
      records_of("{\"info\":{\"x\":1},\n\"annotations\":[{\"answers\":[{\"answer\":\"y\"}]},{}],\"n\":3}");
  ASSERT_EQ(keyed.size(), 3u);
  EXPECT_EQ(keyed[0].key, "info");
  EXPECT_TRUE(keyed[0].in_map);
  EXPECT_EQ(keyed[1].key, "annotations");
  EXPECT_FALSE(keyed[1].in_map);
  EXPECT_EQ(keyed[1].text, "{\"answers\":[{\"answer\":\"y\"}]}");

  const auto map = records_of("{\"12\":{\"answer\":\"yes\",\"types\":{\"x\":[{}]}},\n\"13\":{\"answer\":\"no\"}}");
  ASSERT_EQ(map.size(), 2u);
  EXPECT_EQ(map[0].key, "12");
  EXPECT_EQ(map[0].text, "{\"answer\":\"yes\",\"types\":{\"x\":[{}]}}");
}

TEST(JsonRecords, ErrorsNameLineAndColumn) {
  const auto message = [](const std::string& text) { return error_of([&] { records_of(text); }); };
  EXPECT_CONTAINS(message(""), "f: is empty");
  EXPECT_CONTAINS(message(" \n\t"), "f: is empty");
  EXPECT_CONTAINS(message("{\"question_id\":1}\n{\"question_id\":x}\n"), "f:2:16: not valid JSON");
  EXPECT_CONTAINS(message("{\"question_id\":1}\n[1]\n"), "f:2: expected a JSON object, found array");
  EXPECT_CONTAINS(message("{\"question_id\":NaN}"), "f:1:16: not valid JSON");
  EXPECT_CONTAINS(message("{\"question_id\":1}\n{\"text\":\"\xff\"}\n"), "f:2:10: not valid JSON");
  EXPECT_CONTAINS(message("[{\"a\":1},\n {\"a\":}]"), "f:2:7: not valid JSON");
  EXPECT_CONTAINS(message("[{\"a\":1}"), "f:1:");
  EXPECT_CONTAINS(message("nonsense"), "f:1:");
  EXPECT_CONTAINS(message("3"), "expected JSON objects, found number");
  EXPECT_CONTAINS(message(std::string(200000, '[')), "not valid JSON");
  for (const char* text : {"[1,]", "[1 2]", "[{} {}]", "{\"a\":1,}", "{\"a\" 1}", "{\"a\":[1}", "{a:1}", "[{}]x",
                           "[{},", "{\"a\"", "[\"a]", "[1]]", "{\"a\":}", "[{\"a\":1e999}]", "[,1]"})
    EXPECT_CONTAINS(message(text), "not valid JSON");
  EXPECT_CONTAINS(message("{\"question_id\":1}\n" + std::string(200000, '[')), "f:2:");
}

TEST(Csv, SplitsQuotedFields) {
  using Fields = std::vector<std::string>;
  EXPECT_EQ(split_csv_line(" a ,\"b, \"\"c\"\"\", ,d\r", "f:1"), (Fields{"a", "b, \"c\"", "", "d"}));
  EXPECT_CONTAINS(error_of([] { split_csv_line("\"a", "f:7"); }), "f:7: a quoted field does not end");
}

}  // namespace
}  // namespace asr
