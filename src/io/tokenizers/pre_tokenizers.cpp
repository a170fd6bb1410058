// Pre-tokenizers of tokenizer.json: a text into words.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "io/tokenizers/parts.h"
#include "io/tokenizers/split_rules.h"

namespace asr {
namespace {

using nlohmann::json;
using Words = std::vector<Characters>;

Characters part(const Characters& text, size_t begin, size_t end) {
  return {text.begin() + static_cast<std::ptrdiff_t>(begin), text.begin() + static_cast<std::ptrdiff_t>(end)};
}

// A step that looks at one word at a time.
PreTokenizer for_each_word(std::function<void(const Characters&, Words&)> split, const std::string& what) {
  return [split = std::move(split), what](const Words& words, size_t most) {
    Words out;
    size_t size = 0;
    for (const auto& word : words) {
      const size_t before = out.size();
      if (!word.empty()) split(word, out);
      for (size_t i = before; i < out.size(); ++i) size += out[i].size();
      check_growth(size, most, what);
    }
    return out;
  };
}

void split_by_rule(const Characters& text, const SplitRule& rule, Words& out) {
  for (size_t i = 0; i < text.size();) {
    const size_t end = word_end(text, i, rule);
    if (!rule.drops_gaps || !is_space(text[i].code)) out.push_back(part(text, i, end));
    i = end;
  }
}

// Characters that are `alone` become words of their own; those that are `dropped` vanish.
void split_at(const Characters& text, const std::function<bool(uint32_t)>& dropped,
              const std::function<bool(uint32_t)>& alone, Words& out) {
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const bool drop = i < text.size() && dropped(text[i].code), single = i < text.size() && alone(text[i].code);
    if (i < text.size() && !drop && !single) continue;
    if (i > begin) out.push_back(part(text, begin, i));
    if (single && !drop) out.push_back(part(text, i, i + 1));
    begin = i + 1;
  }
}

bool is_bert_punctuation(uint32_t c) {
  if (c < 0x80) return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
  return class_of(c) == CharacterClass::Punctuation;
}

// Every UTF-8 byte as a character of GPT-2's alphabet. Where a character is still the one of the text, each byte keeps
// its own place; after normalisation all have the place of the whole.
Characters bytes_as_characters(const Characters& text) {
  Characters out;
  std::string bytes;
  for (const auto& c : text) {
    bytes.clear();
    append_utf8(bytes, c.code);
    const bool same = c.end - c.begin == bytes.size();
    for (size_t k = 0; k < bytes.size(); ++k)
      out.push_back({byte_character(static_cast<uint8_t>(bytes[k])), same ? c.begin + k : c.begin,
                     same ? c.begin + k + 1 : c.end});
  }
  return out;
}

PreTokenizer byte_level(const json& value, const std::string& what) {
  const bool prefix = member(value, "add_prefix_space", true), splits = member(value, "use_regex", true);
  return for_each_word(
      [=](const Characters& word, Words& out) {
        Words parts;
        const bool add = prefix && !is_space(word.front().code);
        const auto text = add ? prepend(word, " ") : word;
        if (splits)
          split_by_rule(text, {WordPattern::gpt2, 0}, parts);
        else
          parts.push_back(text);
        for (const auto& p : parts) out.push_back(bytes_as_characters(p));
      },
      what);
}

PreTokenizer split(const json& value, const std::string& what) {
  const auto behavior = member<std::string>(value, "behavior", "Isolated");
  const auto pattern = value.at("pattern").value("Regex", std::string());
  SplitRule rule;
  check(split_rule(pattern, rule), what, ": the Split pattern '", printable(pattern, 200),
        "' is not supported; known are those of GPT-2, Qwen2, LLaMA 3 and CLIP");
  check((behavior == "Isolated" && !member(value, "invert", false)) ||
            (behavior == "Removed" && member(value, "invert", false)),  // both: the matches are the words
        what, ": Split with behavior '", printable(behavior), "' is not supported; only Isolated is");
  rule.drops_gaps = rule.pattern == WordPattern::clip && behavior == "Removed";
  return for_each_word([rule](const Characters& word, Words& out) { split_by_rule(word, rule, out); }, what);
}

PreTokenizer metaspace(const json& value, const std::string& what) {
  const auto mark = member<std::string>(value, "replacement", "\xe2\x96\x81");
  const auto marks = decode_utf8(mark);
  check(marks.size() == 1, what, ": Metaspace has a replacement that is not one character");
  auto scheme = member<std::string>(value, "prepend_scheme", "always");
  if (value.contains("add_prefix_space") && !member(value, "add_prefix_space", true)) scheme = "never";
  check(scheme == "always" || scheme == "first" || scheme == "never", what,
        ": Metaspace has the unknown prepend_scheme '", printable(scheme), "'");
  const bool splits = member(value, "split", true);
  const uint32_t code = marks[0].code;
  return for_each_word(
      [=](const Characters& word, Words& out) {
        auto text = replace(word, {{' ', 0, 0}}, marks);
        const bool wanted = scheme == "always" || (scheme == "first" && word.front().begin == 0);
        if (wanted && text.front().code != code) text = prepend(std::move(text), mark);
        size_t begin = 0;
        for (size_t i = 1; splits && i < text.size(); ++i) {
          if (text[i].code == code) {
            out.push_back(part(text, begin, i));
            begin = i;
          }
        }
        out.push_back(part(text, begin, text.size()));
      },
      what);
}

PreTokenizer digits(const json& value, const std::string& what) {
  const bool individual = member(value, "individual_digits", false);
  return for_each_word(
      [=](const Characters& word, Words& out) {
        for (size_t i = 0; i < word.size();) {
          const bool number = is_number(word[i].code);
          size_t end = i + 1;
          while (end < word.size() && is_number(word[end].code) == number && !(number && individual)) ++end;
          out.push_back(part(word, i, end));
          i = end;
        }
      },
      what);
}

PreTokenizer sequence(const json& value, const std::string& what) {
  std::vector<PreTokenizer> steps;
  for (const auto& step : value.at("pretokenizers")) steps.push_back(make_pre_tokenizer(step, what));
  return [steps](Words words, size_t most) {
    for (const auto& step : steps) words = step(std::move(words), most);
    return words;
  };
}

// GPT-2: printable Latin-1 bytes stand for themselves, the others for U+0100 on.
struct ByteAlphabet {
  std::array<uint32_t, 256> codes{};
  std::array<int, 512> bytes{};
  ByteAlphabet() {
    bytes.fill(-1);
    uint32_t next = 256;
    for (uint32_t b = 0; b < 256; ++b) {
      const bool printable_byte = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      codes[b] = printable_byte ? b : next++;
      bytes[codes[b]] = static_cast<int>(b);
    }
  }
};
const ByteAlphabet& alphabet() {
  static const ByteAlphabet out;
  return out;
}

}  // namespace

uint32_t byte_character(uint8_t byte) {
  return alphabet().codes[byte];
}
int character_byte(uint32_t code) {
  return code < 512 ? alphabet().bytes[code] : -1;
}

PreTokenizer make_pre_tokenizer(const json& value, const std::string& what) {
  if (value.is_null()) return [](Words words, size_t) { return words; };
  const auto type = type_of(value, what);
  const auto never = [](uint32_t) { return false; };
  const std::function<bool(uint32_t)> space = is_space;
  if (type == "Sequence") return sequence(value, what);
  if (type == "ByteLevel") return byte_level(value, what);
  if (type == "Split") return split(value, what);
  if (type == "Metaspace") return metaspace(value, what);
  if (type == "Digits") return digits(value, what);
  if (type == "BertPreTokenizer")
    return for_each_word([=](const Characters& w, Words& out) { split_at(w, space, is_bert_punctuation, out); }, what);
  if (type == "WhitespaceSplit")
    return for_each_word([=](const Characters& w, Words& out) { split_at(w, space, never, out); }, what);
  if (type == "Punctuation")
    return for_each_word([=](const Characters& w, Words& out) { split_at(w, never, is_bert_punctuation, out); }, what);
  fail(what, ": pre_tokenizer '", printable(type), "' is not supported",
       did_you_mean(type, {"Sequence", "ByteLevel", "Split", "Metaspace", "Digits", "BertPreTokenizer",
                           "WhitespaceSplit", "Punctuation"}));
}

}  // namespace asr
