#include "cli/help.h"

#include <algorithm>
#include <sstream>

#include "base/text.h"
#include "base/window.h"

namespace asr {
namespace {

constexpr size_t kColumns = 120, kFewest = 60;  // into a file or a pipe; of a window
constexpr size_t kDescriptions = 45;            // descriptions begin before this column

// Where the words after the last gap begin, as in "  --seed N          of the run": names have no gap before them.
size_t description_column(const std::string& line) {
  const auto gap = line.rfind("  ", std::min(kDescriptions, line.size()));
  return gap == std::string::npos ? 0 : std::min(line.find_first_not_of(' ', gap), line.size());
}

class WindowHelp final : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    const auto window = static_cast<size_t>(output_columns());
    return help_within(CLI::Formatter::make_help(app, std::move(name), mode),
                       window == 0 ? kColumns : std::max(kFewest, window));
  }
};

}  // namespace

std::string help_within(const std::string& text, size_t columns) {
  std::istringstream in(text);
  std::string out;
  for (std::string line; std::getline(in, line);) {
    const size_t begin = description_column(line);
    const auto words = line.size() > columns ? broken(line.substr(begin), columns - begin)
                                             : std::vector<std::string>{line.substr(begin)};
    for (size_t i = 0; i < words.size(); ++i)
      out += (i == 0 ? line.substr(0, begin) : std::string(begin, ' ')) + words[i] + "\n";
  }
  return out;
}

std::shared_ptr<CLI::FormatterBase> help_formatter() {
  return std::make_shared<WindowHelp>();
}

}  // namespace asr
