// What no compiler checks. The tree is the architecture: a folder of src/ may include only itself and the folders above
// it in this list. And a name of namespace asr means one type: two of the same name in one program are undefined
// behaviour that goes unseen until one's inlined function serves the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <vector>

namespace {

const std::vector<std::string> kOrder = {"base",    "io",       "tensor",    "parallel", "ops",     "spectral",
                                         "nn",      "adapters", "backbones", "skills",   "streams", "data",
                                         "metrics", "methods",  "train",     "report",   "cli"};
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

// Types defined in named namespaces, as "namespace::name"; those of anonymous ones and nested ones may repeat.
std::vector<std::string> types_of(std::istream& in) {
  static const std::regex space(R"re(^namespace (\w[\w:]*) \{)re"),
      type(R"re(^(template <.*> )?(class|struct|union|enum|enum class) (\w+)( final)?( : [^;]*)? \{)re");
  std::vector<std::string> spaces, out;
  bool anonymous = false;
  std::smatch match;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("namespace {", 0) == 0) anonymous = true;
    if (std::regex_search(line, match, space)) spaces.push_back(match[1].str() + "::");
    if (line == "}  // namespace")
      anonymous = false;
    else if (line.rfind("}  // namespace", 0) == 0 && !spaces.empty())
      spaces.pop_back();
    if (anonymous || !std::regex_search(line, match, type)) continue;
    std::string name;
    for (const auto& s : spaces) name += s;
    out.push_back(name + match[3].str());
  }
  return out;
}

TEST(OneDefinition, NoTwoTypesShareAName) {
  std::map<std::string, std::string> places;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(std::filesystem::path(ASR_SOURCE_DIR) / "src")) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path());
    for (const auto& name : types_of(in)) {
      const auto [place, fresh] = places.emplace(name, entry.path().string());
      EXPECT_TRUE(fresh) << name << " is defined in " << place->second << " and in " << entry.path();
    }
  }
  EXPECT_GT(places.size(), 200u);
}

// Names that users write, from the list of methods.
std::vector<std::string> method_names() {
  static const std::regex entry(R"re(^METHOD\(\w+, "([^"]+)")re");
  std::ifstream in(std::filesystem::path(ASR_SOURCE_DIR) / "src/methods/methods.def");
  std::vector<std::string> out;
  std::smatch match;
  for (std::string line; std::getline(in, line);)
    if (std::regex_search(line, match, entry)) out.push_back(match[1]);
  return out;
}

// String literals that are a method's name, a composition ("asr+ewc") or an option of its section ("ewc.lambda").
std::vector<std::string> named_methods(std::istream& in, const std::vector<std::string>& methods) {
  std::string any;
  for (const auto& name : methods) any += (any.empty() ? "" : "|") + name;
  const std::regex literal("\"(" + any + ")([.+][\\w.+-]*)?\"");
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) {
    line = line.substr(0, line.find("//"));
    for (std::sregex_iterator match(line.begin(), line.end(), literal), end; match != end; ++match)
      out.push_back((*match)[1]);
  }
  return out;
}

// Methods describe themselves: nothing outside src/methods knows one by its name.
TEST(Methods, AreNamedByTheirOwnFilesAlone) {
  const std::map<std::string, std::vector<std::string>> allowed = {
      {"train/run_options.h", {"asr"}},                 // the default
      {"report/compare.cpp", {"vanilla"}},              // the default baseline
      {"spectral/options.cpp", {"asr"}},                // the section of options that every analysis reads
      {"cli/admit.cpp", {"vanilla", "joint"}},          // what a stream is judged by
      {"train/run_adapter.cpp", {"route"}},             // the file of what adapters are chosen by
      {"train/run_presets.cpp", {"route"}},             // the setting that the project names its best
      {"cli/program.cpp", {"asr"}},                     // the program
      {"cli/processes.cpp", {"asr"}},                   // the program
      {"base/log.cpp", {"asr"}},                        // the program
      {"streams/prepare/vqav2.cpp", {"asr", "vqacl"}},  // variants of a stream, and below a benchmark's name
      {"streams/prepare/prepare_stream.cpp", {"vqacl"}},
      {"streams/published_sizes.cpp", {"vqacl"}},
      {"streams/streams.def", {"vqacl"}},
      {"skills/question_pattern.cpp", {"er"}},  // endings of words
      {"metrics/porter.cpp", {"er"}},
      {"io/wordnet.cpp", {"er"}}};
  const auto methods = method_names();
  ASSERT_GT(methods.size(), 5u);
  const auto root = std::filesystem::path(ASR_SOURCE_DIR) / "src";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const auto name = std::filesystem::relative(entry.path(), root).string();
    if (!entry.is_regular_file() || name.rfind("methods/", 0) == 0 || name == "cli/demo.cpp") continue;
    const auto place = allowed.find(name);
    std::ifstream in(entry.path());
    for (const auto& method : named_methods(in, methods)) {
      const bool fine = place != allowed.end() && std::count(place->second.begin(), place->second.end(), method) > 0;
      EXPECT_TRUE(fine) << "src/" << name << " names the method '" << method
                        << "'; ask the method (src/methods/method.h) instead";
    }
  }
}

// Whether code overrides a function of this name.
bool overrides(const std::string& code, const std::string& name) {
  return std::regex_search(code, std::regex("\\b" + name + R"re(\([^;{}]*\)[^;{}]*\boverride\b)re"));
}

// What a method may do, one of the small methods of tests/methods does in the runs of EveryFake: a new hook comes with
// its fake.
TEST(Methods, EveryHookHasAFake) {
  const std::map<std::string, std::string> without = {
      {"joint", "fakes have two stages; the method joint is nothing but this, and is in the contract tests"},
      {"native", "fakes have no authors; tests/methods/native_test.cpp goes through every method's settings"},
      {"encoder_folders", "tests/methods/external_encoder_test.cpp writes such a folder for the method that reads one"},
      {"costs", "changes no run; what becomes of it is in tests/train/estimate_test.cpp"}};
  static const std::regex hook(R"re(^  virtual [^(]*?(\w+)\()re");
  const auto root = std::filesystem::path(ASR_SOURCE_DIR);
  std::string fakes;
  for (const auto& entry : std::filesystem::directory_iterator(root / "tests/methods")) {
    if (entry.path().filename().string().rfind("fake_", 0) != 0 || entry.path().extension() != ".h") continue;
    std::ifstream in(entry.path());
    fakes.append(std::istreambuf_iterator<char>(in), {});
  }
  std::ifstream header(root / "src/methods/method.h");
  int count = 0;
  std::smatch match;
  for (std::string line; std::getline(header, line);) {
    if (!std::regex_search(line, match, hook) || match[1] == "Method") continue;
    ++count;
    const bool excused = without.count(match[1]) > 0;
    EXPECT_NE(overrides(fakes, match[1]), excused)
        << match[1] << (excused ? " has a fake now" : ": no fake in tests/methods/fake_*.h overrides it");
  }
  EXPECT_GT(count, 25);
}

TEST(Methods, TheScanSeesOverrides) {
  const std::string code = "void route(Context& c,\n  int) const override {\n  after_step(c);\n  state(c); }\n";
  EXPECT_TRUE(overrides(code, "route"));
  for (const char* name : {"after_step", "state", "oute"}) EXPECT_FALSE(overrides(code, name)) << name;
}

// Loops whose header does more after a round than to move on, as in (...; ++i, p += 3). Lines are formatted, so that no
// header of that kind is broken.
std::vector<std::string> joined_headers(std::istream& in) {
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) {
    const size_t begin = line.find("for (");
    if (begin == std::string::npos) continue;
    int depth = 0, parts = 0;
    for (size_t i = begin + 4; i < line.size(); ++i) {
      const char c = line[i];
      if (c == '(' || c == '[' || c == '{') ++depth;
      if (c == ')' || c == ']' || c == '}') --depth;
      if (depth == 0) break;
      if (c == ';' && depth == 1) ++parts;
      if (c != ',' || depth != 1 || parts != 2) continue;
      out.push_back(line);
      break;
    }
  }
  return out;
}

TEST(OneStatementALine, LoopHeadersMoveOnAndNothingElse) {
  const std::filesystem::path root(ASR_SOURCE_DIR);
  for (const char* folder : {"src", "tests", "bench", "examples"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file() || entry.path().filename() == "source_scan_test.cpp") continue;
      std::ifstream in(entry.path());
      for (const auto& line : joined_headers(in)) ADD_FAILURE() << entry.path() << ": " << line;
    }
  std::istringstream in(
      "for (int i = 0; i < n; ++i, p += 3) {\nfor (int i = 0, j = 1; i < f(n, 2); i += g(1, 2)) h(i, j);\n");
  EXPECT_EQ(joined_headers(in).size(), 1u);
}

TEST(Methods, TheScanSeesNames) {
  std::istringstream in(
      "if (m == \"ewc\" || has(\"asr+ewc\")) f(\"er.buffer\");\n// \"ewc\"\nf(\"ewc lambda\", \"never\");\n");
  EXPECT_EQ(named_methods(in, {"ewc", "er", "asr"}), (std::vector<std::string>{"ewc", "asr", "er"}));
}

TEST(OneDefinition, TheScanSeesTypes) {
  std::istringstream in(
      "namespace asr {\nnamespace {\nstruct Hidden {\n}  // namespace\nclass A final : public B {\n"
      "struct A::Part {\n  struct Inner {\nenum class E {\nclass Only;\ntemplate <> struct S<int> {\n"
      "}  // namespace asr\nnamespace asr::world {\nstruct W {\n");
  EXPECT_EQ(types_of(in), (std::vector<std::string>{"asr::A", "asr::E", "asr::world::W"}));
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
