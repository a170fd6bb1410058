// vocab.json and merges.txt, the byte-level BPE of GPT-2 and Qwen2 as transformers' Python tokenizers save it. The two
// files say nothing about normalising and cutting into words: that is fixed by the class that tokenizer_config.json
// names, so that the same parts are put together as in the tokenizer.json of that class.

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/text.h"
#include "io/tokenizers/pipeline.h"

namespace asr {
namespace {

using nlohmann::json;

constexpr const char* kQwen2Words =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
    "\\s+(?!\\S)|\\s+";

// One merge a line, "Ġ t"; the first line may name a version.
json read_merges(const std::string& text, const std::string& path) {
  json out = json::array();
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || (number == 1 && line.rfind("#version", 0) == 0)) continue;
    const size_t space = line.find(' ');
    check(space != std::string::npos && space > 0 && space + 1 < line.size() &&
              line.find(' ', space + 1) == std::string::npos,
          path, ":", number, ": '", printable(line), "' is no pair of pieces; copy the file again");
    out.push_back({line.substr(0, space), line.substr(space + 1)});
  }
  return out;
}

struct Kind {
  bool qwen2 = false;         // else GPT-2
  bool prefix_space = false;  // GPT-2 alone looks at it
};

std::string without_fast(std::string name) {
  const std::string fast = "Fast";
  if (name.size() > fast.size() && name.compare(name.size() - fast.size(), fast.size(), fast) == 0)
    name.resize(name.size() - fast.size());
  return name;
}

Kind kind_of(const std::string& given, const std::string& folder) {
  const auto name = without_fast(given);
  check(name == "Qwen2Tokenizer" || name == "GPT2Tokenizer", folder, ": vocab.json and merges.txt of ",
        given.empty() ? "a tokenizer whose class tokenizer_config.json does not name"
                      : "tokenizer_class '" + printable(given) + "'",
        " are not supported; known: Qwen2Tokenizer, GPT2Tokenizer; or take the model's tokenizer.json");
  return {name == "Qwen2Tokenizer", false};
}

std::unique_ptr<PipelineTokenizer> build(const std::string& vocabulary, const std::string& merges, const Kind& kind,
                                         const std::string& folder, const std::vector<AddedToken>& extra) {
  const auto vocabulary_path = folder + "/vocab.json";
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", kind.prefix_space}, {"use_regex", !kind.qwen2}};
  json words = bytes;
  if (kind.qwen2)
    words = {{"type", "Sequence"},
             {"pretokenizers",
              {{{"type", "Split"}, {"pattern", {{"Regex", kQwen2Words}}}, {"behavior", "Isolated"}, {"invert", false}},
               bytes}}};
  json value = {{"pre_tokenizer", words},
                {"decoder", bytes},
                {"model", {{"type", "BPE"}, {"merges", read_merges(merges, folder + "/merges.txt")}}}};
  if (kind.qwen2) value["normalizer"] = {{"type", "NFC"}};
  value["model"]["vocab"] = parse_tokenizer_json(vocabulary, vocabulary_path);
  return build_from_parts(value, vocabulary_path, extra);
}

}  // namespace

std::unique_ptr<PipelineTokenizer> build_from_vocabulary(const std::string& folder,
                                                         const std::vector<AddedToken>& extra) {
  const auto path = folder + "/tokenizer_config.json";
  json config = json::object();
  if (path_exists(path)) config = parse_tokenizer_json(read_file(path), path);
  check(config.is_object(), path, ": not a JSON object");
  const auto name = config.find("tokenizer_class"), space = config.find("add_prefix_space");
  auto kind = kind_of(name != config.end() && name->is_string() ? name->get<std::string>() : "", folder);
  kind.prefix_space = !kind.qwen2 && space != config.end() && space->is_boolean() && space->get<bool>();
  return build(read_file(folder + "/vocab.json"), read_file(folder + "/merges.txt"), kind, folder, extra);
}

std::unique_ptr<Tokenizer> tokenizer_from_vocabulary(const std::string& vocabulary, const std::string& merges,
                                                     const std::string& tokenizer_class, const std::string& folder) {
  return build(vocabulary, merges, kind_of(tokenizer_class, folder), folder, {});
}

}  // namespace asr
