// The tree is the architecture: a folder of src/ may include only itself and the folders above it in this list.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

namespace {

const std::vector<std::string> kOrder = {"base",   "io",      "tensor",  "spectral", "nn",    "attention", "backbones",
                                         "skills", "streams", "metrics", "methods",  "train", "report",    "cli"};
const std::vector<std::string> kTorchFree = {"base", "io", "skills", "streams", "metrics", "report"};
const std::string kParser = "skills/parser/";  // a torch library of its own inside a torch-free folder

int rank_of(const std::string& folder) {
  return static_cast<int>(std::find(kOrder.begin(), kOrder.end(), folder) - kOrder.begin());
}

// One line a violation.
std::string violations(const std::string& folder, const std::string& name, std::istream& in) {
  static const std::regex include(R"re(^\s*#\s*include\s*(["<])([^">]+)[">])re");
  const bool torch_free = std::count(kTorchFree.begin(), kTorchFree.end(), folder) > 0 && name.rfind(kParser, 0) != 0;
  std::string out, line;
  std::smatch match;
  while (std::getline(in, line)) {
    if (!std::regex_search(line, match, include)) continue;
    const std::string target = match[2];
    const std::string first = target.substr(0, target.find('/'));
    if (match[1] == "\"" && rank_of(first) > rank_of(folder)) out += name + " includes " + target + "\n";
    if (match[1] == "<" && torch_free && (first == "torch" || first == "ATen" || first == "c10"))
      out += name + " includes " + target + "\n";
    if (torch_free && target.rfind(kParser, 0) == 0) out += name + " includes " + target + "\n";
    if (target == "torch/torch.h") out += name + " includes torch/torch.h\n";
  }
  return out;
}

TEST(IncludeOrder, EveryFolderIncludesOnlyThoseAboveIt) {
  int files = 0;
  std::string found;
  const auto root = std::filesystem::path(ASR_SOURCE_DIR) / "src";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    const auto relative = std::filesystem::relative(entry.path(), root);
    const std::string folder = relative.begin()->string();
    EXPECT_LT(rank_of(folder), static_cast<int>(kOrder.size())) << "src/" << folder << " is not in the list of folders";
    std::ifstream in(entry.path());
    found += violations(folder, relative.string(), in);
    ++files;
  }
  EXPECT_GT(files, 20);
  EXPECT_EQ(found, "");
}

TEST(IncludeOrder, TheScanSeesAViolation) {
  std::istringstream up("#include \"cli/command.h\"\n"), torch("#include <torch/types.h>\n"),
      parser("#include \"skills/parser/parser.h\"\n"), fine("#include \"base/error.h\"\n");
  EXPECT_NE(violations("spectral", "a.cpp", up), "");
  EXPECT_NE(violations("io", "b.cpp", torch), "");
  EXPECT_NE(violations("streams", "streams/d.cpp", parser), "");
  EXPECT_EQ(violations("io", "c.cpp", fine), "");
}

}  // namespace
