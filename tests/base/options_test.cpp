#include "base/options.h"

#include "tests/support/files.h"

namespace asr {

enum class Colour { red, green };
template <>
struct EnumNames<Colour> {
  static constexpr const char* names[] = {"red", "green"};
};

namespace {

struct Sample {
  int64_t count = 3;
  double rate = 0.5;
  Colour colour = Colour::green;
  void visit(OptionVisitor& visitor) {
    visitor("count", count, 1, 9, "how many");
    visitor("rate", rate, 0, 1, "how fast");
    visitor("colour", colour, "which");
  }
};

struct Fixture {
  Sample sample;
  OptionTable table;
  Fixture() { table.add("toy", sample); }
  void set(const std::string& text) { table.set(parse_assignment(text, "--set")); }
};

TEST(Options, OneDeclarationServesSettingHelpAndManifest) {
  Fixture f;
  f.set("toy.count=7");
  f.set("toy.rate=1e-2");
  f.set("toy.colour=red");
  EXPECT_EQ(f.sample.count, 7);
  EXPECT_EQ(f.sample.rate, 0.01);
  EXPECT_EQ(f.sample.colour, Colour::red);
  EXPECT_EQ(f.table.manifest().dump(), R"({"toy":{"colour":"red","count":7,"rate":0.01}})");
  EXPECT_CONTAINS(f.table.help(), "toy.count   3  (1..9)");
  EXPECT_CONTAINS(f.table.help(), "green  (red|green)");
}

TEST(Options, ManifestReadsBack) {
  Fixture f, g;
  f.set("toy.rate=0.1");
  for (const auto& assignment : manifest_assignments(f.table.manifest(), "file")) g.table.set(assignment);
  EXPECT_EQ(f.table.manifest(), g.table.manifest());
}

TEST(Options, BadOnesNameKeyAndRemedy) {
  Fixture f;
  EXPECT_CONTAINS(error_of([&] { f.set("toy.cout=1"); }), "did you mean 'toy.count'?");
  EXPECT_CONTAINS(error_of([&] { f.set("rate=1"); }), "did you mean 'toy.rate'?");
  EXPECT_CONTAINS(error_of([&] { f.set("toy.count=10"); }), "whole number from 1 to 9");
  EXPECT_CONTAINS(error_of([&] { f.set("toy.count=1.5"); }), "toy.count=1.5");
  EXPECT_CONTAINS(error_of([&] { f.set("toy.rate=nan"); }), "number from 0 to 1");
  EXPECT_CONTAINS(error_of([&] { f.set("toy.colour=gren"); }), "did you mean 'green'?");
  EXPECT_CONTAINS(error_of([&] { f.set("toy.colour"); }), "key=value");
  EXPECT_CONTAINS(error_of([&] { f.set("=3"); }), "key=value");
  EXPECT_EQ(f.sample.count, 3) << "a refused value must change nothing";
}

TEST(OptionsYaml, NestedMapsBecomeDottedKeysWithTheirLines) {
  const auto list = parse_yaml_options("# comment\ntoy:\n  count: 4\n  colour: red\nother.key: 1\n", "f.yaml");
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].key, "toy.count");
  EXPECT_EQ(list[0].value, "4");
  EXPECT_EQ(list[0].origin, "f.yaml:3");
  EXPECT_EQ(list[2].key, "other.key");
  EXPECT_TRUE(parse_yaml_options("", "f.yaml").empty());
  EXPECT_EQ(parse_yaml_options("# options\n---\na: 1\n", "f.yaml").size(), 1u);
}

TEST(OptionsYaml, BadFilesNameTheLine) {
  const auto message = [](const std::string& text) { return error_of([&] { parse_yaml_options(text, "f.yaml"); }); };
  EXPECT_CONTAINS(message("toy:\n  count: 1\n  count: 2\n"), "f.yaml:3: key 'count' stands twice");
  EXPECT_CONTAINS(message("toy: [1, 2\n"), "not valid YAML");
  EXPECT_CONTAINS(message("toy:\n  - a: 1\n"), "needs a plain value or a list of plain values");
  EXPECT_CONTAINS(message("toy: [\"a,b\"]\n"), "a comma or bracket");
  EXPECT_CONTAINS(message(","), "f.yaml:1");
  EXPECT_CONTAINS(message("just text"), "expected 'key: value'");
  EXPECT_CONTAINS(message("? [a, b]\n: 1\n"), "plain word");
  EXPECT_CONTAINS(message("toy.count: 1\ntoy:\n  count: 2\n"), "option 'toy.count' stands twice");
  EXPECT_CONTAINS(message("a: 1\n---\nb: 2\n"), "f.yaml:2: a second YAML document");
  EXPECT_CONTAINS(message("a: 1\n...\n# so far\nb: 2\n"), "f.yaml:4: a second YAML document");
  std::string bomb = "a0: &a0 {}\n";
  for (int i = 1; i < 14; ++i) {
    bomb += cat("a", i, ": &a", i, " {");
    for (int j = 0; j < 10; ++j) bomb += cat(j ? ", " : "", "k", j, ": *a", i - 1);
    bomb += "}\n";
  }
  EXPECT_CONTAINS(message(bomb), "too large");
  std::string deep;
  for (int i = 0; i < 40; ++i) deep += std::string(i, ' ') + "a:\n";
  EXPECT_CONTAINS(message(deep + std::string(40, ' ') + "b: 1\n"), "nested too deeply");
}

}  // namespace
}  // namespace asr
