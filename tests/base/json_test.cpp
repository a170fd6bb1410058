#include "base/json.h"

#include <cmath>

#include "tests/support/files.h"

namespace asr {
namespace {

using nlohmann::json;

std::string message_of(const std::string& text) {
  return error_of([&] { parse_json(text, "f"); });
}

std::string nested(size_t depth, const std::string& open = "[", const std::string& close = "]") {
  std::string out;
  for (size_t i = 0; i < depth; ++i) out += open;
  out += "1";
  for (size_t i = 0; i < depth; ++i) out += close;
  return out;
}

TEST(Json, NestingIsLimited) {
  EXPECT_TRUE(parse_json(nested(500), "f").is_array());
  EXPECT_CONTAINS(message_of(nested(501)), "f:1:501: not valid JSON: nested deeper than 500");
  EXPECT_CONTAINS(message_of(std::string(100000, '[')), "nested deeper than 500");
  EXPECT_CONTAINS(message_of(nested(100000, "{\"a\":", "}")), "nested deeper than 500");
  const auto brackets =
      parse_json("[\"" + std::string(2000, '[') + "\\\"[\", []]", "f");  // those of a text do not count
  EXPECT_EQ(brackets.size(), 2u);
}

TEST(Json, NumbersBeyondADoubleAreRefused) {
  for (const char* number : {"1e999", "-1e999", "[1, {\"a\": 1e400}]"})
    EXPECT_CONTAINS(message_of(number), "not valid JSON: number overflow parsing");
  EXPECT_EQ(parse_json("1e-999", "f").get<double>(), 0);
  EXPECT_GT(parse_json("99999999999999999999", "f").get<double>(), 9e19);
}

TEST(Json, ErrorsSayWhere) {
  EXPECT_CONTAINS(message_of(""), "f:1:1: not valid JSON: ");
  EXPECT_CONTAINS(message_of("{\n \"a\": x}"), "f:2:7: not valid JSON: ");
  EXPECT_CONTAINS(message_of(std::string("[1]\0[", 5)), "f:1:4: not valid JSON: a zero byte");
  EXPECT_CONTAINS(message_of("\"\xff\""), "f:1:2: not valid JSON: ");
  EXPECT_CONTAINS(message_of("[1] 2"), "f:1:5: not valid JSON: ");
  EXPECT_CONTAINS(error_of([] { parse_json("{", "f", 7); }), "f:7:2: not valid JSON: ");
}

TEST(Json, FilesAndLines) {
  TemporaryFolder folder;
  const auto path = folder / "x.json";
  write_text(path, "[1]");
  EXPECT_EQ(read_json(path), json({1}));
  EXPECT_CONTAINS(error_of([&] { read_json_object(path); }), "x.json: is [1], not a JSON object");
  write_text(path, "{\"a\":1}\n\n{\"a\":2}\n{\"a\":1e999}\n");
  int lines = 0;
  EXPECT_CONTAINS(error_of([&] { for_each_json_line(path, [&](const json&, const std::string&) { ++lines; }); }),
                  "x.json:4:1: not valid JSON: number overflow");
  EXPECT_EQ(lines, 2);
}

TEST(Json, FieldsHaveTypes) {
  const json object = {{"text", "a"},
                       {"number", 1.5},
                       {"whole", 3},
                       {"flag", true},
                       {"list", {1}},
                       {"null", {}},
                       {"rows", {{1, nullptr}, {2}}},
                       {"large", UINT64_MAX}};
  const JsonFields fields(object, "f");
  EXPECT_EQ(fields.text("text"), "a");
  EXPECT_EQ(fields.integer("whole"), 3);
  EXPECT_TRUE(fields.flag("flag"));
  EXPECT_EQ(fields.text_or("null", "b"), "b");
  EXPECT_EQ(fields.number("number"), 1.5);
  EXPECT_TRUE(std::isnan(fields.number_or_nan("null")));
  EXPECT_EQ(fields.number_rows("rows")[1], std::vector<double>{2});
  EXPECT_TRUE(std::isnan(fields.number_rows("rows")[0][1]));
  EXPECT_CONTAINS(error_of([&] { fields.text("list"); }), "f: 'list' is [1], not a text");
  EXPECT_CONTAINS(error_of([&] { fields.integer("number"); }), "not a whole number");
  EXPECT_CONTAINS(error_of([&] { fields.integer("large"); }), "not a whole number");
  EXPECT_CONTAINS(error_of([&] { fields.flag("whole"); }), "not true or false");
  EXPECT_CONTAINS(error_of([&] { fields.number("text"); }), "not a number");
  EXPECT_CONTAINS(error_of([&] { fields.number_rows("list"); }), "not a list");
  EXPECT_CONTAINS(error_of([&] { fields.texts("list"); }), "holds 1, not a text");
  EXPECT_CONTAINS(error_of([&] { fields.object("list"); }), "f: list: is [1], not a JSON object");
  EXPECT_CONTAINS(error_of([&] { fields.text("none"); }), "f: key 'none' is missing");
}

}  // namespace
}  // namespace asr
