// vocab.json and merges.txt, the byte-level BPE of GPT-2, Qwen2 and CLIP as transformers' Python tokenizers save it.
// The two files say nothing about normalising and cutting into words: that is fixed by the class that
// tokenizer_config.json names, so that the same parts are put together as in the tokenizer.json of that class.
#include <map>

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

constexpr const char* kClipWords = "'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+";
constexpr const char* kClipBegin = "<|startoftext|>";
constexpr const char* kClipEnd = "<|endoftext|>";

enum class Family { gpt2, qwen2, clip };
struct Kind {
  Family family = Family::gpt2;
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
  static const std::map<std::string, Family> known = {
      {"Qwen2Tokenizer", Family::qwen2}, {"GPT2Tokenizer", Family::gpt2}, {"CLIPTokenizer", Family::clip}};
  check(known.count(name), folder, ": vocab.json and merges.txt of ",
        given.empty() ? "a tokenizer whose class tokenizer_config.json does not name"
                      : "tokenizer_class '" + printable(given) + "'",
        " are not supported; known: Qwen2Tokenizer, GPT2Tokenizer, CLIPTokenizer; or take the model's tokenizer.json");
  return {known.at(name), false};
}

// Words as matches of a pattern, each then as bytes.
json cut_by(const char* pattern, bool gaps_stay, const json& bytes) {
  const json cut = {{"type", "Split"},
                    {"pattern", {{"Regex", pattern}}},
                    {"behavior", gaps_stay ? "Isolated" : "Removed"},
                    {"invert", !gaps_stay}};
  return {{"type", "Sequence"}, {"pretokenizers", {cut, bytes}}};
}

// CLIP: spaces as one, lower case, and a mark at the end of a word instead of a space before it.
void add_clip_parts(json& value) {
  const json spaces = {{"type", "Replace"}, {"pattern", {{"Regex", "\\s+"}}}, {"content", " "}};
  value["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, spaces, {{"type", "Lowercase"}}}}};
  value["model"]["end_of_word_suffix"] = "</w>";
  value["model"]["unk_token"] = kClipEnd;
}

// The two that stand around a text: its vocabulary holds them, and older folders say nothing of them elsewhere.
std::vector<AddedToken> clip_tokens(const json& vocabulary) {
  std::vector<AddedToken> out;
  for (const char* piece : {kClipBegin, kClipEnd}) {
    if (!vocabulary.is_object() || !vocabulary.value(piece, json()).is_number_integer()) continue;
    AddedToken token;
    token.content = piece;
    token.id = vocabulary.at(piece).get<int64_t>();
    token.special = true;
    out.push_back(token);
  }
  return out;
}

std::unique_ptr<PipelineTokenizer> build(const std::string& vocabulary, const std::string& merges, const Kind& kind,
                                         const std::string& folder, const std::vector<AddedToken>& extra) {
  const auto vocabulary_path = folder + "/vocab.json";
  const json bytes = {
      {"type", "ByteLevel"}, {"add_prefix_space", kind.prefix_space}, {"use_regex", kind.family == Family::gpt2}};
  json words = bytes;
  if (kind.family == Family::qwen2) words = cut_by(kQwen2Words, true, bytes);
  if (kind.family == Family::clip) words = cut_by(kClipWords, false, bytes);
  json value = {{"pre_tokenizer", words},
                {"decoder", bytes},
                {"model", {{"type", "BPE"}, {"merges", read_merges(merges, folder + "/merges.txt")}}}};
  if (kind.family == Family::qwen2) value["normalizer"] = {{"type", "NFC"}};
  if (kind.family == Family::clip) add_clip_parts(value);
  value["model"]["vocab"] = parse_tokenizer_json(vocabulary, vocabulary_path);
  auto tokens = extra;
  if (kind.family == Family::clip)
    for (auto& token : clip_tokens(value["model"]["vocab"])) tokens.push_back(std::move(token));
  return build_from_parts(value, vocabulary_path, tokens);
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
  kind.prefix_space = kind.family == Family::gpt2 && space != config.end() && space->is_boolean() && space->get<bool>();
  return build(read_file(folder + "/vocab.json"), read_file(folder + "/merges.txt"), kind, folder, extra);
}

std::unique_ptr<Tokenizer> tokenizer_from_vocabulary(const std::string& vocabulary, const std::string& merges,
                                                     const std::string& tokenizer_class, const std::string& folder) {
  return build(vocabulary, merges, kind_of(tokenizer_class, folder), folder, {});
}

}  // namespace asr
