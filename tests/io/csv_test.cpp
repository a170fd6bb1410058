// CSV by RFC 4180, and the names that go into it.
#include "io/csv.h"

#include "io/task_names.h"
#include "tests/support/files.h"

namespace asr {
namespace {

using Texts = std::vector<std::string>;

TEST(Csv, WhatIsWrittenIsReadAgain) {
  const Texts awkward = {"plain", "a,b",     "\"quoted\"", "\"", " leading", "trailing ", "line\nend", "cr\r\nlf",
                         "",      "tab\tin", "\ttab",      ",",  "größer",   "=1+1",      "\r"};
  std::string line;
  for (const auto& field : awkward) line += (line.empty() ? "" : ",") + csv_field(field);
  const auto records = split_csv("first,row\n" + line + "\nlast\n", "f.csv");
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[1].fields, awkward);
  EXPECT_EQ(records[1].place, "f.csv:2");
  EXPECT_EQ(records[2].place, "f.csv:5") << "two line ends inside quotes";
}

TEST(Csv, SpacesOfPlainFieldsGoAndBlankLinesDoNotCount) {
  const auto records = split_csv("\xef\xbb\xbf a , \"b \" ,c\r\n\r\n  \n1,2,3", "f.csv");
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].fields, (Texts{"a", "b ", "c"}));
  EXPECT_EQ(records[1].place, "f.csv:4");
}

TEST(Csv, BadQuotesNameTheLine) {
  EXPECT_CONTAINS(error_of([] { split_csv("a\n\"b\nc", "f.csv"); }), "f.csv:2: a quoted field does not end");
  EXPECT_CONTAINS(error_of([] { split_csv("\"a\"b", "f.csv"); }), "f.csv:1: text after the closing quote");
}

TEST(Csv, FormulasAreDisarmed) {
  EXPECT_EQ(csv_safe_field("=HYPERLINK(\"x\")"), "\"'=HYPERLINK(\"\"x\"\")\"");
  for (const char* text : {"+1", "-1", "@sum", "\tx"})
    EXPECT_EQ(split_csv_line(csv_safe_field(text), "f")[0], "'" + std::string(text));
  EXPECT_EQ(csv_safe_field("asr-no-angular"), "asr-no-angular");
}

TEST(TaskNames, WhatIsRefused) {
  const auto problem = [](const Texts& names) { return error_of([&] { check_names(names, "stream.json"); }); };
  check_names({"a, b", "\"c\"", " d", "größer", "日本語", std::string(120, 'x')}, "stream.json");
  EXPECT_CONTAINS(problem({"a", "a"}), "stream.json: task 'a' stands twice");
  EXPECT_CONTAINS(problem({""}), "is empty");
  EXPECT_CONTAINS(problem({"a\nb"}), "task 1, 'a\\x0ab', holds a control character");
  EXPECT_CONTAINS(problem({"a", "\x1b[31mred"}), "task 2, '\\x1b[31mred', holds a control character");
  EXPECT_CONTAINS(problem({std::string("\xc2\x9b") + "31m"}), "holds a control character");  // U+009B opens a command
  EXPECT_CONTAINS(problem({"\xe2\x80\xa8"}), "line end");
  EXPECT_CONTAINS(problem({"\xff\xfe"}), "is not UTF-8");
  EXPECT_CONTAINS(problem({std::string(121, 'x')}), "has 121 characters; use at most 120");
  std::string umlauts;
  for (int i = 0; i < 120; ++i) umlauts += "ü";
  EXPECT_EQ(name_problem(umlauts), "") << "characters, not bytes";
  EXPECT_EQ(folder_part(umlauts).size(), 100u);
  EXPECT_EQ(folder_part("x" + umlauts).size(), 99u) << "whole characters";
}

}  // namespace
}  // namespace asr
