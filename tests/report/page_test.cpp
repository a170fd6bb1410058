// The report page: complete, self-contained, escaped, and honest about what is missing.
#include "report/page.h"

#include <cmath>
#include <set>

#include "base/text.h"
#include "report/chart.h"
#include "report/colors.h"
#include "report/figure_files.h"
#include "report/figures.h"
#include "report/markup.h"
#include "report/page_parts.h"
#include "report/svg.h"
#include "tests/support/run_folder.h"

namespace asr {
namespace {

FabricatedRun logged_run(const std::string& label, int64_t seed = 0) {
  FabricatedRun run;
  run.label = label;
  run.method = label;
  run.seed = seed;
  return run;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

// Every element that is opened is closed, in order; enough to catch a forgotten end tag.
std::string first_imbalance(const std::string& html) {
  std::vector<std::string> open;
  for (size_t at = 0; (at = html.find('<', at)) != std::string::npos; ++at) {
    const size_t end = html.find('>', at);
    const std::string tag = html.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(tag[0] == '/', tag.find_first_of(" \n", 1) - (tag[0] == '/'));
    if (tag[0] == '!' || tag.back() == '/' || name == "meta" || name == "img" || name == "br") continue;
    if (tag[0] != '/') {
      open.push_back(name);
      continue;
    }
    if (open.empty() || open.back() != name)
      return "</" + name + "> closes " + (open.empty() ? "nothing" : open.back());
    open.pop_back();
  }
  return open.empty() ? "" : "<" + open.back() + "> is not closed";
}

// Pictures and data in base64 may spell anything.
std::string without_data(std::string html) {
  for (size_t at = 0; (at = html.find(";base64,", at)) != std::string::npos; ++at)
    html.erase(at, html.find('"', at) - at);
  return html;
}

class Page : public testing::Test {
 protected:
  std::string page() {
    set = load_runs({folder.path()});
    comparison = compare_runs(set, {});
    return report_page(set, comparison, "asr <test>");
  }
  TemporaryFolder folder;
  RunSet set;
  Comparison comparison;
};

TEST(Markup, Escapes) {
  EXPECT_EQ(escaped("<a href=\"x\">&'\x01\x7f"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
  EXPECT_EQ(shortened("größer", 3), "grö…");
  EXPECT_EQ(shortened("größe", 5), "größe");
}

TEST(Markup, Base64OfTheStandard) {  // RFC 4648, section 10
  const char* plain[] = {"", "f", "fo", "foo", "foob", "fooba", "foobar"};
  const char* coded[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
  for (int i = 0; i < 7; ++i) EXPECT_EQ(base64(plain[i]), coded[i]);
  EXPECT_EQ(base64(std::string("\0\xff\xfe", 3)), "AP/+");
}

TEST(Colors, TextIsReadableOnEveryCell) {
  const auto linear = [](uint8_t channel) {
    const double c = channel / 255.0;
    return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  };
  double before = 1;
  for (int i = 0; i <= 100; ++i) {
    const Rgb color = cell_color(i / 100.0);
    const double luminance = 0.2126 * linear(color.r) + 0.7152 * linear(color.g) + 0.0722 * linear(color.b);
    const bool white = std::string(text_color_on(color)) == "#fff";
    EXPECT_GE(white ? 1.05 / (luminance + 0.05) : (luminance + 0.05) / 0.05, 4.5) << i;
    EXPECT_LE(luminance, before) << "lightness alone tells the value";
    before = luminance;
  }
}

TEST(Svg, TicksAndCoordinates) {
  EXPECT_EQ(nice_ticks(0, 100, 5), (std::vector<double>{0, 20, 40, 60, 80, 100}));
  EXPECT_EQ(nice_ticks(1, 3, 6), (std::vector<double>{1, 1.5, 2, 2.5, 3}));
  EXPECT_EQ(nice_ticks(2, 2, 6), (std::vector<double>{2}));
  EXPECT_EQ(coordinate(3.0), "3");
  EXPECT_EQ(coordinate(-0.01), "0");
  EXPECT_EQ(coordinate(NAN), "0");
}

TEST(Charts, SurviveAwkwardData) {
  Chart chart;
  for (const std::vector<double>& y : {std::vector<double>{}, {NAN, NAN}, {5}, {5, 5}, {1e30, -1e30}, {INFINITY, 1}}) {
    Series series;
    for (size_t i = 0; i < y.size(); ++i) series.x.push_back(static_cast<double>(i));
    series.y = y;
    series.markers = true;
    chart.series = {series};
    const auto svg = draw(chart);
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
    EXPECT_EQ(first_imbalance(svg), "");
  }
}

TEST_F(Page, IsCompleteAndSelfContained) {
  for (int64_t seed = 0; seed < 2; ++seed)
    for (const char* label : {"vanilla", "asr"}) write_run(folder.path(), logged_run(label, seed));
  auto joint = logged_run("joint");
  joint.rows = {{80, 80, 80}};
  joint.replay_free = false;
  write_run(folder.path(), joint);
  const auto html = page();
  EXPECT_EQ(first_imbalance(html), "");
  for (const auto& figure : all_figures()) EXPECT_CONTAINS(html, figure.title);
  EXPECT_EQ(count_of(html, "class=\"missing\""), 7u)
      << "variants, orders, routing, backbones; distances, six numbers and the theorem of all labels";
  EXPECT_EQ(count_of(html, "<script>"), 1u);
  EXPECT_EQ(page_script().find('<'), std::string::npos) << "the script must not open a tag";
  EXPECT_LT(count_of(page_script(), "\n"), 500u);
  EXPECT_EQ(html.find("http"), std::string::npos) << "no outside resource";
  EXPECT_EQ(html.find("url("), std::string::npos);
  EXPECT_EQ(without_data(html).find("nan"), std::string::npos);
  EXPECT_CONTAINS(html, "c0ffee");
  EXPECT_CONTAINS(html, "asr run " + (folder / "config.yaml"));
  EXPECT_CONTAINS(html, "mean of 2 runs");
  EXPECT_CONTAINS(html, "all at once");
  EXPECT_CONTAINS(html, "class=\"band f0\"");
  EXPECT_CONTAINS(html, "asr &lt;test&gt;");
  EXPECT_CONTAINS(html, "yes: not replay-free");
  EXPECT_EQ(html, page()) << "the same runs, the same bytes";
}

TEST_F(Page, QuestionsAreText) {
  write_run(folder.path(), logged_run("asr"));
  const auto html = page();
  EXPECT_CONTAINS(html, "How many &lt;b&gt;red&lt;/b&gt; circles &amp; squares?");
  EXPECT_EQ(html.find("<b>red"), std::string::npos);
  // Two examples, each with its image once, and a map as first learnt and at the end.
  EXPECT_EQ(count_of(html, "<defs>"), 2u);
  EXPECT_EQ(count_of(html, "opacity=\"0.55\" href=\"data:image/png;base64,iVBOR"), 4u);
}

TEST_F(Page, UnseenCellsAreBlank) {
  write_run(folder.path(), logged_run("asr"));
  page();
  // Zero-shot 3, stages 1 + 2 + 3.
  EXPECT_EQ(count_of(figure_score_matrices(comparison.tables[0]).html, "class=\"cell\""), 9u);
}

TEST_F(Page, DrawingsAsFilesOfTheirOwn) {
  for (const char* label : {"vanilla", "asr+ewc"}) write_run(folder.path(), logged_run(label));
  page();
  std::set<std::string> names;
  std::vector<std::string> unread;
  for (const auto& file : figure_files(comparison, unread)) {
    EXPECT_TRUE(names.insert(file.name).second) << file.name << " stands twice";
    if (ends_with(file.name, ".csv")) {
      EXPECT_GT(count_of(file.content, "\n"), 1u) << file.name;
      continue;
    }
    EXPECT_EQ(file.content.rfind("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", 0), 0u) << file.name;
    EXPECT_EQ(first_imbalance(file.content), "") << file.name;
    EXPECT_CONTAINS(file.content, "fill: #1a1a1a");
    EXPECT_CONTAINS(file.content, "prefers-color-scheme: dark");
    EXPECT_EQ(file.content.find("var("), std::string::npos) << "only browsers know variables";
    EXPECT_CONTAINS(file.content, ".mark {");
    EXPECT_EQ(file.content.find("max-width"), std::string::npos) << "the page's size, not the file's";
  }
  EXPECT_TRUE(unread.empty());
  EXPECT_TRUE(names.count("score_matrices-score-matrix-of-vanilla.svg"));
  EXPECT_TRUE(names.count("score_matrices-score-matrix-of-asr-ewc.svg"));
  EXPECT_GT(names.size(), 4u);
}

TEST_F(Page, BeginsWithScoresAndEndsWithSettings) {
  write_run(folder.path(), logged_run("asr"));
  const auto html = page();
  EXPECT_LT(html.find("class=\"answer\""), html.find("<table>"));
  EXPECT_LT(html.find("Score matrix of asr"), html.find("<section"));
  EXPECT_LT(html.find("</section>"), html.find("id=\"reproduce\""));
}

TEST_F(Page, SaysWhatIsMissing) {
  auto bare = logged_run("asr");
  bare.log = bare.predictions = bare.analysis = false;
  write_run(folder.path(), bare);
  std::filesystem::remove(folder / "config.yaml");
  std::filesystem::remove(folder / "fingerprint.json");
  const auto html = page();
  EXPECT_EQ(first_imbalance(html), "");
  EXPECT_CONTAINS(html, "its log.jsonl is absent");
  EXPECT_CONTAINS(html, "no stages/*/analysis.safetensors");
  EXPECT_CONTAINS(html, "its last analysis has no examples");
  EXPECT_CONTAINS(html, "No fingerprint");
  EXPECT_CONTAINS(html, "No command can be given");
}

// A damaged file takes away the figures that need it; the rest of the page stands.
TEST_F(Page, MalformedFilesAreNamedAndTheRestIsShown) {
  const auto run = write_run(folder.path(), logged_run("asr"));
  write_text(run + "/log.jsonl", "{\"loss\":1,\"current_steps\":1}\n{oops\n");
  EXPECT_CONTAINS(page(), "log.jsonl:2:2: not valid JSON");
  write_text(run + "/stages/03/analysis.safetensors", "short");
  const auto html = page();
  EXPECT_CONTAINS(html, "stages/03/analysis.safetensors");
  EXPECT_CONTAINS(html, "Score matrix of asr");
  EXPECT_EQ(first_imbalance(html), "");
}

// Without tags, and without the titles of drawings, which show when pointed at.
std::string shown_text(const std::string& html) {
  std::string out;
  for (size_t at = 0; at < html.size();) {
    if (html[at] != '<') {
      out += html[at++];
      continue;
    }
    const bool title = html.compare(at, 7, "<title>") == 0;
    at = title ? html.find("</title>", at) + 8 : html.find('>', at) + 1;
  }
  return out;
}

// A label, a task and a stream of 200 letters with tags and control characters: escaped, cut, whole on pointing.
TEST_F(Page, LongAndStrangeNames) {
  const std::string bad = "<img src=x onerror=alert(1)>\x01\x1b[31m" + std::string(180, 'w');
  auto run = logged_run("asr");
  run.label = "label" + bad;
  run.tasks[1] = "task<img src=x onerror=alert(1)>" + std::string(80, 'w');  // longer ones are refused
  run.stream = "stream" + bad;
  write_run(folder.path(), run);
  const auto html = page();
  EXPECT_EQ(first_imbalance(html), "");
  EXPECT_EQ(without_data(html).find("<img"), std::string::npos);
  for (const char c : {'\x01', '\x1b'}) EXPECT_EQ(html.find(c), std::string::npos);
  EXPECT_CONTAINS(html, "title=\"label&lt;img src=x onerror=alert(1)&gt;");
  // Paths of files, above and below this, are whole.
  const size_t begin = html.find("<p class=\"answer\">"), end = html.find("<details id=\"reproduce\"");
  const auto shown = shown_text(html.substr(begin, end - begin));
  const size_t place = shown.find(std::string(120, 'w'));
  EXPECT_EQ(place, std::string::npos) << shown.substr(place < 300 ? 0 : place - 300, 500);
}

}  // namespace
}  // namespace asr
