// What docs/methods/README.md says of the methods' files.
#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/support/files.h"

namespace asr {
namespace {

std::map<std::string, int64_t> lines_of_method_files() {
  const std::string folder = ASR_SOURCE_DIR "/src/methods";
  std::map<std::string, int64_t> out;
  std::istringstream list(read_text(folder + "/methods.def"));
  for (std::string line; std::getline(list, line);) {
    static const std::regex entry(R"(^METHOD\((\w+),)");
    std::smatch found;
    if (!std::regex_search(line, found, entry)) continue;
    const auto file = found[1].str() + ".cpp";
    const auto text = read_text(folder + "/" + file);
    out[file] = std::count(text.begin(), text.end(), '\n');
  }
  return out;
}

TEST(MethodPages, SayHowLongAFileIs) {
  const auto page = read_text(ASR_SOURCE_DIR "/docs/methods/README.md");
  const auto begin = page.find("## How long a file is"), end = page.find("\n## ", begin + 1);
  ASSERT_NE(begin, std::string::npos);
  const auto section = page.substr(begin, end - begin);
  const auto table = section.find("\n|");
  std::set<std::string> short_ones;
  std::map<std::string, int64_t> long_ones;
  static const std::regex file("`(\\w+\\.cpp)`"), row("\\| `(\\w+\\.cpp)` \\| (\\d+) \\| [^|]{20,} \\|");
  const auto words = section.substr(0, table), rows = section.substr(table);
  for (std::sregex_iterator it(words.begin(), words.end(), file), none; it != none; ++it) short_ones.insert((*it)[1]);
  for (std::sregex_iterator it(rows.begin(), rows.end(), row), none; it != none; ++it)
    long_ones[(*it)[1]] = std::stoll((*it)[2]);
  const auto lines = lines_of_method_files();
  EXPECT_EQ(short_ones.size() + long_ones.size(), lines.size());
  for (const auto& [name, count] : lines) {
    EXPECT_EQ(short_ones.count(name), count < 100 ? 1u : 0u) << name << " has " << count;
    if (count < 100) continue;
    ASSERT_EQ(long_ones.count(name), 1u) << name << " has " << count;
    EXPECT_NEAR(static_cast<double>(long_ones[name]), static_cast<double>(count), 20) << name;
  }
}

}  // namespace
}  // namespace asr
