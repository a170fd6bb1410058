// What the documents promise a reader: links and named files that exist, an index that is complete, lines that fit a
// screen.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr size_t kColumns = 120;
const fs::path kRoot = ASR_SOURCE_DIR;

struct Line {
  int number;
  std::string text;
};

// The lines outside code blocks: fenced ones, and those indented by four blanks behind an empty line.
std::vector<Line> prose(std::istream& in) {
  std::vector<Line> out;
  bool fenced = false, indented = false, empty_before = true;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const bool empty = line.find_first_not_of(' ') == std::string::npos;
    const bool deep = line.rfind("    ", 0) == 0;
    indented = deep && (indented || empty_before) && !empty;
    empty_before = empty;
    if (line.rfind("```", 0) == 0) fenced = !fenced;
    if (fenced || indented || line.rfind("```", 0) == 0) continue;
    out.push_back({number, line});
  }
  return out;
}

size_t columns(const std::string& text) {  // code points
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::vector<fs::path> documents() {
  std::vector<fs::path> out = {kRoot / "README.md", kRoot / "CHANGELOG.md", kRoot / "CONTRIBUTING.md",
                               kRoot / "assets" / "README.md", kRoot / "examples" / "README.md"};
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "docs"))
    if (entry.path().extension() == ".md") out.push_back(entry.path());
  return out;
}

std::vector<Line> prose_of(const fs::path& file) {
  std::ifstream in(file);
  return prose(in);
}

// A heading's anchor: lower case, blanks to hyphens, everything but letters, digits, hyphens and underscores gone.
std::string anchor_of(const std::string& heading) {
  std::string out;
  for (const char c : heading) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) || c == '-' || c == '_' || byte >= 0x80)
      out += static_cast<char>(std::tolower(byte));
    else if (c == ' ')
      out += '-';
  }
  return out;
}

std::set<std::string> anchors_of(const fs::path& file) {
  std::set<std::string> out;
  for (const auto& line : prose_of(file)) {
    const size_t hashes = line.text.find_first_not_of('#');
    if (hashes != std::string::npos && hashes > 0 && line.text[hashes] == ' ')
      out.insert(anchor_of(line.text.substr(hashes + 1)));
  }
  return out;
}

// One line for every link of a text that leads nowhere; `folder` is where the text lies.
std::string broken_links(const std::string& text, const fs::path& file) {
  static const std::regex link(R"re((?:\]\(|src=")([^)"\s]+)[)"])re");
  std::string out;
  for (std::sregex_iterator match(text.begin(), text.end(), link), end; match != end; ++match) {
    const std::string target = (*match)[1];
    if (target.find("://") != std::string::npos) continue;
    const size_t hash = target.find('#');
    const fs::path path = hash == 0 ? file : file.parent_path() / target.substr(0, hash);
    if (!fs::exists(path))
      out += target + " does not exist\n";
    else if (hash != std::string::npos && !anchors_of(path).count(target.substr(hash + 1)))
      out += target + " has no such heading\n";
  }
  return out;
}

// One line for every file of the repository that is named in backquotes and is not there. Names with a placeholder
// (two capitals, *, {}, <>) stand for many.
std::string missing_files(const std::string& text) {
  static const std::regex name(R"re(`((src|tests|docs|tools|configs|cmake|bench|assets)/[A-Za-z0-9_./-]*)`)re");
  std::string out;
  for (std::sregex_iterator match(text.begin(), text.end(), name), end; match != end; ++match) {
    const std::string path = (*match)[1];
    const bool placeholder = std::regex_search(path, std::regex("[A-Z]{2}"));
    const bool known = fs::exists(kRoot / path) || fs::exists(kRoot / (path + ".safetensors"));
    if (!placeholder && !known) out += path + " does not exist\n";
  }
  return out;
}

TEST(Documents, LinksAndNamedFilesExist) {
  for (const auto& file : documents())
    for (const auto& line : prose_of(file)) {
      EXPECT_EQ(broken_links(line.text, file), "") << file << ":" << line.number;
      EXPECT_EQ(missing_files(line.text), "") << file << ":" << line.number;
    }
}

TEST(Documents, TheArchitecturePageHasEveryHookOfAMethod) {
  static const std::regex hook(R"re(^  virtual [^(]*?(\w+)\()re");
  std::ifstream page(kRoot / "docs" / "architecture.md"), header(kRoot / "src" / "methods" / "method.h");
  const std::string text((std::istreambuf_iterator<char>(page)), {});
  int count = 0;
  std::smatch match;
  for (std::string line; std::getline(header, line);) {
    if (!std::regex_search(line, match, hook) || match[1] == "Method") continue;
    ++count;
    EXPECT_NE(text.find("`" + match[1].str() + "`"), std::string::npos)
        << match[1] << " is not in docs/architecture.md";
  }
  EXPECT_GT(count, 20);
}

TEST(Documents, NoLineOfProseIsWiderThanAScreen) {
  for (const auto& file : documents())
    for (const auto& line : prose_of(file)) {
      const bool table = line.text.find_first_not_of(' ') != std::string::npos && line.text.find('|') <= 4;
      EXPECT_TRUE(table || columns(line.text) <= kColumns)
          << file << ":" << line.number << " has " << columns(line.text);
    }
}

TEST(Documents, TheIndexNamesEveryPage) {
  for (const auto& folder : {kRoot / "docs", kRoot / "docs" / "methods"}) {
    std::ifstream in(folder / "README.md");
    std::stringstream index;
    index << in.rdbuf();
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      const bool page = entry.path().extension() == ".md" && name != "README.md";
      EXPECT_TRUE(!page || index.str().find("](" + name + ")") != std::string::npos)
          << folder << "/README.md does not name " << name;
    }
  }
}

TEST(Documents, TheReadmeNamesTheCommandsToBeginWith) {
  std::ifstream in(kRoot / "README.md");
  std::stringstream readme;
  readme << in.rdbuf();
  EXPECT_NE(readme.str().find("make demo"), std::string::npos);
  EXPECT_NE(readme.str().find("make test"), std::string::npos);
}

TEST(Documents, TheScanSeesWhatIsWrong) {
  const fs::path file = kRoot / "README.md";
  EXPECT_NE(broken_links("see [this](docs/no-such-page.md)", file), "");
  EXPECT_NE(broken_links("see [this](#no-such-heading)", file), "");
  EXPECT_NE(broken_links("<img src=\"docs/no-such-picture.svg\" width=\"49%\">", file), "");
  EXPECT_EQ(broken_links("see [this](docs/maths.md), [that](https://example.com/x)", file), "");
  EXPECT_NE(missing_files("in `src/base/no_such_file.h`"), "");
  EXPECT_EQ(missing_files("in `src/base/error.h`, `src/methods/NAME.cpp` and `assets/parser-small`"), "");
  std::istringstream text("one\n\n    code\n    code\n\ntwo\n  - item\n    goes on\n```\nfenced\n```\nthree\n");
  std::vector<int> numbers;
  for (const auto& line : prose(text)) numbers.push_back(line.number);
  EXPECT_EQ(numbers, (std::vector<int>{1, 2, 5, 6, 7, 8, 12}));
  EXPECT_EQ(anchor_of("Beta chosen on the `tune` split"), "beta-chosen-on-the-tune-split");
}

}  // namespace
