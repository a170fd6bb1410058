// The report in a browser: no error on its console, every figure there, and pointing, hiding, highlighting and sorting
// work, at two sizes of the window, light and dark. `make test-browser` asks for it; otherwise it is skipped.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "report/figures.h"
#include "report/page.h"
#include "tests/support/run_folder.h"

namespace asr {
namespace {

struct BrowserWindow {
  int width, height;
  bool dark;
};

// Runs in the page after its own script, and leaves what it saw as JSON in an attribute of the root element.
constexpr const char* kLook = R"js(
window.seen = { errors: [] };
window.addEventListener('error', event => window.seen.errors.push(event.message));
window.addEventListener('load', () => {
  const all = selector => Array.from(document.querySelectorAll(selector));
  const seen = window.seen;
  const click = part => part.dispatchEvent(new MouseEvent('click', { bubbles: true }));
  seen.dark = matchMedia('(prefers-color-scheme: dark)').matches;
  seen.ground = getComputedStyle(document.body).backgroundColor;
  seen.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  seen.sections = all('section').map(part => part.id);
  seen.empty = all('section').filter(part => !part.querySelector('svg, table, .missing, .note, img')).map(part => part.id);

  seen.missing = all('section').filter(part => !part.querySelector('svg, table')).map(part => part.id);

  const tip = document.querySelector('[data-tip]');
  tip.dispatchEvent(new PointerEvent('pointermove', { bubbles: true, clientX: 50, clientY: 50 }));
  seen.tip = document.querySelector('.tip').hidden ? '' : document.querySelector('.tip').textContent;

  const button = document.querySelector('nav.labels button');
  const own = all(`[data-label="${button.dataset.toggle}"]`);
  const hidden = () => own.filter(part => getComputedStyle(part).display === 'none').length;
  click(button);
  seen.own = own.length;
  seen.hidden = hidden();
  click(button);
  seen.shown_again = hidden();

  click(document.querySelector('[data-topic]'));
  seen.chosen = document.body.classList.contains('chosen');
  seen.hits = all('.hit').length;
  seen.others = all('[data-topic]').length - seen.hits;
  document.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }));
  seen.after_escape = all('.hit').length;

  const head = all('table thead th').find(cell => cell.textContent.startsWith('AP'));
  click(head);
  const column = Array.from(head.closest('table').tBodies[0].rows).map(row => parseFloat(row.cells[head.cellIndex].innerText));
  seen.sorted = column;

  // With everything open, no two texts of a drawing touch and none leaves it. Tilted ones have boxes larger than they.
  for (const part of all('details')) part.open = true;
  seen.touching = [];
  seen.cut = [];
  for (const svg of all('svg')) {
    const frame = svg.getBoundingClientRect();
    const texts = Array.from(svg.querySelectorAll('text:not([transform])'))
        .map(text => ({ says: text.textContent, box: text.getBoundingClientRect() })).filter(text => text.box.width > 0);
    texts.forEach((a, i) => {
      if (a.box.left < frame.left - 2 || a.box.right > frame.right + 2 || a.box.bottom > frame.bottom + 3) seen.cut.push(a.says);
      for (const b of texts.slice(i + 1)) {
        const wide = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
        const high = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
        if (wide > 1 && high > 3) seen.touching.push(a.says + ' | ' + b.says);
      }
    });
  }
  seen.wide_open = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  document.documentElement.setAttribute('data-seen', encodeURIComponent(JSON.stringify(seen)));
});
)js";

std::string decoded(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    out += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
    i += 2;
  }
  return out;
}

std::string output_of(const std::string& command) {
  std::string out;
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return out;
  char block[4096];
  for (size_t n; (n = fread(block, 1, sizeof block, pipe)) > 0;) out.append(block, n);
  pclose(pipe);
  return out;
}

class Browser : public testing::TestWithParam<BrowserWindow> {
 protected:
  void SetUp() override {
    if (!std::getenv("ASR_BROWSER")) GTEST_SKIP() << "make test-browser runs it";
    ASSERT_NE(output_of("command -v chromium"), "") << "chromium is not installed; tools/setup.sh browser installs it";
    for (int64_t seed = 0; seed < 2; ++seed)
      for (const char* label : {"vanilla", "asr", "asr-no-angular"}) {
        FabricatedRun run;
        run.label = label;
        run.method = std::string(label).substr(0, 7) == "vanilla" ? "vanilla" : "asr";
        run.seed = seed;
        run.samples = true;
        if (run.method == "vanilla") run.rows = {{80}, {40, 60}, {20, 36, 70}};
        write_run(folder.path(), run);
      }
    FabricatedRun joint;
    joint.label = joint.method = "joint";
    joint.rows = {{80, 80, 80}};
    write_run(folder.path(), joint);
    write_chooser();
    const auto set = load_runs({folder.path()});
    auto page = report_page(set, compare_runs(set, {}), "test");
    page.insert(page.find("<title>"), std::string("<script>") + kLook + "</script>");
    write_text(folder / "page.html", page);
  }

  // A run that chose a slot for each sample, and says why.
  void write_chooser() {
    FabricatedRun run;
    run.label = run.method = "chooser";
    run.samples = true;
    const auto path = write_run(folder.path(), run);
    write_text(path + "/routing.csv",
               "task,stage-1,stage-2,stage-3,base\ncount,19,1,0,0\ncolor,0,20,0,0\nread,2,0,17,1\n");
    write_text(path + "/stages/03/kept.json",
               R"({"stage":3,"items":[{"kind":"statistics","name":"mean","bytes":96,"shape":[3,8],"sha256":""}]})");
    const nlohmann::json line = {{"question_id", 1},
                                 {"question", "How many red circles are to the left of the largest blue square?"},
                                 {"answer", "2"},
                                 {"text", "3"},
                                 {"score", 0},
                                 {"slot", "stage-1"},
                                 {"slots", {{"stage-1", 0.61}, {"stage-2", 0.39}, {"stage-3", 0}}}};
    write_text(path + "/predictions/stage-03-task-01.jsonl", line.dump() + "\n");
  }

  // What the page saw; `console` receives the browser's own words.
  nlohmann::json look(std::string& console) {
    const auto& window = GetParam();
    const std::string log = folder / "console.txt";
    const auto dom = output_of(cat(
        "timeout 60 chromium --headless --no-sandbox --disable-gpu --virtual-time-budget=2000 --enable-logging=stderr ",
        window.dark ? "--blink-settings=preferredColorScheme=0 " : "--blink-settings=preferredColorScheme=1 ",
        "--window-size=", window.width, ",", window.height, " --dump-dom 'file://", folder / "page.html", "' 2>", log));
    console = read_text(log);
    const std::string mark = "data-seen=\"";
    const size_t begin = dom.find(mark);
    if (begin == std::string::npos) return nullptr;
    const size_t from = begin + mark.size();
    return nlohmann::json::parse(decoded(dom.substr(from, dom.find('"', from) - from)));
  }

  TemporaryFolder folder;
};

TEST_P(Browser, ShowsEveryFigureAndAnswers) {
  std::string console;
  const auto seen = look(console);
  ASSERT_TRUE(seen.is_object()) << console;
  EXPECT_EQ(console.find("CONSOLE"), std::string::npos) << console;
  EXPECT_TRUE(seen["errors"].empty()) << seen["errors"];
  EXPECT_EQ(seen["dark"], GetParam().dark);
  EXPECT_EQ(seen["ground"], GetParam().dark ? "rgb(22, 24, 26)" : "rgb(255, 255, 255)");
  EXPECT_LE(seen["wide"].get<int>(), 0) << "the page itself must not scroll sideways";
  const auto sections = seen["sections"].get<std::vector<std::string>>();
  for (const auto& figure : all_figures())
    EXPECT_EQ(std::count(sections.begin(), sections.end(), figure.name), 1) << figure.name;
  EXPECT_EQ(std::count(sections.begin(), sections.end(), kBackbonesName), 1);
  EXPECT_TRUE(seen["empty"].empty()) << seen["empty"];
  // All others have their data: these need a second order and a second backbone.
  EXPECT_EQ(seen["missing"], nlohmann::json({"orders", "backbones"}));
  EXPECT_NE(seen["tip"], "");
  EXPECT_GT(seen["own"].get<int>(), 10);
  EXPECT_EQ(seen["hidden"], seen["own"]);
  EXPECT_EQ(seen["shown_again"], 0);
  EXPECT_TRUE(seen["chosen"].get<bool>());
  EXPECT_GT(seen["hits"].get<int>(), 5) << "in several figures";
  EXPECT_GT(seen["others"].get<int>(), 5);
  EXPECT_EQ(seen["after_escape"], 0);
  const auto column = seen["sorted"].get<std::vector<double>>();
  EXPECT_TRUE(std::is_sorted(column.rbegin(), column.rend())) << seen["sorted"];
  EXPECT_TRUE(seen["touching"].empty()) << seen["touching"];
  EXPECT_TRUE(seen["cut"].empty()) << seen["cut"];
  EXPECT_LE(seen["wide_open"].get<int>(), 0);
}

INSTANTIATE_TEST_SUITE_P(Windows, Browser,
                         testing::Values(BrowserWindow{1280, 900, false}, BrowserWindow{1280, 900, true},
                                         BrowserWindow{390, 844, false}, BrowserWindow{390, 844, true}),
                         [](const auto& window) {
                           return cat(window.param.dark ? "Dark" : "Light", window.param.width);
                         });

}  // namespace
}  // namespace asr
